"""Replay from the start, plainly: the oracle for `trace/replay.py`, with which it shares no code.

Numbers are really moved: a load copies out of the arrays as they stand, a store copies into them; what an
event claims to have kept is checked against what moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashstep import Trace
from flashstep.trace.events import Kind

Floats = NDArray[np.float32]


def replay(trace: Trace) -> Iterator[tuple[int, dict[str, Floats], dict[str, Floats]]]:
    """(step, arrays, slots of the running block) after each step of a trace that kept all values.

    One walk from the start: what is yielded is the walk's own state, good until the next step.
    """
    meta, events = trace.meta, trace.events
    nodes = meta.nodes
    arrays: dict[int, Floats] = {}
    for node, info in enumerate(meta.arrays):
        planes = np.full((info.planes, info.rows, info.cols), np.nan, np.float32)
        place = info.initial
        if place >= 0:
            for tile in range(info.tiles):
                part = planes[info.tile(tile)]
                part[...] = trace.values[place : place + part.size].reshape(part.shape)
                place += part.size
        arrays[node] = planes
    slots: dict[int, Floats] = {}
    block: tuple[int, int] | None = None
    for t in range(len(trace.steps)):
        step = trace.steps[t]
        if (step.launch, step.block) != block:
            slots, block = {}, (step.launch, step.block)
        for event in range(*trace.event_range(t)):
            kind, src, dst = int(events.kind[event]), int(events.src[event]), int(events.dst[event])
            rows, cols, value = int(events.rows[event]), int(events.cols[event]), int(events.value[event])
            kept = trace.values[value : value + rows * cols].reshape(rows, cols) if value >= 0 else None
            if kind == Kind.BARRIER:
                continue
            if kind == Kind.LOAD:
                info = meta.arrays[src]
                parts = []
                for tile in range(int(events.tile[event]), int(events.tile[event]) + int(events.tiles[event])):
                    plane, r, c = info.tile(tile)
                    parts.append(arrays[src][plane, r, c])
                slots[dst] = np.concatenate(parts).copy()
                assert kept is not None
                assert same(kept, slots[dst])
            elif kind in (Kind.STORE, Kind.PARTIAL):
                plane, r, c = meta.arrays[dst].tile(int(events.tile[event]))
                assert kept is not None
                assert same(kept, slots[src])
                arrays[dst][plane, r, c] = slots[src]
            else:
                assert kept is not None
                slots[dst] = kept.copy()
        yield (
            t,
            {meta.arrays[n].name: a.reshape(meta.arrays[n].shape) for n, a in arrays.items() if meta.arrays[n].space == "hbm"},
            {nodes[n].name: a[:, 0] if nodes[n].cols == 1 else a for n, a in slots.items()},
        )


def same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Equal to the bit, NaN with NaN."""
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=True))
