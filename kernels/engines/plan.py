"""What a run asks of an engine: buffers, launches, and where each probe lands. Derived from the trace alone.

A kernel's parameters are named as the lesson names things, so nothing has to be written down twice: a pointer
is the array of that name in HBM, a number the problem's or the tiling's, a template parameter Br, Bc or D.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...trace.events import Kind
from ...trace.layout import LaunchInfo
from ...trace.trace import Trace
from .fit import TEMPLATES, require_fit
from .source import Function, Shapes, Source


@dataclass(frozen=True)
class Launch:
    """One launch: function, template arguments, grid of three, threads; arguments by name: the name of a
    buffer, a number, or None for a null pointer."""

    function: Function
    templates: tuple[int, ...]
    grid: tuple[int, int, int]
    threads: int
    arguments: tuple[str | int | float | None, ...]
    base: NDArray[np.int64]  # where each block's probes begin, and the end of the last: blocks + 1

    @property
    def instance(self) -> str:
        """The template instance as C++ names it: `scores<4, 4, 4>`."""
        return f"{self.function.name}<{', '.join(map(str, self.templates))}>"


@dataclass(frozen=True)
class Probe:
    """Where the numbers of one slot after one step stand in the probe buffer."""

    step: int
    slot: str
    offset: int
    shape: tuple[int, int]  # the slot's capacity
    rows: int
    cols: int

    def of(self, probes: NDArray[np.float32]) -> NDArray[np.float32]:
        """The valid part of the slot, (rows, cols)."""
        return probes[self.offset : self.offset + prod(self.shape)].reshape(self.shape)[: self.rows, : self.cols]


@dataclass(frozen=True)
class Mark:
    """Where a probed step leaves its number in the probe buffer, and the function that it is a step of."""

    step: int
    function: Function
    place: int


class Plan:
    """The work of one run for an engine. Raises ValueError, in a sentence, where the run cannot be run again, and
    SourceError where the source is not the twin's."""

    def __init__(self, trace: Trace, source: Source) -> None:
        if trace.meta.values == "none":
            raise ValueError("This run kept no numbers, so its inputs are gone: record it with values 'all' or 'focus'.")
        self.trace, self.source = trace, source
        self.buffers: dict[str, NDArray[Any]] = {}
        start = trace.state(0)
        for info in trace.meta.arrays:
            if info.space == "hbm":
                data: NDArray[Any] = np.array(start[info.name])
                self.buffers[info.name] = (data != 0).astype(np.uint8) if info.dtype == "bool" else data
        require_fit(trace, source, self.slots)

    @cached_property
    def slots(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """function -> step -> the shared slots that the step writes, in the order of the launch's slots."""
        meta = self.trace.meta
        written = self._written
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for kind, step in enumerate(meta.steps):
            if step.launch < 0:
                continue
            launch = meta.launches[step.launch]
            names = tuple(
                slot.name
                for n, slot in enumerate(launch.slots)
                if slot.space == "shared" and slot.dtype == "float32" and (kind, launch.first_node + n) in written
            )
            if names:
                found.setdefault(launch.name, {})[step.name] = names
        return found

    @cached_property
    def shapes(self) -> Shapes:
        """function -> slot -> its capacity, (rows, cols)."""
        return {
            launch.name: {slot.name: (slot.rows, slot.cols) for slot in launch.slots} for launch in self.trace.meta.launches
        }

    @cached_property
    def _written(self) -> set[tuple[int, int]]:
        events, trace = self.trace.events, self.trace
        writes = (events.kind == Kind.LOAD) | (events.kind == Kind.INIT) | (events.kind == Kind.FILL) | (events.kind == Kind.UPDATE)
        kinds = trace.steps_kind[trace.event_step[writes]]
        return set(zip(kinds.tolist(), events.dst[writes].tolist(), strict=True))

    @cached_property
    def _layout(self) -> tuple[list[Probe], list[NDArray[np.int64]], list[Mark]]:
        """Probes, each launch's bases, and the marks that a sound run leaves."""
        trace, meta = self.trace, self.trace.meta
        probes: list[Probe] = []
        bases: list[NDArray[np.int64]] = []
        marks: list[Mark] = []
        at = 0
        steps = len(trace.steps_kind)
        t = 1
        for number, launch in enumerate(meta.launches):
            function = self.source.functions[launch.name]
            shapes = self.shapes[launch.name]
            nodes = {launch.first_node + n: slot.name for n, slot in enumerate(launch.slots)}
            base = np.zeros(launch.blocks + 1, np.int64)
            for block in range(launch.blocks):
                base[block] = at
                valid: dict[str, tuple[int, int]] = {}
                while t < steps and trace.step_info(t).launch == number and trace.steps_block[t] == block:
                    name = trace.step_info(t).name
                    for event in range(*trace.event_range(t)):
                        slot = nodes.get(int(trace.events.dst[event]))
                        if slot is not None:
                            valid[slot] = int(trace.events.rows[event]), int(trace.events.cols[event])
                    wanted = self.slots.get(launch.name, {}).get(name, ())
                    if wanted:
                        marks.append(Mark(t, function, at))
                        at += 1
                    for slot in wanted:
                        probes.append(Probe(t, slot, at, shapes[slot], *valid[slot]))
                        at += prod(shapes[slot])
                    t += 1
            base[-1] = at
            bases.append(base)
        return probes, bases, marks

    @property
    def probes(self) -> list[Probe]:
        return self._layout[0]

    @property
    def probe_size(self) -> int:
        """The floats that all probes take."""
        return int(max((base[-1] for base in self._layout[1]), default=0))

    @property
    def marks(self) -> list[Mark]:
        """Where each probed step leaves its number: a run that took other steps is found out by it."""
        return self._layout[2]

    def launches(self) -> Iterator[Launch]:
        """The launches in order. One without blocks is left out: a grid of 0 would launch one block."""
        for number, info in enumerate(self.trace.meta.launches):
            if info.blocks:
                yield self._launch(number, info)

    def _launch(self, number: int, info: LaunchInfo) -> Launch:
        function = self.source.functions[info.name]
        problem, tiling = self.trace.meta.problem, self.trace.meta.tiling
        sizes = [size for _, size in info.grid]
        grid = (*sizes[:2], prod(sizes[2:])) if len(sizes) > 2 else (*sizes, *(1,) * (3 - len(sizes)))
        x, y, z = grid
        if y > 65_535 or z > 65_535:
            raise ValueError(f"The grid of {info.name} would be {x:,} × {y:,} × {z:,}: y and z may be at most 65,535. Use fewer heads.")
        values: dict[str, Any] = {**tiling, **problem, "causal": int(problem["causal"])}

        def argument(name: str, pointer: bool) -> str | int | float | None:
            if pointer:
                return name if name in self.buffers else None
            number: int | float = values[name]
            return number

        return Launch(
            function,
            tuple(int(values[TEMPLATES[name]]) for name in function.templates),
            (x, y, z),
            info.threads,
            tuple(argument(parameter.name, parameter.pointer) for parameter in function.parameters),
            self._layout[1][number],
        )


def place(launches: list[Launch], reached: tuple[int, int, int]) -> str:
    """Where a kernel was last seen, in words that follow "The kernel crashed"."""
    launch, block, step = reached
    function = launches[launch].function
    if step < 0:
        return f"in {function.name}, before any probed step ended"
    return f"in {function.name}, after the step {function.steps[step].name!r} of block {block}"
