"""The tape: what is remembered of a run while it runs.

It appends packed rows and becomes columns once, at the end: a verb costs about half a microsecond, which is
what makes recording a long run bearable. Each verb is therefore one function that packs one row.
"""

from __future__ import annotations

from array import array as packed
from collections.abc import Callable
from struct import Struct
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .events import EVENT_COLUMNS, NONE, Kind
from .layout import ArrayInfo

if TYPE_CHECKING:
    from .recorder import Array, Slot

Floats = NDArray[np.float32]
Progress = Callable[[int, int], None]

SPOKEN = 65_536  # numbers that wait to be packed
PROGRESS_EVERY = 0.05  # seconds; a step of large tiles may take longer than hundreds of small ones

# A row of a column each, packed as the columns' own types: twice as fast as a typed array, and no number is cut short.
EVENT_ROW = Struct("<" + "".join(np.dtype(dtype).char for dtype in EVENT_COLUMNS.values()))
STEP_ROW = Struct("<HIHHIHI")  # kind, block, two loops, events, caption, args
_event, _step, _EVENT_BYTES = EVENT_ROW.pack, STEP_ROW.pack, EVENT_ROW.size

# Plain integers: a column takes them without asking an enum for its index.
_LOAD, _BARRIER = int(Kind.LOAD), int(Kind.BARRIER)
BARRIER_ROW = _event(_BARRIER, NONE, NONE, 0, 0, 0, 0, 0, 0, -1)


class Tape:
    """Rows of events and steps, captions with their numbers, and kept values."""

    def __init__(self, values: str, focus: int, capacity: int, total_steps: int, progress: Progress | None) -> None:
        self.values, self.focus = values, focus
        self.valued = values != "none"  # whether any numbers are kept at all
        self.keeping = values == "all"  # whether those of the running block are
        self.pool = np.empty(capacity, np.float32)
        self.used, self.capacity = 0, capacity
        self.rows = bytearray()
        self.step_rows = bytearray(_step(0, 0, NONE, NONE, 0, 0, 0))  # the start
        self.args = packed("f")  # the numbers that captions speak; the newest wait in a list, which takes them faster
        self.spoken: list[float] = []
        self.captions: dict[str, int] = {"The inputs stand in HBM; nothing has moved yet.": 0}
        self.block = 0
        self.step = OpenStep(self)
        self.total_steps, self.progress = total_steps, progress
        self._told = monotonic()

    def keep(self, data: Floats) -> int:
        """Copy `data` into the pool, row-major; where it starts there."""
        start = self.used
        self.used = end = start + data.size
        if end > self.capacity:  # an estimate that was too small must not lose numbers
            self.pool = np.concatenate([self.pool, np.empty(max(end, 1024), np.float32)])
            self.capacity = self.pool.size
        self.pool[start:end] = data.ravel()
        return start

    def keep_array(self, info: ArrayInfo, planes: Floats) -> int:
        """An array's contents, tile after tile, so that every tile is one run."""
        if not self.valued:
            return -1
        if info.col_tiles <= 1:
            return self.keep(planes)
        start = self.used
        for index in range(info.tiles):
            plane, rows, cols = info.tile(index)
            self.keep(planes[plane, rows, cols])
        return start

    def begin_block(self, index: int) -> None:
        self.block = index
        self.keeping = self.values == "all" or (self.values == "focus" and index == self.focus)
        self.step.speaks = self.keeping

    def close(self) -> None:
        """Pack the numbers that captions spoke lately."""
        self.args.extend(self.spoken)
        self.spoken.clear()

    def tell(self) -> None:
        """Call the progress callback, if it is time; it may raise to cancel."""
        if self.progress is not None and monotonic() - self._told > PROGRESS_EVERY:
            self.progress(len(self.step_rows) // STEP_ROW.size - 1, self.total_steps)
            self._told = monotonic()

    def load(self, slot: Slot, now: Floats, source: Array, tile: int, tiles: int, each: int) -> None:
        value = -1
        if self.valued:
            value = source.kept(tile, tiles)
            if value < 0 and self.keeping:
                value = self.keep(now)
        slot.value = value
        rows, cols = now.shape
        self.rows += _event(_LOAD, source.node, slot.node, tile, tiles, rows, cols, rows * cols * each, 0, value)

    def compute(self, kind: int, slot: Slot, now: Floats, of: int, tile: int, tiles: int, flops: int) -> None:
        slot.value = value = self.keep(now) if self.keeping else -1
        rows, cols = now.shape
        self.rows += _event(kind, of, slot.node, tile, tiles, rows, cols, 0, flops, value)

    def store(self, kind: int, slot: Slot, target: Array, tile: int) -> None:
        now, value = slot.now, -1
        if self.valued:  # no array on screen goes blank: what no verb kept is kept now
            value = slot.value if slot.value >= 0 else self.keep(now)
            target.places[tile] = value
        rows, cols = now.shape
        self.rows += _event(kind, slot.node, target.node, tile, 1, rows, cols, rows * cols, 0, value)


class OpenStep:
    """A step while it runs: the verbs inside its `with` belong to it. A tape has one, opened again and again."""

    __slots__ = ("caption", "inner", "kind", "outer", "speaks", "tape")

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.kind, self.outer, self.inner, self.caption = 0, NONE, NONE, 0
        self.speaks = tape.keeping  # whether this block's numbers are kept, so that a caption may speak them

    def say(self, template: str, *numbers: float) -> None:
        """The step's caption: a template and the numbers it speaks."""
        tape = self.tape
        captions = tape.captions
        known = captions.get(template)
        self.caption = captions.setdefault(template, len(captions)) if known is None else known
        if numbers:
            tape.spoken += numbers

    def __enter__(self) -> OpenStep:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is not None:
            return
        tape = self.tape
        waiting = len(tape.spoken)
        tape.step_rows += _step(
            self.kind, tape.block, self.outer, self.inner, len(tape.rows) // _EVENT_BYTES, self.caption,
            len(tape.args) + waiting,
        )  # fmt: skip
        if waiting > SPOKEN:
            tape.close()
        if tape.progress is not None:
            tape.tell()


class Silence:
    """The step of a run that is not recorded."""

    speaks = False

    def __enter__(self) -> Silence:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, template: str, *numbers: float) -> None:
        """Nobody listens."""


SILENCE = Silence()
