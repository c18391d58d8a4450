"""Trace files: one `.safetensors` file, written whole or not at all, and read with suspicion.

`trace/FORMAT.md` is the contract. Reading never trusts a number: sizes are bounded by the file's own
length, and every index is checked before anything follows it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import stat
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .check import check
from .events import EVENT_COLUMNS, STEP_COLUMNS
from .layout import Meta, TraceError
from .text import strange as strange_text
from .trace import Events, Trace

MAX_FILE_BYTES = 4 * 2**30
PART = ".flashstep-{}.part"  # what a file is called until it is whole, where a file must have a name
ABANDONED_SECONDS = 3600.0


def to_bytes(trace: Trace) -> bytes:
    """The trace as the bytes of a safetensors file. Same trace, same bytes."""
    from safetensors.numpy import save

    tensors: dict[str, NDArray[Any]] = {f"events.{name}": getattr(trace.events, name) for name in EVENT_COLUMNS}
    tensors |= {f"steps.{name}": getattr(trace, f"steps_{name}") for name in STEP_COLUMNS}
    tensors |= {"args": trace.args, "values": trace.values}
    tensors |= {f"outputs.{name}": output for name, output in trace.outputs.items()}
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    meta = trace.meta.to_json()
    # One metadata entry only: the library writes several in no fixed order.
    return save(tensors, {"flashstep": _text({**meta, "digest": _digest(_text(meta), tensors)})})


def _text(meta: dict[str, Any]) -> str:
    return json.dumps(meta, sort_keys=True, allow_nan=False, ensure_ascii=False)


def _digest(text: str, tensors: dict[str, NDArray[Any]]) -> str:
    """The sha256 of a description and of every column: its name, type, shape and numbers, in the order of names."""
    content = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        tensor = tensors[name]
        content.update(f"\n{name} {tensor.dtype.str} {list(tensor.shape)}\n".encode())
        content.update(tensor.reshape(-1).view(np.uint8).data)
    return content.hexdigest()


def save(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write the trace to `path`. A crash or a kill leaves the old file, or none: never half of one.

    Raises TraceError where `path` can be no file, and OSError where it cannot be written, each with one sentence.
    """
    write_whole(Path(path), to_bytes(trace))


