"""Trace files: one `.safetensors` file, written whole or not at all, and read with suspicion.

`trace/FORMAT.md` is the contract. Reading never trusts a number: sizes are bounded by the file's own
length, and every index is checked before anything follows it.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .check import check
from .events import EVENT_COLUMNS, STEP_COLUMNS
from .layout import Meta, TraceError
from .trace import Events, Trace

MAX_FILE_BYTES = 4 * 2**30


def to_bytes(trace: Trace) -> bytes:
    """The trace as the bytes of a safetensors file. Same trace, same bytes."""
    from safetensors.numpy import save

    tensors: dict[str, NDArray[Any]] = {f"events.{name}": getattr(trace.events, name) for name in EVENT_COLUMNS}
    tensors |= {f"steps.{name}": getattr(trace, f"steps_{name}") for name in STEP_COLUMNS}
    tensors |= {"args": trace.args, "values": trace.values}
    tensors |= {f"outputs.{name}": output for name, output in trace.outputs.items()}
    # One metadata entry only: the library writes several in no fixed order.
    text = json.dumps(trace.meta.to_json(), sort_keys=True, allow_nan=False, ensure_ascii=False)
    return save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, {"flashstep": text})


def save(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write the trace to `path`. A crash or a kill leaves the old file, or none: never half of one."""
    write_whole(Path(path), to_bytes(trace))


def write_whole(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write `data` to a file beside `path`, then put it in its place in one move.

    mode: the file's permissions, less the process's umask.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    except FileNotFoundError:
        raise TraceError(f"{path} cannot be written: there is no folder {path.parent}.") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a trace file. Raises TraceError, with one sentence, for anything that is not a sound trace."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise TraceError(f"{path.name} is {size} bytes long; a trace file may have {MAX_FILE_BYTES}.")
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path.name} cannot be read: {error.strerror or error}.") from error
    return from_bytes(data)


def from_bytes(data: bytes) -> Trace:
    """The trace in the bytes of a safetensors file. Raises TraceError as `load` does."""
    header = _header(data)
    text = header.get("__metadata__", {})
    text = text.get("flashstep") if isinstance(text, dict) else None
    if not isinstance(text, str):
        raise TraceError("This safetensors file is not a Flashstep trace: it has no flashstep metadata.")
    meta = Meta.from_json(_parse(text))
    from safetensors import SafetensorError
    from safetensors.numpy import load as load_tensors

    try:
        tensors = load_tensors(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise TraceError(f"The trace file is damaged: {error}.") from error
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
    return trace


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
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError("The trace file is damaged: its header is not JSON.") from error


def _column(tensors: dict[str, NDArray[Any]], name: str, dtype: type[np.generic], dims: int) -> NDArray[Any]:
    column = tensors.get(name)
    if column is None or column.dtype != dtype or column.ndim != dims or (dims == 2 and column.shape[1] != 2):
        raise TraceError(f"The trace is damaged: column {name} is missing or of another type.")
    return column
