"""Trace files: one `.safetensors` file, written whole or not at all, and read with suspicion.

`trace/FORMAT.md` is the contract. Reading never trusts a number: sizes are bounded by the file's own
length, and every index is checked before anything follows it.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .events import EVENT_COLUMNS, NONE, STEP_COLUMNS, Kind
from .layout import ArrayInfo, Meta, TraceError
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


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` to a file beside `path`, then put it in its place in one move."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
    _demand(all(output.dtype == np.float32 for output in outputs.values()), "an output is not of float32")
    args, values = (_column(tensors, name, np.float32, 1) for name in ("args", "values"))
    trace = Trace(meta, events, steps, args, values, outputs)
    _check(trace)
    return trace


def _header(data: bytes) -> dict[str, Any]:
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


def _check(trace: Trace) -> None:
    """Every index of the columns, before anything follows it."""
    meta, events = trace.meta, trace.events
    lengths = {len(getattr(events, name)) for name in EVENT_COLUMNS}
    steps = {len(getattr(trace, f"steps_{name}")) for name in STEP_COLUMNS}
    _demand(len(lengths) == 1 and len(steps) == 1, "columns differ in length")
    count, total = len(trace.steps_kind), len(events)
    _demand(count > 0 and trace.steps_kind[0] == 0 and trace.steps_events[0] == 0, "the start is missing")
    _demand(_all(trace.steps_kind < len(meta.steps)), "a step is of a kind that is not there")
    _demand(_all(trace.steps_caption < len(meta.captions)), "a step has a caption that is not there")
    for name, ends, end in (("events", trace.steps_events, total), ("args", trace.steps_args, len(trace.args))):
        _demand(_all(np.diff(ends.astype(np.int64)) >= 0) and int(ends[-1]) == end, f"the steps' {name} do not add up")
    launch = np.array([step.launch for step in meta.steps])[trace.steps_kind]
    _demand(_all(launch[1:] >= 0), "there is a second start")
    order = (launch.astype(np.int64) << 32) + trace.steps_block
    _demand(_all(np.diff(order[1:]) >= 0), "steps are out of order")
    blocks = np.array([info.blocks for info in meta.launches] + [1], np.int64)
    _demand(_all(trace.steps_block < blocks[launch]), "a step belongs to a block that is not there")
    loops = np.array([len(step.loops) for step in meta.steps])[trace.steps_kind]
    _demand(_all((trace.steps_loop != NONE).sum(axis=1) == loops), "a step's loops are not those of its kind")

    nodes, arrays = len(meta.nodes), len(meta.arrays)
    _demand(_all(events.kind <= max(Kind)), "an event is of an unknown kind")
    for node in (events.src, events.dst):
        _demand(_all((node < nodes) | (node == NONE)), "an event touches something that is not there")
    load, store = events.kind == Kind.LOAD, np.isin(events.kind, (Kind.STORE, Kind.PARTIAL))
    compute = np.isin(events.kind, (Kind.INIT, Kind.FILL, Kind.UPDATE))
    is_array, is_slot = (lambda node: node < arrays), (lambda node: (node >= arrays) & (node < nodes))
    _demand(_all(is_array(events.src[load]) & is_slot(events.dst[load])), "a load does not go from an array to a slot")
    _demand(_all(is_slot(events.src[store]) & is_array(events.dst[store])), "a store does not go from a slot to an array")
    _demand(_all(is_slot(events.dst[compute])), "an event writes to something that is no slot")
    _demand(_all(is_array(events.src[compute]) | (events.src[compute] == NONE)), "a slot stands for something that is no array")
    array = np.where(store, events.dst, events.src)
    touched = is_array(array)
    tiles = np.array([info.tiles for info in meta.arrays] + [0], np.int64)
    limit = tiles[np.minimum(array, arrays)]
    reach = events.tile.astype(np.int64) + events.tiles
    _demand(_all(reach[touched] <= limit[touched]), "an event touches a tile that is not there")
    _demand(_all(events.tiles[load | store] > 0), "a transfer touches no tile")

    slot = np.where(store, events.src, events.dst)
    writes = load | store | compute
    info = meta.nodes
    extent_rows = np.array([node.rows for node in info] + [0], np.int64)
    extent_cols = np.array([node.cols for node in info] + [0], np.int64)
    which = np.minimum(slot[writes], nodes)
    fits = (events.rows[writes] <= extent_rows[which]) & (events.cols[writes] <= extent_cols[which])
    _demand(_all(fits), "an event is larger than its slot")
    first = np.array([launch.first_node for launch in meta.launches] + [0], np.int64)
    count_of = np.array([len(launch.slots) for launch in meta.launches] + [0], np.int64)
    of_step = launch[trace.event_step][writes]
    owned = (slot[writes] >= first[of_step]) & (slot[writes] < first[of_step] + count_of[of_step])
    _demand(_all(owned), "an event touches a slot of another launch")
    size = events.rows.astype(np.int64) * events.cols
    _demand(_all((events.value >= -1) & ((events.value < 0) | (events.value + size <= len(trace.values)))),
            "an event's numbers lie outside the pool")  # fmt: skip
    for described in meta.arrays:
        if described.initial >= 0:
            _demand(described.initial + described.size <= len(trace.values), f"{described.name} lies outside the pool")
    moves = load | store
    _demand(_all(_tile_elements(meta.arrays, array[moves], events.tile[moves], events.tiles[moves]) == size[moves]),
            "a transfer is not of its tile's size")  # fmt: skip


def _tile_elements(
    arrays: tuple[ArrayInfo, ...], node: NDArray[Any], tile: NDArray[Any], tiles: NDArray[Any]
) -> NDArray[np.int64]:
    """How many elements each run of tiles covers; -1 for a run that leaves its plane or spans columns."""
    result = np.zeros(len(node), np.int64)
    for number, info in enumerate(arrays):
        mine = node == number
        inside = tile[mine].astype(np.int64) % max(info.row_tiles * info.col_tiles, 1)
        row, col = np.divmod(inside, max(info.col_tiles, 1))
        end = row + tiles[mine]
        sound = (end <= info.row_tiles) & ((tiles[mine] == 1) | (info.col_tiles == 1))
        rows, cols = np.array(info.row_edges, np.int64), np.array(info.col_edges, np.int64)
        end = np.minimum(end, info.row_tiles)
        result[mine] = np.where(sound, (rows[end] - rows[row]) * (cols[col + 1] - cols[col]), -1) if mine.any() else 0
    return result


def _all(condition: NDArray[Any]) -> bool:
    return bool(np.all(condition))


def _demand(sound: bool, what: str) -> None:
    if not sound:
        raise TraceError(f"The trace is damaged: {what}.")
