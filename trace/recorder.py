"""The recorder: a small model of a GPU that twins are written against, and the tape that remembers.

A twin reads like the kernel it mirrors: it declares arrays in HBM, launches a grid of blocks, gives each
block slots in shared memory and registers, and then loads, fills, updates and stores under named steps.
Every verb really moves numbers between NumPy buffers (float32, as the kernel's), so what the tape keeps is
what ran. With `record=False` the same verbs move the same numbers and nothing is kept.

The tape appends packed rows while the twin runs and becomes columns once, at the end: a verb costs about a
microsecond, which is what makes recording a long run bearable.
"""

from __future__ import annotations

from array import array as packed
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from time import monotonic
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import formula
from .events import EVENT_COLUMNS, MAX_INDEX, NONE, Kind
from .layout import DTYPE_BYTES, ArrayInfo, LaunchInfo, SlotInfo, StepInfo

Floats = NDArray[np.float32]
Progress = Callable[[int, int], None]

PROGRESS_EVERY = 0.05  # seconds; a step of large tiles may take longer than hundreds of small ones

# Plain integers: a column takes them without asking an enum for its index.
_LOAD, _STORE, _INIT, _FILL, _UPDATE, _BARRIER, _PARTIAL = (int(kind) for kind in Kind)

# A row of a column each, packed as the columns' own types: twice as fast as a typed array, and no number is cut short.
EVENT_ROW = Struct("<" + "".join(np.dtype(dtype).char for dtype in EVENT_COLUMNS.values()))
STEP_ROW = Struct("<HIHHIHI")  # kind, block, two loops, events, caption, args
_event, _step, _EVENT_BYTES = EVENT_ROW.pack, STEP_ROW.pack, EVENT_ROW.size
_BARRIER_ROW = _event(_BARRIER, NONE, NONE, 0, 0, 0, 0, 0, 0, -1)


@dataclass(frozen=True)
class Step:
    """A kind of step as a twin declares it. `formulas` maps a slot or array to a formula's text."""

    name: str
    label: str
    loops: tuple[str, ...] = ()
    relabel: dict[str, str] = field(default_factory=dict)
    formulas: dict[str, str] = field(default_factory=dict)


class Array:
    """An array in HBM: (planes, rows, cols) float32 numbers, and where the tape keeps each tile's contents."""

    def __init__(self, node: int, info: ArrayInfo, data: Floats | None) -> None:
        self.node, self.info = node, info
        self.data = data if data is not None else np.empty((0, 0, 0), np.float32)
        self.stored: dict[int, int] = {}  # tile -> offset in the pool of what was last stored there
        self.row_edges, self.col_edges = info.row_edges, info.col_edges
        self.row_tiles, self.col_tiles = info.row_tiles, info.col_tiles
        self.initial = info.initial

    def index(self, plane: int, row: int, col: int = 0) -> int:
        """The tile index of row tile `row`, column tile `col` of a plane."""
        return (plane * self.row_tiles + row) * self.col_tiles + col

    def view(self, plane: int, row: int, col: int, tiles: int) -> Floats:
        rows, cols = self.row_edges, self.col_edges
        return self.data[plane, rows[row] : rows[row + tiles], cols[col] : cols[col + 1]]

    def kept(self, tile: int, tiles: int) -> int:
        """Where the contents of these tiles stand in the pool, or -1 if not, or not in one run."""
        stored = self.stored
        if stored:
            if tiles == 1 and tile in stored:
                return stored[tile]
            if any(tile + n in stored for n in range(tiles)):
                return -1
        return self.initial + self.info.offset(tile) if self.initial >= 0 else -1


