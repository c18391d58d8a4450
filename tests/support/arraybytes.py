"""A person's arrays as the bytes of files, sound and not."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import numpy as np

LIMIT = 2**20
Q, K, V = (np.arange(8, dtype=np.float32).reshape(4, 2) + n for n in range(3))


def npy(array: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def npz(compressed: bool = False, /, **arrays: Any) -> bytes:
    out = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(out, **arrays)
    return out.getvalue()


def npy_header(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    width = "<H" if version[0] == 1 else "<I"
    return b"\x93NUMPY" + version + struct.pack(width, len(header)) + header.encode() + data


def safetensors(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data
