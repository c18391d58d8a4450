"""Whether the columns of a trace are sound: every index is checked here before anything follows it.

A trace file may come from anywhere. Sizes are bounded by the file's own length; what is left is that steps,
events, tiles, slots and offsets point at things that are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .events import EVENT_COLUMNS, NONE, STEP_COLUMNS, Kind
from .layout import ArrayInfo, TraceError

if TYPE_CHECKING:
    from .trace import Trace


def check(trace: Trace) -> None:
    """Raise TraceError unless every index of the columns leads somewhere."""
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

    def is_array(node: NDArray[Any]) -> NDArray[Any]:
        return node < arrays

    def is_slot(node: NDArray[Any]) -> NDArray[Any]:
        return (node >= arrays) & (node < nodes)

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
    if meta.values != "none":
        unfilled = sum(info.size for info in meta.arrays if info.space == "hbm" and info.initial < 0)
        _demand(unfilled <= len(trace.values), "its arrays claim more than its stores could have filled")
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