class Slot:
    """A slot of the running block. `now` is its valid part; lanes of the buffer beyond it are guarded."""

    def __init__(self, launch: Launch, node: int, info: SlotInfo) -> None:
        self.launch, self.node, self.info = launch, node, info
        # As on the GPU, the next block finds here whatever this one left.
        self.buffer = np.zeros((info.rows, info.cols), np.float32)
        self.now = self.buffer[:0]
        self.value = -1  # where the tape keeps `now`

    def load(
        self, source: Array, plane: int, row: int, col: int = 0, *, tiles: int = 1, each: int = 1
    ) -> Floats:
        """Copy a tile of HBM (or `tiles` consecutive row tiles) into the slot.

        `each`: how many times every element is asked for, when several threads load it for themselves.
        """
        data = source.view(plane, row, col, tiles)
        self.now = now = self.buffer[: data.shape[0], : data.shape[1]]
        now[...] = data
        tape = self.launch.tape
        if tape is not None:
            tile = source.index(plane, row, col)
            tape.load(self, source, tile, tiles, now.size * each)
        return now

    def init(self, value: float | np.floating[Any], rows: int) -> None:
        """Set the first `rows` rows to a constant."""
        self.now = self.buffer[:rows]
        self.now[...] = value
        tape = self.launch.tape
        if tape is not None:
            tape.compute(_INIT, self, NONE, 0, 0, 0)

    def fill(self, values: NDArray[Any], flops: int, of: Array | None = None, tile: int = 0) -> Floats:
        """Write values computed from other slots: from here on the slot stands for `tile` of array `of`."""
        return self._write(_FILL, values, flops, of, tile)

    def update(self, values: NDArray[Any], flops: int, of: Array | None = None, tile: int = 0) -> Floats:
        """Write values computed from the slot's own old values and others."""
        return self._write(_UPDATE, values, flops, of, tile)

    def _write(self, kind: int, values: NDArray[Any], flops: int, of: Array | None, tile: int) -> Floats:
        self.now = now = self.buffer[: values.shape[0], : values.shape[1]]
        now[...] = values
        tape = self.launch.tape
        if tape is not None:
            tape.compute(kind, self, NONE if of is None else of.node, tile, 0 if of is None else 1, flops)
        return now

    def store(self, target: Array, plane: int, row: int, col: int = 0) -> None:
        """Copy the slot to a tile of HBM."""
        self._store(_STORE, target, plane, row, col)

    def partial(self, target: Array, plane: int, row: int) -> None:
        """Copy the slot to a tile of HBM as a split's unfinished result."""
        self._store(_PARTIAL, target, plane, row, 0)

    def _store(self, kind: int, target: Array, plane: int, row: int, col: int) -> None:
        target.view(plane, row, col, 1)[...] = self.now
        tape = self.launch.tape
        if tape is not None:
            tape.store(kind, self, target, target.index(plane, row, col))


class _Silent:
    """The step of a run that is not recorded."""

    speaks = False

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, template: str, *numbers: float) -> None:
        """Nobody listens."""


class OpenStep:
    """A step while it runs: the verbs inside its `with` belong to it."""

    __slots__ = ("block", "caption", "kind", "loops", "tape")

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.kind, self.block, self.caption = 0, 0, 0
        self.loops: tuple[int, ...] = ()

    @property
    def speaks(self) -> bool:
        """Whether this block's numbers are kept, so that a caption may speak them."""
        return self.tape.keeping

    def say(self, template: str, *numbers: float) -> None:
        """The step's caption: a template and the numbers it speaks."""
        tape = self.tape
        self.caption = tape.caption(template)
        if numbers:
            tape.args.extend(numbers)

    def __enter__(self) -> OpenStep:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is not None:
            return
        tape, loops = self.tape, self.loops
        inner = loops[1] if len(loops) > 1 else NONE
        tape.step_rows += _step(
            self.kind, tape.block, loops[0] if loops else NONE, inner,
            len(tape.rows) // _EVENT_BYTES, self.caption, len(tape.args),
        )  # fmt: skip
        if tape.progress is not None:
            tape.tell()


class Block:
    """A running block: its place in the grid, and the steps it takes."""

    def __init__(self, launch: Launch, index: int, at: tuple[int, ...]) -> None:
        self.launch, self.index, self.at = launch, index, at

    def step(self, name: str, *loops: int) -> OpenStep | _Silent:
        """Open the named step; `loops` are the indices of the loops around it, outer first."""
        tape = self.launch.tape
        if tape is None:
            return _SILENT
        step = tape.step
        step.kind, step.loops, step.caption = self.launch.kinds[name], loops, 0
        return step

    def barrier(self) -> None:
        """Every thread of the block waits for the others: `__syncthreads()`."""
        tape = self.launch.tape
        if tape is not None:
            tape.rows += _BARRIER_ROW


