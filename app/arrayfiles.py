"""Reading a person's own arrays: `.npy`, `.npz`, `.safetensors`, or numbers pasted as text.

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
import sys
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from ..trace.words import listed
from .tables import short, size

Array = NDArray[np.generic]

# The names that arrays are kept under, and what people call them.
ALIASES = {
    **dict.fromkeys(("q", "query", "queries"), "q"),
    **dict.fromkeys(("k", "key", "keys"), "k"),
    **dict.fromkeys(("v", "value", "values"), "v"),
    **dict.fromkeys(("x", "scores", "logits"), "x"),
    **dict.fromkeys(("key_mask", "keymask", "mask"), "key_mask"),
}
ATTENTION = ("q", "k", "v")
_LOOSE = re.compile(rf"({'|'.join(sorted(ALIASES, key=len, reverse=True))})(?![a-z])")  # q64, K_cache, key-mask.1
NAMING = "the name of a file or entry says which array it is"
SAVED_RUN = b'{"__metadata__":{"flashstep":'  # how the header of a trace file begins
MAX_ENTRIES = 32  # arrays in one .npz or .safetensors
MAX_HEADER = 64 * 1024
MAX_TEXT_NUMBERS = 200_000
MAX_WORD = 1000
MAX_TEXT = 25 * MAX_TEXT_NUMBERS  # characters: the longest number and a space

SAFETENSORS_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "|b1",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1",
}  # fmt: skip


class ArraysError(ValueError):
    """Arrays that cannot be used; the message is one sentence saying what would be right."""


@dataclass(frozen=True)
class Arrays:
    """A person's arrays in the form they are kept in: float32 (`key_mask`: bool), C order.

    `q`, `k`, `v` are (batch, heads, seqlen, head_dim) or (seqlen, head_dim); `x` is (rows, columns);
    `key_mask` is (batch, seqlen_k) or (seqlen_k,), True = visible. `notes` say what was changed on the way in.
    """

    arrays: dict[str, Array]
    notes: tuple[str, ...] = field(default=())

    @property
    def shapes(self) -> dict[str, list[int]]:
        """The shape of each array, by name."""
        return {name: list(array.shape) for name, array in self.arrays.items()}


def read_file(name: str, data: bytes, limit: int) -> dict[str, Array]:
    """The arrays of one file, by the names they carry in it; a `.npy` takes the file's own name.

    `limit` bounds the bytes that may be unpacked. Raises `ArraysError`.
    """
    name = re.split(r"[/\\]", name)[-1]
    stem, _, suffix = name.rpartition(".")
    suffix = suffix.lower()
    name = _short(name)
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
                arrays[entry.filename.removesuffix(".npy")] = read_npy(
                    f"{_short(entry.filename)} in {name}", content
                )
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
        header = json.loads(data[8 : 8 + length])
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
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise damaged from None
    if len(tensors) > MAX_ENTRIES:
        raise ArraysError(f"{name} holds {len(tensors)} arrays; keep at most {MAX_ENTRIES}.")
    decoded = end = 0
    for key, kind, shape, offsets in sorted(tensors, key=lambda tensor: tensor[3]):
        if kind not in SAFETENSORS_TYPES:
            raise ArraysError(f"{_short(key)} in {name} is of type {_short(kind)}; save it as F32.")
        # Tensors that share bytes would decode to many times the file.
        if len(offsets) != 2 or not end <= offsets[0] <= offsets[1] <= len(body):
            raise damaged
        begin, end = offsets
        _check_length(f"{_short(key)} in {name}", tuple(shape), np.dtype(SAFETENSORS_TYPES[kind]).itemsize, end - begin)
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


_HEADING = re.compile(r"^\s*([A-Za-z_]\w*)\s*(?:[:=]\s*(.*))?$")
# None of these looks at a stretch of text twice, however long it is.
_NUMBER = re.compile(r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan|true|false)")
_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_WORD = re.compile(r"(?P<row>\](?:\s*,)?\s*\[)|[^\s,;\[\](){}]+")


def read_text(text: str) -> dict[str, Array]:
    """Matrices from pasted numbers: a heading (`q`, `k`, `v`, `x` or `key_mask`) on a line, then a row a line.

    Numbers stand apart by spaces, commas, semicolons or tabs; brackets are decoration; `inf`, `-inf` and `nan` are
    numbers. Without headings, blank lines part the matrices: three are q, k and v, a single one is x.
    Raises `ArraysError`.
    """
    too_long = ArraysError(f"This is more than {MAX_TEXT_NUMBERS:,} numbers; send a .npy file instead.")
    if len(text) > MAX_TEXT:
        raise too_long
    named: dict[str, list[list[float]]] = {}
    unnamed: list[list[list[float]]] = [[]]
    current: list[list[float]] | None = None
    total = 0
    for number, line in enumerate(map(itemgetter(1), _LINE.finditer(text.replace("−", "-"))), 1):
        heading = _HEADING.match(line)
        if heading and not _NUMBER.fullmatch(heading[1].lower()):
            name = ALIASES.get(heading[1].lower())
            if name is None:
                raise ArraysError(f"Line {number} names “{heading[1]}”; name the matrices q, k and v, or x.")
            if name in named:
                raise ArraysError(f"Line {number} begins {name} a second time; give each matrix once.")
            current = named[name] = []
            line = heading[2] or ""
        elif current is None and not line.strip() and unnamed[-1]:
            unnamed.append([])
        rows: list[list[float]] = [[]]
        for word in _WORD.finditer(line):
            if word["row"]:  # [[1, 2], [3, 4]] on one line is two rows, as NumPy and Python print them
                if rows[-1]:
                    rows.append([])
                continue
            rows[-1].append(_number(word[0], number))
            total += 1
            if total > MAX_TEXT_NUMBERS:
                raise too_long
        (unnamed[-1] if current is None else current).extend(row for row in rows if row)
    loose = [rows for rows in unnamed if rows]
    if named and loose:
        raise ArraysError("Some rows stand before the first name; begin with a line that says q, k, v or x.")
    if loose:
        if len(loose) not in (1, 3):
            raise ArraysError(
                f"There are {len(loose)} matrices without names; begin each with a line that says q, k, v or x."
            )
        named = dict(zip(ATTENTION if len(loose) == 3 else ("x",), loose, strict=True))
    if not named:
        raise ArraysError(
            "There are no numbers here; paste a row of numbers a line, under the names q, k and v."
        )
    return {name: _matrix(name, rows) for name, rows in named.items()}


def _number(word: str, line: int) -> float:
    if len(word) > MAX_WORD or not _NUMBER.fullmatch(word.lower()):
        shown = short(word, 20)
        raise ArraysError(
            f"Line {line} has “{shown}”, which is not a number; write numbers such as 0.5, -inf or 1e-3."
        )
    if word.lower() in ("true", "false"):
        return float(word.lower() == "true")
    number = float(word)
    if math.isinf(number) and "n" not in word.lower():  # 1e999, not inf: kept finite, so that `settle` has its word
        return math.copysign(sys.float_info.max, number)
    return number


def _matrix(name: str, rows: list[list[float]]) -> Array:
    if name == "key_mask":
        return np.array([number for row in rows for number in row], np.float64)
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ArraysError(
                f"Row {index + 1} of {name} has {_count(len(row))} and row 1 has {len(rows[0])}; "
                "give every row as many."
            )
    written = np.array(rows, np.float64).reshape(len(rows), len(rows[0]) if rows else 0)
    with np.errstate(over="ignore"):
        rounded = written.astype(np.float32)
    # Decimals are rounded by everyone who reads them; only what becomes infinite deserves `settle`'s word.
    return written if (np.isinf(rounded) & np.isfinite(written)).any() else rounded


def _short(name: str) -> str:
    """A name from a file, short enough for a sentence."""
    return short(_printable(name), 40)


def _printable(name: str) -> str:
    """A name without the halves of characters that no encoding has."""
    return name.encode("utf-8", "replace").decode()


def _count(count: int) -> str:
    return f"{count} number" if count == 1 else f"{count} numbers"


def _check_length(name: str, shape: tuple[int, ...], itemsize: int, length: int) -> None:
    """A header's promise against the bytes that are there, in Python's integers, which do not overflow."""
    if len(shape) > 8 or any(n < 0 for n in shape) or math.prod(shape) * itemsize != length:
        shown = "×".join(str(n) for n in shape[:8]) or "one number"
        raise ArraysError(
            f"{name} says it is {shown[:80]}, and its data are {length} bytes; the file is damaged: save it again."
        )


def settle(found: dict[str, Array], limit: int = 2**62) -> Arrays:
    """The arrays under the names that kernels know, as float32, with notes on what that changed.

    Unknown names are left out when known ones are there; otherwise three arrays are q, k and v in their order, and a
    single one is x. Raises `ArraysError` for missing, doubled or misshapen ones, and for more than `limit` bytes.
    """
    notes: list[str] = []
    known: dict[str, tuple[str, Array]] = {}
    roles = _roles(found)
    for original, name in roles.items():
        if name in known:
            raise ArraysError(f"{_short(known[name][0])} and {_short(original)} are both {name}; send one of them.")
        known[name] = (original, found[original])
    others = [name for name in found if name not in roles]
    if not any(name in known for name in (*ATTENTION, "x")):
        if len(others) != 3 and not (len(others) == 1 and found[others[0]].ndim == 2):
            raise ArraysError(f"{NAMING.capitalize()}: call them q, k and v (or x).")
        names = ATTENTION if len(others) == 3 else ("x",)
        known |= {name: (other, found[other]) for name, other in zip(names, others, strict=True)}
        notes.append(
            "Taken as "
            + ", ".join(f"{name}: {_short(other)}" for name, other in zip(names, others, strict=True))
            + "."
        )
    elif others:
        notes.append(f"Left out: {', '.join(map(_short, sorted(others)[:8]))}.")
    missing = [name for name in ATTENTION if name not in known]
    if 0 < len(missing) < 3:
        verb = "is" if len(missing) == 1 else "are"
        unknown = f", and {_short(others[0])} names none" if others else ""
        raise ArraysError(f"{listed(missing)} {verb} missing; send q, k and v together: {NAMING}{unknown}.")
    taken = sum(array.size * (1 if name == "key_mask" else 4) for name, (_, array) in known.items())
    if taken > limit:
        raise ArraysError(f"These arrays take {size(taken)} as float32; send at most {size(limit)}.")
    settled: dict[str, Array] = {}
    for name in (*ATTENTION, "x", "key_mask"):
        if name in known:
            original, array = known[name]
            _check_shape(name, array)
            settled[name] = _convert(name, array, notes)
    return Arrays(settled, tuple(notes))


def settle_mask(mask: Array) -> Arrays:
    """A key mask without arrays, which goes with named inputs. Raises `ArraysError` for a shape or numbers of no mask."""
    _check_shape("key_mask", mask)
    return Arrays({"key_mask": _convert("key_mask", mask, [])})


def _roles(names: Iterable[str]) -> dict[str, str]:
    """Which array each name says it is, where it says so. `q` is meant before `q64`, which serves where no `q` is."""
    plain = {name: name.strip().lower().replace("-", "_") for name in names}
    roles = {name: ALIASES[text] for name, text in plain.items() if text in ALIASES}
    taken = {*roles.values()}
    for name, text in plain.items():
        loose = _LOOSE.match(text)
        if name not in roles and loose and ALIASES[loose[1]] not in taken:
            roles[name] = ALIASES[loose[1]]
    return roles


def _check_shape(name: str, array: Array) -> None:
    shape = array.shape or "a single number"
    if name == "key_mask":
        if array.ndim not in (1, 2):
            raise ArraysError(
                f"key_mask is {shape}; give (keys) or (batch, keys), true where a key is visible."
            )
    elif name == "x":
        if array.ndim != 2:
            raise ArraysError(f"x is {shape}; give a matrix of rows by columns.")
    elif array.ndim not in (2, 4):
        raise ArraysError(f"{name} is {shape}; give (seqlen, head_dim) or (batch, heads, seqlen, head_dim).")


def _convert(name: str, array: Array, notes: list[str]) -> Array:
    if name == "key_mask":
        if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
            raise ArraysError(
                "key_mask holds other numbers than 0 and 1; give 1 where a key is visible, 0 where not."
            )
        return np.ascontiguousarray(array.astype(np.bool_))
    with np.errstate(over="ignore"):
        settled = np.array(array, np.float32, order="C")
    settled[np.isnan(settled)] = np.nan  # one NaN, so that the same numbers have the same hash
    if array.dtype not in (np.float32, np.float16):
        overflowed = int(np.count_nonzero(np.isinf(settled) & np.isfinite(array)))
        if overflowed:
            notes.append(
                f"{name} was {array.dtype}: {_count(overflowed)} beyond float32's range became infinite."
            )
        elif not np.array_equal(settled, array.astype(np.float64), equal_nan=True):
            notes.append(f"{name} was {array.dtype} and is rounded to float32, in which the kernels compute.")
    return settled


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
