"""The recorder: a small model of a GPU that twins are written against, and the tape that remembers.

A twin reads like the kernel it mirrors: it declares arrays in HBM, launches a grid of blocks, gives each
block slots in shared memory and registers, and then loads, fills, updates and stores under named steps.
Every verb really moves numbers between NumPy buffers (float32, as the kernel's), so what the tape keeps is
what ran. With `record=False` there is no tape: the same verbs move the same numbers and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import formula
from .events import MAX_INDEX, NONE, Kind
from .layout import ArrayInfo, LaunchInfo, SlotInfo, StepInfo
from .tape import BARRIER_ROW, SILENCE, Floats, OpenStep, Progress, Silence, Tape

# Plain integers: a column takes them without asking an enum for its index.
_STORE, _INIT, _FILL, _UPDATE, _PARTIAL = (
    int(kind) for kind in (Kind.STORE, Kind.INIT, Kind.FILL, Kind.UPDATE, Kind.PARTIAL)
)


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
        self.places: dict[int, int] = {}  # tile -> where the pool keeps what it holds now, once asked or stored
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
        places = self.places
        if tiles == 1:
            place = places.get(tile)
            if place is None:
                place = places[tile] = self._standing(tile)
            return place
        whole = all(places.get(each) in (None, self._standing(each)) for each in range(tile, tile + tiles))
        return self._standing(tile) if whole else -1

    def _standing(self, tile: int) -> int:
        """Where the pool keeps what the tile held before the first step, or -1 if it held nothing that is kept."""
        return self.initial + self.info.offset(tile) if self.initial >= 0 else -1


class Slot:
    """A slot of the running block. `now` is its valid part; lanes of the buffer beyond it are guarded."""

    def __init__(self, tape: Tape | None, node: int, info: SlotInfo) -> None:
        self.tape, self.node, self.info = tape, node, info
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
        if self.tape is not None:
            self.tape.load(self, now, source, source.index(plane, row, col), tiles, each)
        return now

    def init(self, value: float | np.floating[Any], rows: int) -> None:
        """Set the first `rows` rows to a constant."""
        self.now = now = self.buffer[:rows]
        now[...] = value
        if self.tape is not None:
            self.tape.compute(_INIT, self, now, NONE, 0, 0, 0)

    def fill(self, values: NDArray[Any], flops: int, of: Array | None = None, tile: int = 0) -> Floats:
        """Write values computed from other slots: from here on the slot stands for `tile` of array `of`."""
        return self._write(_FILL, values, flops, of, tile)

    def update(self, values: NDArray[Any], flops: int, of: Array | None = None, tile: int = 0) -> Floats:
        """Write values computed from the slot's own old values and others."""
        return self._write(_UPDATE, values, flops, of, tile)

    def _write(self, kind: int, values: NDArray[Any], flops: int, of: Array | None, tile: int) -> Floats:
        self.now = now = self.buffer[: values.shape[0], : values.shape[1]]
        now[...] = values
        if self.tape is not None:
            node, tiles = (NONE, 0) if of is None else (of.node, 1)
            self.tape.compute(kind, self, now, node, tile, tiles, flops)
        return now

    def store(self, target: Array, plane: int, row: int, col: int = 0) -> None:
        """Copy the slot to a tile of HBM."""
        self._store(_STORE, target, plane, row, col)

    def partial(self, target: Array, plane: int, row: int) -> None:
        """Copy the slot to a tile of HBM as a split's unfinished result."""
        self._store(_PARTIAL, target, plane, row, 0)

    def _store(self, kind: int, target: Array, plane: int, row: int, col: int) -> None:
        target.view(plane, row, col, 1)[...] = self.now
        if self.tape is not None:
            self.tape.store(kind, self, target, target.index(plane, row, col))


class Block:
    """A running block: its place in the grid, and the steps it takes."""

    def __init__(self, launch: Launch, index: int, at: tuple[int, ...]) -> None:
        self.tape, self.kinds, self.index, self.at = launch.tape, launch.kinds, index, at

    def step(self, name: str, outer: int = NONE, inner: int = NONE) -> OpenStep | Silence:
        """Open the named step; `outer` and `inner` are the indices of the loops around it."""
        if self.tape is None:
            return SILENCE
        step = self.tape.step
        step.kind, step.outer, step.inner, step.caption = self.kinds[name], outer, inner, 0
        return step

    def barrier(self) -> None:
        """Every thread of the block waits for the others: `__syncthreads()`."""
        if self.tape is not None:
            self.tape.rows += BARRIER_ROW


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
        slot = Slot(self.tape, self.machine.claim_node(), info)
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
                info = replace(info, initial=self.tape.keep_array(info, planes))
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


def edges(length: int, tile: int) -> tuple[int, ...]:
    """The edges of tiles of `tile` over `length`: the last may be ragged; no tile where there is nothing."""
    return (*range(0, length, max(tile, 1)), length) if length else (0,)
