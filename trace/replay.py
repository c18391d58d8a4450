"""Replay: the state after any step, from a keyframe and a few events.

A slot holds what its last writer in this block wrote; a tile of HBM what was last stored there. A keyframe
every `EVERY` steps remembers, for each slot, the last event that wrote it, so a state costs at most `EVERY`
steps of events however long the block has run. Keyframes are derived from the events when they are first
needed, never stored: a file cannot contradict itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .events import CROSSINGS, NONE, Kind
from .layout import ArrayInfo

if TYPE_CHECKING:
    from .trace import Trace

EVERY = 64

Floats = NDArray[np.float32]
Assemble = Callable[[], tuple[Floats, NDArray[np.bool_]]]


class State(Mapping[str, Floats]):
    """The numbers after one step, by name. An array is put together when it is asked for.

    A slot is its valid part, (rows, cols), or (rows,) when it is one column wide. An array has its own
    shape, (batch, heads, rows, cols) or (batch, heads, rows), NaN where nothing was written yet (`written`
    tells those from a NaN that was). Names of slots that hold nothing yet, or whose numbers were not kept,
    are missing: asking for one says which.
    """

    def __init__(self, slots: dict[str, Floats], arrays: dict[str, Assemble], why: dict[str, str]) -> None:
        self._slots, self._arrays, self._why = slots, arrays, why

    def __getitem__(self, name: str) -> Floats:
        if name in self._slots:
            return self._slots[name]
        if name in self._arrays:
            return self._arrays[name]()[0]
        raise KeyError(self._why.get(name, f"There is no slot or array {name} here."))

    def __iter__(self) -> Iterator[str]:
        yield from self._arrays
        yield from self._slots

    def __len__(self) -> int:
        return len(self._arrays) + len(self._slots)

    def __contains__(self, name: object) -> bool:
        return name in self._slots or name in self._arrays

    def written(self, name: str) -> NDArray[np.bool_]:
        """Which elements of an array hold something."""
        return self._arrays[name]()[1]


class Replay:
    """States of a trace. Build once, ask often."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        kind, dst = trace.events.kind, trace.events.dst
        self._stores = np.flatnonzero(np.isin(kind, CROSSINGS) & (kind != Kind.LOAD))
        arrays = len(trace.meta.arrays)
        # keyframes[k, slot]: the last event before step k·EVERY that wrote the slot, or -1.
        ends = trace.steps_events[::EVERY].astype(np.int64)
        self.keyframes = np.full((len(ends), len(trace.meta.nodes) - arrays), -1, np.int64)
        for slot in range(self.keyframes.shape[1]):
            writers = np.flatnonzero((dst == arrays + slot) & (kind != Kind.BARRIER))
            place = np.searchsorted(writers, ends) - 1
            self.keyframes[:, slot] = np.where(place >= 0, writers[np.maximum(place, 0)] if len(writers) else -1, -1)

    def writers(self, t: int) -> dict[int, int]:
        """Slot node -> the event that last wrote it in the block of step t, up to and with step t."""
        trace = self.trace
        info = trace.step_info(t)
        if info.launch < 0:
            return {}
        launch = trace.meta.launches[info.launch]
        arrays = len(trace.meta.arrays)
        begin = trace.event_range(self.first_step(t))[0]
        frame = t // EVERY
        start, end = int(trace.steps_events[frame * EVERY]), int(trace.steps_events[t])
        last = {arrays + slot: int(event) for slot, event in enumerate(self.keyframes[frame]) if event >= begin}
        for event in range(max(start, begin), end):
            node = int(trace.events.dst[event])
            if node >= arrays and node != NONE:
                last[node] = event
        nodes = range(launch.first_node, launch.first_node + len(launch.slots))
        return {node: last[node] for node in nodes if node in last}

    def first_step(self, t: int) -> int:
        """The first step of the block that step t belongs to."""
        trace = self.trace
        block, launch = trace.steps_block[t], trace.step_info(t).launch
        of_launch = self._launch_steps(launch)
        first: int = of_launch.start + int(np.searchsorted(trace.steps_block[of_launch], block))
        return first

    def _launch_steps(self, launch: int) -> slice:
        of_step = self._launch_of_step
        return slice(int(np.searchsorted(of_step, launch)), int(np.searchsorted(of_step, launch, "right")))

    @cached_property
    def _launch_of_step(self) -> NDArray[np.int64]:
        return np.array([step.launch for step in self.trace.meta.steps], np.int64)[self.trace.steps_kind]

    def state(self, t: int) -> State:
        trace = self.trace
        numbers: dict[str, Floats] = {}
        arrays: dict[str, Assemble] = {}
        why: dict[str, str] = {}
        end = int(trace.steps_events[t])
        for node, info in enumerate(trace.meta.arrays):
            if info.space == "hbm" and trace.meta.values != "none":
                arrays[info.name] = partial(self._array, node, info, end)
            elif info.space == "hbm":
                why[info.name] = f"The numbers of {info.name} were not kept (values='none')."
        nodes = trace.meta.nodes
        launch = trace.step_info(t).launch
        if launch >= 0:
            for slot in trace.meta.launches[launch].slots:
                why[slot.name] = f"{slot.name} holds nothing yet at step {t}."
        for node, event in self.writers(t).items():
            name = nodes[node].name
            rows, cols = int(trace.events.rows[event]), int(trace.events.cols[event])
            value = int(trace.events.value[event])
            if value < 0:
                why[name] = (
                    f"The numbers of {name} were not kept at step {t}"
                    f" (values={trace.meta.values!r}, focus={trace.meta.focus})."
                )
                continue
            data = trace.values[value : value + rows * cols]
            numbers[name] = data if nodes[node].cols == 1 else data.reshape(rows, cols)
        return State(numbers, arrays, why)

    def _array(self, node: int, info: ArrayInfo, end: int) -> tuple[Floats, NDArray[np.bool_]]:
        trace = self.trace
        planes = np.full((info.planes, info.rows, info.cols), np.nan, np.float32)
        written = np.zeros(planes.shape, np.bool_)
        if info.initial >= 0:
            written[...] = True
            for tile in range(info.tiles):
                plane, rows, cols = info.tile(tile)
                part = planes[plane, rows, cols]
                start = info.initial + info.offset(tile)
                part[...] = trace.values[start : start + part.size].reshape(part.shape)
        stores = self._stores[: np.searchsorted(self._stores, end)]
        stores = stores[trace.events.dst[stores] == node]
        tiles, place = np.unique(trace.events.tile[stores][::-1], return_index=True)
        for tile, event in zip(tiles, stores[::-1][place], strict=True):
            plane, rows, cols = info.tile(int(tile))
            part = planes[plane, rows, cols]
            written[plane, rows, cols] = True
            value = int(trace.events.value[event])
            part[...] = trace.values[value : value + part.size].reshape(part.shape) if value >= 0 else np.nan
        return planes.reshape(info.shape), written.reshape(info.shape)
