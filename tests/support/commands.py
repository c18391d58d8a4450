"""The command line as the tests use it: a command that must fail, one that notes something, and a real process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from flashstep.app import cli

Captured = pytest.CaptureFixture[str]


def complaint(capsys: Captured, *arguments: str, code: int) -> str:
    """What a command that must fail says: one sentence on standard error, nothing on standard output."""
    assert cli.main(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("flashstep: ")
    assert err.count("\n") == 1
    return err.removeprefix("flashstep: ").strip()


def flashstep(*arguments: str) -> subprocess.Popen[str]:
    """A real process, as a shell would start it."""
    return subprocess.Popen(
        [sys.executable, "-m", "flashstep", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    )


def notes(capsys: Captured, *arguments: str) -> list[str]:
    """What a command that succeeds notes on standard error; its standard output is one JSON text."""
    assert cli.main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    json.loads(out)
    lines = err.splitlines()
    assert all(line.startswith("flashstep: ") for line in lines)
    return [line.removeprefix("flashstep: ") for line in lines]


def heed_signals() -> None:
    """Run in a program's process before it starts: it heeds what the tests themselves were told to ignore, in the
    background or under nohup."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
