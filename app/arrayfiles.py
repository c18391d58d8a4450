"""Reading arrays from the bytes of files: `.npy`, `.npz`, `.safetensors`, or text; and the one form they are kept in.

Everything here treats its input as untrusted. Nothing is unpickled or evaluated, every header is checked before
memory is taken for what it promises, and whatever is wrong is one sentence that says what would be right.
Nothing here touches the disk.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
import zipfile
import zlib
from functools import partial

import numpy as np

from .arraytext import read_text
from .ownarrays import Array, ArraysError, shown
from .tables import size

SAVED_RUN = b'{"__metadata__":{"flashstep":'  # how the header of a trace file begins
KINDS = ("npy", "npz", "safetensors", "txt", "csv")
MAX_ENTRIES = 32  # arrays in one .npz or .safetensors
MAX_HEADER = 64 * 1024
MAX_NUMBERS = 2**40  # in one array

SAFETENSORS_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "|b1",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1",
}  # fmt: skip


def read_file(name: str, data: bytes, limit: int) -> dict[str, Array]:
    """The arrays of one file, by the names they carry in it; a `.npy` takes the file's own name.

    `limit` bounds the bytes that may be unpacked. Raises `ArraysError`.
    """
    name = re.split(r"[/\\]", name)[-1]
    stem, _, suffix = name.rpartition(".")
    suffix = suffix.lower()
    name = shown(name)
    if data[8:].startswith(SAVED_RUN):
        raise ArraysError(f"{name} is a saved run, not arrays; read it with `flashstep show {name}`.")
    if suffix == "npy":
        return {stem or "array": read_npy(name, data)}
    if suffix == "npz":
        return read_npz(name, data, limit)
    if suffix == "safetensors":
        return read_safetensors(name, data, limit)
    if suffix in ("txt", "csv"):
        try:
            return read_text(data.decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise ArraysError(f"{name} is not text; send numbers in UTF-8, or a .npy file.") from None
    raise ArraysError(
        f"{name} is none of .npy, .npz, .safetensors, .csv or .txt; save the arrays as one of them."
    )


_DESCR = re.compile(r"""['"]descr['"]\s*:\s*['"]([^'"]{1,16})['"]""")
_FORTRAN = re.compile(r"""['"]fortran_order['"]\s*:\s*(True|False)""")
_SHAPE = re.compile(r"""['"]shape['"]\s*:\s*\(([0-9,\s]*)\)""")
_PLAIN = re.compile(r"[<>|=](?:f[248]|[iu][1248]|b1)")


def read_npy(name: str, data: bytes) -> Array:
    """One array from the bytes of a `.npy` file, without copying and without unpickling. Raises `ArraysError`."""
    # NumPy reads the header with Python's own parser. Three patterns know as much of it as plain numbers need.
    damaged = ArraysError(f"{name} is not a readable .npy file; write it with numpy.save.")
    width = {b"\x01\x00": "<H", b"\x02\x00": "<I", b"\x03\x00": "<I"}.get(data[6:8])
    if data[:6] != b"\x93NUMPY" or width is None or len(data) < 12:
        raise damaged
    start = 8 + struct.calcsize(width)
    offset = start + struct.unpack(width, data[8:start])[0]
    if offset > min(len(data), MAX_HEADER):
        raise damaged
    header = data[start:offset].decode("latin-1")
    descr, fortran, shape = _DESCR.search(header), _FORTRAN.search(header), _SHAPE.search(header)
    if fortran is None or shape is None:
        raise damaged
    if descr is not None and "O" in descr[1]:
        raise ArraysError(
            f"{name} holds Python objects, which are never unpickled here; save it as float32 numbers."
        )
    if descr is None or not _PLAIN.fullmatch(descr[1]):
        raise ArraysError(f"{name} does not hold plain real numbers of at most 8 bytes; save it as float32.")
    dtype = np.dtype(descr[1])
    sides = tuple(int(side[:25]) for side in shape[1].replace(",", " ").split())
    _check_length(name, sides, dtype.itemsize, len(data) - offset)
    flat = np.frombuffer(data, dtype, math.prod(sides), offset)
    return flat.reshape(sides, order="F" if fortran[1] == "True" else "C")


def read_npz(name: str, data: bytes, limit: int) -> dict[str, Array]:
    """The arrays of a `.npz` archive, unpacking at most `limit` bytes in all. Raises `ArraysError`."""
    # The archive's end record, checked before zipfile builds its list: numpy.savez writes it last, with no comment,
    # and a lying one could announce millions of entries.
    end = data[-22:]
    directory = struct.unpack("<I", end[12:16])[0] if len(end) == 22 else 0
    plain = end[:4] == b"PK\x05\x06" and data[-42:-38] != b"PK\x06\x07" and directory <= MAX_ENTRIES * 1024
    if not plain:
        raise ArraysError(f"{name} is not a readable .npz file of a few arrays; write it with numpy.savez.")
    unreadable = ArraysError(f"{name} is damaged, encrypted or packed in an unknown way; use numpy.savez.")
    arrays: dict[str, Array] = {}
    left = limit
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_ENTRIES:
                raise ArraysError(f"{name} holds {len(entries)} arrays; keep at most {MAX_ENTRIES}.")
            for entry in entries:
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise unreadable
                # The size that an entry announces may lie, so it bounds nothing: what is read is bounded instead.
                with archive.open(entry) as stream:
                    content = stream.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise ArraysError(f"{name} unpacks to more than {size(limit)}; send smaller arrays.")
                key = entry.filename.removesuffix(".npy")
                if key in arrays:
                    raise ArraysError(f"{name} holds {shown(key)} twice; keep one of them.")
                arrays[key] = read_npy(f"{shown(entry.filename)} in {name}", content)
    except ArraysError:
        raise
    except (zipfile.BadZipFile, zlib.error, struct.error, ValueError, RuntimeError, EOFError, OSError):
        raise unreadable from None
    return arrays


def read_safetensors(name: str, data: bytes, limit: int) -> dict[str, Array]:
    """The tensors of a `.safetensors` file, decoding to at most `limit` bytes in all. Raises `ArraysError`."""
    damaged = ArraysError(
        f"{name} is not a readable .safetensors file; write it with safetensors.numpy.save_file."
    )
    if len(data) < 8:
        raise damaged
    length = struct.unpack("<Q", data[:8])[0]
    if length > min(MAX_HEADER, len(data) - 8):
        raise damaged
    body = memoryview(data)[8 + length :]
    try:
        header = json.loads(data[8 : 8 + length], object_pairs_hook=partial(_each_once, name))
        header.pop("__metadata__", None)
        tensors = [
            (
                key,
                str(tensor["dtype"]),
                [int(n) for n in tensor["shape"]],
                [int(n) for n in tensor["data_offsets"]],
            )
            for key, tensor in header.items()
        ]
    except ArraysError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise damaged from None
    if len(tensors) > MAX_ENTRIES:
        raise ArraysError(f"{name} holds {len(tensors)} arrays; keep at most {MAX_ENTRIES}.")
    decoded = end = 0
    for key, kind, shape, offsets in sorted(tensors, key=lambda tensor: tensor[3]):
        if kind not in SAFETENSORS_TYPES:
            raise ArraysError(f"{shown(key)} in {name} is of type {shown(kind)}; save it as F32.")
        # Tensors that share bytes would decode to many times the file.
        if len(offsets) != 2 or not end <= offsets[0] <= offsets[1] <= len(body):
            raise damaged
        begin, end = offsets
        _check_length(f"{shown(key)} in {name}", tuple(shape), np.dtype(SAFETENSORS_TYPES[kind]).itemsize, end - begin)
        decoded += (end - begin) * (2 if kind == "BF16" else 1)
    if decoded > limit:
        raise ArraysError(f"{name} unpacks to more than {size(limit)}; send smaller arrays.")
    arrays: dict[str, Array] = {}
    for key, kind, shape, offsets in tensors:
        dtype = np.dtype(SAFETENSORS_TYPES[kind])
        array = np.frombuffer(body[offsets[0] : offsets[1]], dtype).reshape(shape)
        if kind == "BF16":  # the upper half of a float32
            array = (array.astype(np.uint32) << 16).view(np.float32)
        arrays[str(key)] = array
    return arrays


def _each_once(name: str, pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object whose names stand once each: of two tensors with one name, nobody could say which is meant."""
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ArraysError(f"{name} holds {shown(key)} twice; keep one of them.")
        found[key] = value
    return found


def _check_length(name: str, shape: tuple[int, ...], itemsize: int, length: int) -> None:
    """A header's promise against the bytes that are there, in Python's integers, which do not overflow as NumPy's do:
    beside a side of 0 any other would fit, so the others are bounded by themselves.
    """
    whole = len(shape) <= 8 and all(n >= 0 for n in shape) and math.prod(n or 1 for n in shape) < MAX_NUMBERS
    if not whole or math.prod(shape) * itemsize != length:
        shown = "×".join(str(n) for n in shape[:8]) or "one number"
        raise ArraysError(
            f"{name} says it is {shown[:80]}, and its data are {length} bytes; the file is damaged: save it again."
        )


def encode(arrays: dict[str, Array]) -> bytes:
    """One `.safetensors` text of `arrays`: equal arrays give equal bytes, so its SHA-256 names the content."""
    header: dict[str, object] = {}
    offset = 0
    parts: list[bytes] = []
    for name in sorted(arrays):
        array = arrays[name]
        part = array.tobytes()
        kind = "BOOL" if array.dtype == np.bool_ else "F32"
        header[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(part)],
        }
        offset += len(part)
        parts.append(part)
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def decode(data: bytes) -> dict[str, Array]:
    """What `encode` wrote, checked again. Raises `ArraysError`."""
    return read_safetensors("the kept file", data, len(data))
