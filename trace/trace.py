"""A trace in memory: the columns, with typed accessors on top that make it pleasant to use."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from . import ledger, show, words
from .events import CROSSINGS, EVENT_COLUMNS, NONE, Kind
from .layout import DTYPE_BYTES, SIZES, Meta, StepInfo
from .replay import Replay, State


@dataclass(frozen=True)
class Events:
    """The event columns, one entry an event. `trace/FORMAT.md` gives the meaning of each."""

    kind: NDArray[np.uint8]
    src: NDArray[np.uint16]
    dst: NDArray[np.uint16]
    tile: NDArray[np.uint32]
    tiles: NDArray[np.uint16]
    rows: NDArray[np.uint16]
    cols: NDArray[np.uint16]
    elements: NDArray[np.uint32]
    flops: NDArray[np.uint32]
    value: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True)
class StepView:
    """One step, spelled out."""

    index: int
    name: str
    label: str
    caption: str
    path: tuple[str, ...]
    launch: int
    block: int
    loops: tuple[int, ...]


class Steps(Sequence[StepView]):
    """The steps of a trace in serial order; number 0 is the start."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __len__(self) -> int:
        return len(self._trace.steps_kind)

    @overload
    def __getitem__(self, index: int) -> StepView: ...
    @overload
    def __getitem__(self, index: slice) -> list[StepView]: ...
    def __getitem__(self, index: int | slice) -> StepView | list[StepView]:
        if isinstance(index, slice):
            return [self[t] for t in range(*index.indices(len(self)))]
        trace, t = self._trace, self._trace.check_step(index)
        info = trace.step_info(t)
        return StepView(
            t, info.name, words.label(trace, t), words.caption(trace, t), words.path(trace, t),
            info.launch, int(trace.steps_block[t]), trace.loops_of(t),
        )  # fmt: skip


class Trace:
    """What one run left behind. Build one with `flashstep.record` or `flashstep.load`."""

    def __init__(self, meta: Meta, events: Events, steps: dict[str, NDArray[Any]], args: NDArray[np.float32],
                 values: NDArray[np.float32], outputs: dict[str, NDArray[np.float32]]) -> None:  # fmt: skip
        self.outputs = outputs
        self.meta, self.events, self.args, self.values = meta, events, args, values
        self.steps_kind: NDArray[np.uint16] = steps["kind"]
        self.steps_block: NDArray[np.uint32] = steps["block"]
        self.steps_loop: NDArray[np.uint16] = steps["loop"]
        self.steps_events: NDArray[np.uint32] = steps["events"]
        self.steps_caption: NDArray[np.uint16] = steps["caption"]
        self.steps_args: NDArray[np.uint32] = steps["args"]

    def __repr__(self) -> str:
        """The kernel, its sizes and what was kept, on one line."""
        sizes = ", ".join(f"{name} {self.meta.problem.get(name)}" for name in SIZES)
        return (
            f"<Trace of {self.meta.kernel} ({sizes}): {len(self.steps) - 1:,} steps, {len(self.events):,} events,"
            f" values {self.meta.values}>"
        )

    @property
    def steps(self) -> Steps:
        return Steps(self)

    def state(self, t: int) -> State:
        """The numbers after step t: every array in HBM and every slot of the block that runs."""
        return self._replay.state(self.check_step(t))

    def ledger(self, t: int | None = None) -> ledger.Ledger:
        """Requested traffic per HBM array up to and with step t (default: the whole run), in transfers,
        elements and bytes: `ledger()["K"]["loads"]["bytes"]`."""
        last = len(self.steps) - 1 if t is None else self.check_step(t)
        return ledger.ledger(self, int(self.steps_events[last]))

    def walk(self) -> Iterator[str]:
        """The whole walk as lines of text: each step's place when it changes, its label and its caption."""
        return show.walk(self)

    def check_step(self, t: int) -> int:
        """`t` as a plain index; negative counts from the end. Raises IndexError beyond the steps, and TypeError."""
        count = len(self.steps_kind)
        try:
            t = operator.index(t)
        except TypeError:
            raise TypeError(f"A step is a whole number from 0 to {count - 1}, not {t!r}.") from None
        if not -count <= t < count:
            raise IndexError(f"There is no step {t}: steps run from 0 to {count - 1}.")
        return t % count

    def step_info(self, t: int) -> StepInfo:
        return self.meta.steps[int(self.steps_kind[t])]

    def loops_of(self, t: int) -> tuple[int, ...]:
        return tuple(int(loop) for loop in self.steps_loop[t] if loop != NONE)

    def event_range(self, t: int) -> tuple[int, int]:
        """The events [first, end) of step t."""
        return (int(self.steps_events[t - 1]) if t else 0), int(self.steps_events[t])

    def args_of(self, t: int) -> tuple[float, ...]:
        first = int(self.steps_args[t - 1]) if t else 0
        return tuple(float(x) for x in self.args[first : int(self.steps_args[t])])

    @cached_property
    def event_step(self) -> NDArray[np.int64]:
        """The step of each event."""
        ends = self.steps_events.astype(np.int64)
        counts = ends - np.concatenate([[0], ends[:-1]])
        return np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def event_bytes(self) -> NDArray[np.int64]:
        """The bytes that each event asks of HBM."""
        size = np.array([DTYPE_BYTES[array.dtype] for array in self.meta.arrays] + [0], np.int64)
        crossing = np.isin(self.events.kind, CROSSINGS)
        array = np.where(self.events.kind == Kind.LOAD, self.events.src, self.events.dst)
        array = np.where(crossing, np.minimum(array, len(size) - 1), len(size) - 1)
        return self.events.elements * size[array]

    @cached_property
    def _replay(self) -> Replay:
        return Replay(self)


def columns(rows: bytearray, dtypes: dict[str, type[np.generic]]) -> dict[str, NDArray[Any]]:
    """Packed rows, a field a column, as columns of their own."""
    table = np.frombuffer(rows, np.dtype([(name, np.dtype(dtype).newbyteorder("<")) for name, dtype in dtypes.items()]))
    return {name: np.ascontiguousarray(table[name], dtype) for name, dtype in dtypes.items()}


__all__ = ["EVENT_COLUMNS", "Events", "StepView", "Steps", "Trace", "columns"]
