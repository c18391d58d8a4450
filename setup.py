"""The one thing that pyproject.toml cannot say: which folders are packages.

The repository's root is the package `flashstep`, so its subpackages are found by looking at the folders: a person
who adds a kernel adds `kernels/<name>/` and edits no list.
"""

from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
ROOMS = ("app", "kernels", "trace")


def packages() -> list[str]:
    """`flashstep`, and every folder under the rooms that holds Python."""
    folders = {file.parent.relative_to(ROOT) for room in ROOMS for file in (ROOT / room).rglob("*.py")}
    return ["flashstep", *sorted(".".join(("flashstep", *folder.parts)) for folder in folders)]


# script_name keeps this file out of the package that its own folder is.
setup(packages=packages(), script_name="setup.py")
