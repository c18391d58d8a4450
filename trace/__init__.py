"""What a run leaves behind: events, the recorder, replay, the ledger, the file format. NumPy only."""

VERSION = "0.1.0"
"""The version of the package, said in one place; the build reads it here."""
