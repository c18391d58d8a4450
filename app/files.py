"""Files and directories that only their owner may read, and what of them is kept."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path

from ..trace import file

PRIVATE = 0o600
OWN = "[0-9a-f]" * 64 + ".safetensors"  # files named by a hash; what else lies beside them is somebody's own
ABANDONED = ".*.part"  # what `trace.file.write_whole`, or one of an earlier version, writes before it is whole
ABANDONED_SECONDS = file.ABANDONED_SECONDS


def private_directory(path: Path) -> Path:
    """Make `path`, and what is missing above it, for its owner alone; return it. Raises `OSError` when that cannot be.

    What is there already stays as it is: somebody else may have meant it to be shared.
    """
    if not path.is_dir():
        if path.parent != path:
            private_directory(path.parent)
        path.mkdir(exist_ok=True, mode=0o700)
    return path


def unwritable(path: Path) -> str | None:
    """Why nothing can be kept in the folder `path`, which is made where it is missing; None where it can."""
    try:
        with tempfile.TemporaryFile(dir=private_directory(path)):
            return None
    except OSError as error:
        return (error.strerror or str(error)).lower()


def remove_abandoned(directory: Path) -> None:
    """Remove what a killed process left half-written. Young ones stay: another server may be writing them."""
    for path in directory.glob(ABANDONED):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                path.unlink()


def keep_newest(directory: Path, pattern: str, *, count: int, total: int, age: float = float("inf")) -> None:
    """Remove the longest unused files of `directory` until `count`, `total` bytes and `age` seconds hold."""
    entries: list[tuple[float, int, Path]] = []
    for path in directory.glob(pattern):
        with contextlib.suppress(OSError):  # another process may have removed it meanwhile
            status = path.stat()
            entries.append((status.st_mtime, status.st_size, path))
    entries.sort(key=lambda entry: entry[0], reverse=True)
    used = 0
    now = time.time()
    for index, (modified, length, path) in enumerate(entries):
        used += length
        if index >= count or used > total or now - modified > age:
            with contextlib.suppress(OSError):
                path.unlink()
            used -= length


def touch(path: Path) -> None:
    """Mark `path` as used now."""
    with contextlib.suppress(OSError):
        os.utime(path)
