"""The layout of a trace: arrays, launches, slots and kinds of step, as they stand in the file's header.

These are descriptions only: they hold no numbers of the run. Each knows how to write itself as JSON and
how to read itself back from JSON that cannot be trusted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from math import prod
from typing import Any

from . import formula
from .text import strange as strange_text


class TraceError(ValueError):
    """A trace file that cannot be read: one sentence says what is wrong with it."""


MAX_NODES = 1024
MAX_BLOCKS = 2**31 - 1
MAX_ARRAY = 2**31 - 1  # elements
SIZES = ("batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim")

KEY_MASK = "key_mask"  # the array that says which keys are visible, where the problem says there is one

DTYPE_BYTES = {"float32": 4, "bool": 1}


@dataclass(frozen=True)
class ArrayInfo:
    """A matrix per (batch, head) in HBM, or a virtual one that only names what slots stand for."""

    name: str
    space: str  # "hbm" | "virtual"
    role: str  # "input" | "output" | "scratch"
    dtype: str
    batch: int
    heads: int
    rows: int
    cols: int
    vector: bool
    row_edges: tuple[int, ...]
    col_edges: tuple[int, ...]
    initial: int = -1
    filled: str | None = None

    @property
    def planes(self) -> int:
        return self.batch * self.heads

    @property
    def row_tiles(self) -> int:
        return len(self.row_edges) - 1

    @property
    def col_tiles(self) -> int:
        return len(self.col_edges) - 1

    @property
    def tiles(self) -> int:
        return self.planes * self.row_tiles * self.col_tiles

    @property
    def size(self) -> int:
        return self.planes * self.rows * self.cols

    @property
    def shape(self) -> tuple[int, ...]:
        """As a person sees it: (batch, heads, rows, cols), or (batch, heads, rows) for a vector."""
        return (self.batch, self.heads, self.rows) + (() if self.vector else (self.cols,))

    def tile(self, index: int) -> tuple[int, slice, slice]:
        """(plane, rows, columns) of a tile index."""
        plane, inside = divmod(index, self.row_tiles * self.col_tiles)
        row, col = divmod(inside, self.col_tiles)
        return (
            plane,
            slice(self.row_edges[row], self.row_edges[row + 1]),
            slice(self.col_edges[col], self.col_edges[col + 1]),
        )

    def offset(self, index: int) -> int:
        """Where tile `index` starts among the array's elements when they stand tile after tile."""
        if len(self.col_edges) == 2:
            plane, row = divmod(index, len(self.row_edges) - 1)
            return (plane * self.rows + self.row_edges[row]) * self.cols
        plane, rows, cols = self.tile(index)
        offset: int = (plane * self.rows + rows.start) * self.cols + (rows.stop - rows.start) * cols.start
        return offset


@dataclass(frozen=True)
class SlotInfo:
    """A named piece of a block's shared memory (with its byte offset) or of its registers."""

    name: str
    space: str  # "shared" | "register"
    rows: int
    cols: int
    dtype: str
    offset: int
    lifetime: str  # "block" | "tile"
    carry: bool

    @property
    def bytes(self) -> int:
        return self.rows * self.cols * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class LaunchInfo:
    """One kernel launch: its grid (first axis fastest), its threads and its slots."""

    name: str
    title: str
    grid: tuple[tuple[str, int], ...]
    threads: int
    first_node: int
    slots: tuple[SlotInfo, ...] = ()

    @property
    def blocks(self) -> int:
        count: int = prod(size for _, size in self.grid)
        return count

    @property
    def shared_bytes(self) -> int:
        return max((slot.offset + slot.bytes for slot in self.slots if slot.space == "shared"), default=0)

    def coordinates(self, block: int) -> dict[str, int]:
        """A block's place on each axis of the grid."""
        place = {}
        for axis, size in self.grid:
            block, place[axis] = divmod(block, size)
        return place


