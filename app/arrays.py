"""The person's own arrays, kept under the hash of their content.

A link carries the hash, so that a class opens the same numbers. What is kept is bounded in size, number and age: the
longest unused go first, and a link to arrays that are gone is told so.
"""

from __future__ import annotations

import hashlib
import re
import threading
from pathlib import Path

from ..trace.file import write_whole
from . import files
from .arrayfiles import decode, encode
from .ownarrays import Array, Arrays, ArraysError
from .settings import Settings
from .tables import size

HASH = re.compile(r"[0-9a-f]{64}")
GONE = "These arrays are not kept here any more; send them again, and the link works as before."


class ArrayStore:
    """A directory of arrays named by SHA-256. Safe to use from several threads and several servers at once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._directory = settings.data_directory / "arrays"
        self._lock = threading.Lock()

    def put(self, arrays: Arrays) -> str:
        """Keep `arrays` and return their hash. Raises `ArraysError` when they are too large to keep."""
        data = encode(arrays.arrays)
        limit = min(self._settings.upload_bytes, self._settings.arrays_bytes)
        if len(data) > limit:
            raise ArraysError(f"These arrays take {size(len(data))} as float32; send at most {size(limit)}.")
        name = hashlib.sha256(data).hexdigest()
        with self._lock:
            files.private_directory(self._settings.data_directory)
            files.private_directory(self._directory)
            files.remove_abandoned(self._directory)
            write_whole(self._path(name), data, files.PRIVATE)
            files.keep_newest(
                self._directory,
                files.OWN,
                count=self._settings.arrays_count,
                total=self._settings.arrays_bytes,
                age=self._settings.arrays_days * 86400,
            )
        return name

    def get(self, name: str) -> dict[str, Array] | None:
        """The arrays of a hash, marked as used now; None when they are gone, too old, damaged, or never were."""
        if not HASH.fullmatch(name):
            return None
        path = self._path(name)
        try:
            files.keep_newest(
                self._directory, path.name, count=1, total=2**62, age=self._settings.arrays_days * 86400
            )
            data = path.read_bytes()
        except OSError:
            return None
        if hashlib.sha256(data).hexdigest() != name:
            return None
        files.touch(path)
        try:
            return decode(data)
        except ArraysError:
            return None

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.safetensors"