class Launch:
    """One kernel launch. Declare its slots, then walk its blocks."""

    def __init__(self, machine: Machine, info: LaunchInfo, kinds: dict[str, int]) -> None:
        self.machine, self.info, self.kinds = machine, info, kinds
        self.tape = machine.tape
        self.slots: list[Slot] = []

    def shared(self, name: str, rows: int, cols: int, *, lifetime: str = "tile", carry: bool = False,
               dtype: str = "float32") -> Slot:  # fmt: skip
        """A slot in shared memory, placed behind those declared before.

        `lifetime`: "block" if its numbers stay good from tile to tile, "tile" if the next tile outdates them.
        `carry`: whether it is one of the few numbers that the algorithm carries along (m, l, O, alpha).
        """
        offset = max((s.info.offset + s.info.bytes for s in self.slots if s.info.space == "shared"), default=0)
        return self._slot(SlotInfo(name, "shared", rows, cols, dtype, offset, lifetime, carry))

    def register(self, name: str, rows: int, cols: int, *, lifetime: str = "tile", carry: bool = False) -> Slot:
        """A slot in registers: one or a few numbers of each thread, drawn as a matrix."""
        return self._slot(SlotInfo(name, "register", rows, cols, "float32", 0, lifetime, carry))

    def _slot(self, info: SlotInfo) -> Slot:
        if info.rows > MAX_INDEX or info.cols > MAX_INDEX:
            raise ValueError(f"{info.name} would be {info.rows} by {info.cols}: a side may be at most {MAX_INDEX}.")
        slot = Slot(self, self.machine.claim_node(), info)
        self.slots.append(slot)
        return slot

    def blocks(self) -> Iterator[Block]:
        """The blocks one after another, first axis fastest."""
        sizes = [size for _, size in self.info.grid]
        for index in range(self.info.blocks):
            rest, at = index, []
            for size in sizes:
                rest, place = divmod(rest, size)
                at.append(place)
            for slot in self.slots:
                slot.now, slot.value = slot.buffer[:0], -1
            if self.tape is not None:
                self.tape.begin_block(index)
            yield Block(self, index, tuple(at))


class Machine:
    """The model of the GPU. Arrays first, then launches; `close` says what is to be said of them."""

    def __init__(self, *, record: bool = True, values: str = "all", focus: int = 0, capacity: int = 0,
                 total_steps: int = 0, progress: Progress | None = None) -> None:  # fmt: skip
        self.arrays: list[Array] = []
        self.launches: list[Launch] = []
        self.steps: list[StepInfo] = [StepInfo("start", -1, "start")]
        self.tape = Tape(values, focus, capacity, total_steps, progress) if record else None
        self._nodes = 0

    def start(self, caption: str) -> None:
        """What is to be said before the first step."""
        if self.tape is not None:
            self.tape.captions = {caption: 0}

    def claim_node(self) -> int:
        node, self._nodes = self._nodes, self._nodes + 1
        return node

    def array(self, name: str, data: Floats | None, *, shape: tuple[int, ...] | None = None, role: str,
              row_edges: Sequence[int], col_edges: Sequence[int] | None = None, dtype: str = "float32",
              space: str = "hbm", filled: str | None = None) -> Array:  # fmt: skip
        """An array of shape (batch, heads, rows, cols), or (batch, heads, rows) for a vector.

        With `data` its contents exist before the first step; without, it is allocated and holds nothing yet
        (NaN here: nothing may depend on it). Tiles lie between the edges.
        """
        if self.launches:
            raise ValueError("Arrays are declared before the first launch.")
        shape = data.shape if data is not None else shape or ()
        vector = len(shape) == 3
        batch, heads, rows, cols = (*shape, 1) if vector else shape
        info = ArrayInfo(
            name, space, role, dtype, batch, heads, rows, cols, vector, tuple(row_edges),
            tuple(col_edges) if col_edges is not None else edges(cols, cols), -1, filled,
        )  # fmt: skip
        planes: Floats | None = None
        if data is not None:
            planes = np.array(data, np.float32).reshape(info.planes, rows, cols)
            if self.tape is not None:
                info = ArrayInfo(**{**info.__dict__, "initial": self.tape.keep_array(info, planes)})
        elif space == "hbm":
            planes = np.full((info.planes, rows, cols), np.nan, np.float32)
        array = Array(self.claim_node(), info, planes)
        self.arrays.append(array)
        return array

    def virtual(self, name: str, shape: tuple[int, ...], row_edges: Sequence[int], col_edges: Sequence[int]) -> Array:
        """A matrix that never stands in HBM: it only names what a slot stands for."""
        return self.array(
            name, None, shape=shape, role="scratch", row_edges=row_edges, col_edges=col_edges, space="virtual"
        )

    def launch(self, name: str, title: str, grid: dict[str, int], threads: int, steps: Sequence[Step]) -> Launch:
        """Begin a launch over `grid` (axis -> blocks, fastest first) whose blocks take `steps`."""
        first = len(self.steps)
        for step in steps:
            self.steps.append(
                StepInfo(
                    step.name, len(self.launches), step.label, step.loops, step.relabel,
                    {target: formula.parse(text) for target, text in step.formulas.items()},
                )
            )  # fmt: skip
        info = LaunchInfo(name, title, tuple(grid.items()), threads, self._nodes)
        launch = Launch(self, info, {step.name: first + n for n, step in enumerate(steps)})
        self.launches.append(launch)
        return launch