@dataclass(frozen=True)
class StepInfo:
    """A kind of step: its name (the same words in the twin and in the CUDA source), label and formulas."""

    name: str
    launch: int
    label: str
    loops: tuple[str, ...] = ()
    relabel: dict[str, str] = field(default_factory=dict)
    formulas: dict[str, list[Any]] = field(default_factory=dict)
    lines: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Meta:
    """All of a trace that is not a column."""

    kernel: str
    title: str
    generator: str
    problem: dict[str, Any]
    tiling: dict[str, int]
    values: str
    focus: int
    arrays: tuple[ArrayInfo, ...]
    launches: tuple[LaunchInfo, ...]
    steps: tuple[StepInfo, ...]
    captions: tuple[str, ...]
    sources: dict[str, str]
    format: int = 1

    @property
    def nodes(self) -> tuple[ArrayInfo | SlotInfo, ...]:
        """Arrays, then the slots of every launch: a node's number is its place here."""
        return (*self.arrays, *(slot for launch in self.launches for slot in launch.slots))

    def array(self, name: str) -> ArrayInfo:
        return next(array for array in self.arrays if array.name == name)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data; a grid axis is written as an object so that the file reads well."""
        data = asdict(self)
        for launch in data["launches"]:
            launch["grid"] = [{"axis": axis, "size": size} for axis, size in launch["grid"]]
        return data

    @classmethod
    def from_json(cls, data: object) -> Meta:
        """The header of an untrusted file. Raises TraceError with what is wrong first."""
        if strange := strange_text(data):
            raise TraceError(f"The trace is damaged: {strange}.")
        read = _Reader(data, "the header")
        if read.take("format", int) != 1:
            raise TraceError("The trace has a format that this version cannot read: it should be 1.")
        arrays = tuple(_array(part) for part in read.parts("arrays"))
        launches = tuple(_launch(part) for part in read.parts("launches"))
        first = len(arrays)
        for launch in launches:
            if launch.first_node != first:
                raise TraceError(f"The trace numbers the slots of launch {launch.name} wrongly.")
            first += len(launch.slots)
        if first > MAX_NODES:
            raise TraceError(f"The trace has {first} arrays and slots; at most {MAX_NODES} are read.")
        problem = _Reader(read.take("problem", dict), "the problem")
        for size in SIZES:
            problem.count(size)
        if not isinstance(problem.data.get("scale"), int | float):
            raise TraceError("The trace is damaged: the problem should have a scale.")
        masked = problem.take("key_mask", bool)
        if masked != any(array.name == KEY_MASK for array in arrays):
            raise TraceError("The trace is damaged: the problem and the arrays disagree on a key mask.")
        problem.take("causal", bool)
        steps = tuple(_step(part, len(launches)) for part in read.parts("steps"))
        if not steps or steps[0].launch != -1:
            raise TraceError("The trace has no start among its kinds of step.")
        captions = read.take("captions", list)
        if not all(isinstance(caption, str) for caption in captions):
            raise TraceError("The trace has a caption that is not text.")
        tiling = read.take("tiling", dict)
        if not all(isinstance(value, int) for value in tiling.values()):
            raise TraceError("The trace has a tiling that is not made of whole numbers.")
        return cls(
            kernel=read.take("kernel", str),
            title=read.take("title", str),
            generator=read.take("generator", str),
            problem=problem.data,
            tiling=tiling,
            values=read.choice("values", ("all", "focus", "none")),
            focus=read.take("focus", int),
            arrays=arrays,
            launches=launches,
            steps=steps,
            captions=tuple(captions),
            sources={str(k): str(v) for k, v in read.take("sources", dict).items()},
        )


class _Reader:
    """Takes typed fields out of JSON objects and says which one is wrong."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, dict):
            raise TraceError(f"The trace is damaged: {where} should be an object.")
        self.data, self.where = data, where

    def take(self, key: str, kind: type[Any]) -> Any:
        value = self.data.get(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TraceError(f"The trace is damaged: {self.where} should have {key!r} as {kind.__name__}.")
        return value

    def count(self, key: str, least: int = 0) -> int:
        value: int = self.take(key, int)
        if not least <= value < 2**31:
            raise TraceError(f"The trace is damaged: {key!r} of {self.where} is {value}, out of range.")
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value: str = self.take(key, str)
        if value not in choices:
            raise TraceError(f"The trace is damaged: {key!r} of {self.where} should be one of {', '.join(choices)}.")
        return value

    def parts(self, key: str) -> list[_Reader]:
        return [_Reader(part, f"{key}[{n}]") for n, part in enumerate(self.take(key, list))]

    def edges(self, key: str, end: int) -> tuple[int, ...]:
        edges = self.take(key, list)
        if not edges or not all(type(edge) is int for edge in edges) or edges[0] != 0 or edges[-1] != end:
            raise TraceError(f"The trace is damaged: {key!r} of {self.where} should run from 0 to {end}.")
        if any(a >= b for a, b in pairwise(edges)):
            raise TraceError(f"The trace is damaged: {key!r} of {self.where} should ascend.")
        return tuple(edges)


def _array(read: _Reader) -> ArrayInfo:
    rows, cols = read.count("rows"), read.count("cols")
    filled = read.data.get("filled")
    array = ArrayInfo(
        name=read.take("name", str),
        space=read.choice("space", ("hbm", "virtual")),
        role=read.choice("role", ("input", "output", "scratch")),
        dtype=read.choice("dtype", tuple(DTYPE_BYTES)),
        batch=read.count("batch", 1),
        heads=read.count("heads", 1),
        rows=rows,
        cols=cols,
        vector=read.take("vector", bool),
        row_edges=read.edges("row_edges", rows),
        col_edges=read.edges("col_edges", cols),
        initial=read.count("initial", -1),
        filled=filled if isinstance(filled, str) else None,
    )
    if array.size > MAX_ARRAY:
        raise TraceError(f"The trace is damaged: array {array.name} claims {array.size} elements.")
    if array.vector and cols != 1:
        raise TraceError(f"The trace is damaged: vector {array.name} has {cols} columns.")
    return array


def _launch(read: _Reader) -> LaunchInfo:
    grid = tuple((axis.take("axis", str), axis.count("size")) for axis in read.parts("grid"))
    slots = tuple(
        SlotInfo(
            name=slot.take("name", str),
            space=slot.choice("space", ("shared", "register")),
            rows=slot.count("rows"),
            cols=slot.count("cols"),
            dtype=slot.choice("dtype", tuple(DTYPE_BYTES)),
            offset=slot.count("offset"),
            lifetime=slot.choice("lifetime", ("block", "tile")),
            carry=slot.take("carry", bool),
        )
        for slot in read.parts("slots")
    )
    if prod(size for _, size in grid) > MAX_BLOCKS or not 1 <= len(grid) <= 8:
        raise TraceError(f"The trace is damaged: {read.where} has a grid that no GPU could run.")
    return LaunchInfo(
        name=read.take("name", str),
        title=read.take("title", str),
        grid=grid,
        threads=read.count("threads", 1),
        first_node=read.count("first_node"),
        slots=slots,
    )


def _step(read: _Reader, launches: int) -> StepInfo:
    launch = read.count("launch", -1)
    if launch >= launches:
        raise TraceError(f"The trace is damaged: {read.where} belongs to a launch that is not there.")
    loops = read.take("loops", list)
    if len(loops) > 2 or not all(isinstance(loop, str) for loop in loops):
        raise TraceError(f"The trace is damaged: {read.where} should have at most two named loops.")
    relabel, formulas, lines = (read.take(key, dict) for key in ("relabel", "formulas", "lines"))
    if not all(isinstance(name, str) for name in relabel.values()):
        raise TraceError(f"The trace is damaged: {read.where} relabels a slot with something that is no name.")
    if not all(formula.sound(text) for text in formulas.values()):
        raise TraceError(f"The trace is damaged: {read.where} has a formula that this version does not know.")
    for pair in lines.values():
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(line) is int for line in pair)):
            raise TraceError(f"The trace is damaged: {read.where} has lines that are not a first and a last.")
    return StepInfo(
        name=read.take("name", str),
        launch=launch,
        label=read.take("label", str),
        loops=tuple(loops),
        relabel=relabel,
        formulas=formulas,
        lines={name: (pair[0], pair[1]) for name, pair in lines.items()},
    )