def destination(path: Path) -> Path:
    """The file that a write to `path` makes or replaces: links are followed, and only a plain file is ever replaced.

    Raises TraceError, with one sentence, where there can be none.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        kind = stat.S_IFREG  # a new one
    except OSError as error:
        raise TraceError(f"{path} cannot be written: {_why(error)}.") from error
    if kind == stat.S_IFDIR:
        raise TraceError(f"{path} is a folder; name a file in it.")
    if kind != stat.S_IFREG:
        what = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}.get(kind, "device")
        raise TraceError(f"{path} is a {what}, and only a plain file is written whole; name a file.")
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise TraceError(f"{path} cannot be written: there is no folder {target.parent if path.is_symlink() else path.parent}.")
    return target


def write_whole(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write `data` to a file beside `path`, then put it in its place in one move.

    mode: the file's permissions, less the process's umask. Raises as `save` does.
    """
    target = destination(path)
    _remove_abandoned(target.parent)
    part = target.with_name(PART.format(secrets.token_hex(8)))
    try:
        handle, named = _open_beside(part, mode)
    except OSError as error:
        raise OSError(f"{path} cannot be written: nothing new can stand in the folder {target.parent}: {_why(error)}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if not named:
                _name(handle, part)
        os.replace(part, target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(f"{path} cannot be written: {_why(error)}") from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _open_beside(part: Path, mode: int) -> tuple[int, bool]:
    """A new file to write, and whether it has its name: one without is gone with the process, whatever ends it."""
    unnamed = getattr(os, "O_TMPFILE", 0)
    if unnamed and os.path.isdir("/proc/self/fd"):  # by which such a file gets its name
        with contextlib.suppress(OSError):  # not every file system has them
            return os.open(part.parent, os.O_WRONLY | unnamed, mode), False
    return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode), True


def _name(handle: int, part: Path) -> None:
    folder = os.open(part.parent, os.O_RDONLY)
    try:
        # Python follows the link to the open file only where it is told a folder.
        os.link(f"/proc/self/fd/{handle}", part.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _remove_abandoned(folder: Path) -> None:
    """Remove what was being written when a process was killed. Young ones stay: another may be writing them."""
    for part in folder.glob(PART.format("*")):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > ABANDONED_SECONDS:
                part.unlink()


def _why(error: OSError) -> str:
    """What the system says, within a sentence."""
    said = error.strerror or str(error)
    return said[:1].lower() + said[1:]


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a trace file. Raises TraceError, with one sentence, for anything that is not a sound trace."""
    path = Path(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise TraceError(f"{path.name} is not a plain file, as a saved run is.")  # a device need not have an end
        size = status.st_size
        if size > MAX_FILE_BYTES:
            raise TraceError(f"{path.name} is {size} bytes long; a trace file may have {MAX_FILE_BYTES}.")
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path.name} cannot be read: {_why(error)}.") from error
    return from_bytes(data)


def from_bytes(data: bytes) -> Trace:
    """The trace in the bytes of a safetensors file. Raises TraceError as `load` does."""
    header = _header(data)
    if strange := strange_text(dict.fromkeys(header)):
        raise TraceError(f"The trace is damaged: {strange}.")
    text = header.get("__metadata__", {})
    text = text.get("flashstep") if isinstance(text, dict) else None
    if not isinstance(text, str):
        raise TraceError("This safetensors file is not a Flashstep trace: it has no flashstep metadata.")
    described = _parse(text)
    meta = Meta.from_json(described)
    tensors = _tensors(data, header)
    events = Events(**{name: _column(tensors, f"events.{name}", dtype, 1) for name, dtype in EVENT_COLUMNS.items()})
    steps = {
        name: _column(tensors, f"steps.{name}", dtype, 2 if name == "loop" else 1)
        for name, dtype in STEP_COLUMNS.items()
    }
    outputs = {name.removeprefix("outputs."): array for name, array in tensors.items() if name.startswith("outputs.")}
    if not all(output.dtype == np.float32 for output in outputs.values()):
        raise TraceError("The trace is damaged: an output is not of float32.")
    args, values = (_column(tensors, name, np.float32, 1) for name in ("args", "values"))
    trace = Trace(meta, events, steps, args, values, outputs)
    check(trace)
    _verify(described, text, tensors)
    return trace


def _verify(described: object, text: str, tensors: dict[str, NDArray[Any]]) -> None:
    """Raise TraceError unless the file is as it was written. Files of before there were digests have none."""
    digest = described.get("digest") if isinstance(described, dict) else None
    if digest is not None and digest != _digest(text.replace(f'"digest": "{digest}", ', "", 1), tensors):
        raise TraceError("The trace is damaged: something in it has changed since it was written; record it again.")


def _tensors(data: bytes, header: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """The columns, which lie back to back from the header to the end. Raises TraceError."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as load_tensors

    try:
        places = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
        end = max(int(place[1]) for place in places)
    except (TypeError, KeyError, IndexError, ValueError, OverflowError):
        raise TraceError("The trace is damaged: its header does not say where a column stands.") from None
    there = len(data) - 8 - int.from_bytes(data[:8], "little")
    if there < end:
        raise TraceError(f"The trace is cut short: {there:,} bytes of data are left of {end:,}.")
    if there > end:
        raise TraceError(f"The trace is damaged: {there - end:,} bytes stand beyond its end.")
    try:
        return load_tensors(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise TraceError("The trace is damaged: its columns are not as its header describes them.") from error


def _header(data: bytes) -> dict[str, Any]:
    if data.startswith((b"\x93NUMPY", b"PK")):
        raise TraceError(
            "This is a NumPy file of arrays, not a saved run: give it to a kernel first, as flashstep record --arrays does."
        )
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise TraceError("This is not a whole safetensors file: its header is cut short.")
    header = _parse(data[8 : 8 + size])
    if not isinstance(header, dict):
        raise TraceError("This is not a safetensors file: its header is no object.")
    return header


def _parse(text: str | bytes) -> object:
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        raise TraceError("The trace file is damaged: its header is not JSON.") from error


def _finite(text: str) -> float:
    """A number of the header: JSON has no infinity and no NaN, and could not write one that is beyond float64."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number that JSON has")
    return number


def _column(tensors: dict[str, NDArray[Any]], name: str, dtype: type[np.generic], dims: int) -> NDArray[Any]:
    column = tensors.get(name)
    if column is None or column.dtype != dtype or column.ndim != dims or (dims == 2 and column.shape[1] != 2):
        raise TraceError(f"The trace is damaged: column {name} is missing or of another type.")
    return column