class Tape:
    """What is remembered of a run: rows of events and steps, captions with their numbers, and kept values."""

    def __init__(self, values: str, focus: int, capacity: int, total_steps: int, progress: Progress | None) -> None:
        self.values, self.focus = values, focus
        self.keeping = values == "all"
        self.pool = np.empty(capacity, np.float32)
        self.used = 0
        self.rows = bytearray()
        self.step_rows = bytearray(_step(0, 0, NONE, NONE, 0, 0, 0))  # the start
        self.args = packed("f")
        self.captions: dict[str, int] = {"The inputs stand in HBM; nothing has moved yet.": 0}
        self.block = 0
        self.step = OpenStep(self)
        self.total_steps, self.progress = total_steps, progress
        self._told = monotonic()

    def caption(self, template: str) -> int:
        known = self.captions.get(template)
        return self.captions.setdefault(template, len(self.captions)) if known is None else known

    def keep(self, data: Floats) -> int:
        """Copy `data` into the pool, row-major; where it starts there."""
        start, self.used = self.used, self.used + data.size
        if self.used > self.pool.size:  # an estimate that was too small must not lose numbers
            self.pool = np.concatenate([self.pool, np.empty(max(self.used, 1024), np.float32)])
        self.pool[start : self.used].reshape(data.shape)[...] = data
        return start

    def keep_array(self, info: ArrayInfo, planes: Floats) -> int:
        """An array's contents, tile after tile, so that every tile is one run."""
        if self.values == "none":
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

    def tell(self) -> None:
        """Call the progress callback, if it is time; it may raise to cancel."""
        if self.progress is not None and monotonic() - self._told > PROGRESS_EVERY:
            self.progress(len(self.step_rows) // STEP_ROW.size - 1, self.total_steps)
            self._told = monotonic()

    def load(self, slot: Slot, source: Array, tile: int, tiles: int, elements: int) -> None:
        value = source.kept(tile, tiles)
        if value < 0 and self.keeping:
            value = self.keep(slot.now)
        slot.value = value
        rows, cols = slot.now.shape
        self.rows += _event(_LOAD, source.node, slot.node, tile, tiles, rows, cols, elements, 0, value)

    def compute(self, kind: int, slot: Slot, of: int, tile: int, tiles: int, flops: int) -> None:
        slot.value = value = self.keep(slot.now) if self.keeping else -1
        rows, cols = slot.now.shape
        self.rows += _event(kind, of, slot.node, tile, tiles, rows, cols, 0, flops, value)

    def store(self, kind: int, slot: Slot, target: Array, tile: int) -> None:
        now = slot.now
        value = slot.value
        if value < 0 and self.values != "none":  # no array on screen goes blank
            value = self.keep(now)
        if value >= 0:
            target.stored[tile] = value
        rows, cols = now.shape
        self.rows += _event(kind, slot.node, target.node, tile, 1, rows, cols, now.size, 0, value)


_SILENT = _Silent()


def edges(length: int, tile: int) -> tuple[int, ...]:
    """The edges of tiles of `tile` over `length`: the last may be ragged; no tile where there is nothing."""
    return (*range(0, length, max(tile, 1)), length) if length else (0,)


__all__ = ["DTYPE_BYTES", "Array", "Launch", "Machine", "OpenStep", "Slot", "Step", "Tape", "edges"]
