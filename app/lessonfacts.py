"""What a lesson's text may ask of the recorded run: steps, numbers, traffic. Every number in prose comes from here.

A `Facts` holds one run and answers the questions that `templates/lessons/*.md` asks in Jinja. It only reads: the run, the
closed forms, and other small runs that a text sets beside this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np
from numpy.typing import NDArray

from ..kernels.engines.capture import inputs_of
from ..kernels.engines.gpu import STATIC_SHARED
from ..kernels.kernel import Kernel
from ..kernels.problem import PROBLEM_FIELDS, TILING_FIELDS, Problem, Tiling
from ..kernels.record import Run, estimate, record
from ..kernels.registry import get
from ..trace import words
from ..trace.events import CROSSINGS
from ..trace.ledger import total
from . import closedforms, decode, occupancy, splits, splitspage
from .lessonwords import NOTHING, chart, cite, fmt, tex, texlist
from .parameters import as_text
from .tables import count, percent, plural

BESIDE_STEPS = 2_000  # another run keeps its numbers up to here, and only its counts beyond


@dataclass(frozen=True)
class Claim:
    """What a link says of the step it leads to: the step's name, and where it stands in which run. For the tests."""

    step: int
    name: str
    where: dict[str, int]
    run: Run = field(repr=False)


@dataclass(frozen=True)
class Watched:
    """A row of a slot in the step that raises it: the step, the row in the tile, the number before and after."""

    step: int
    row: int
    old: float
    new: float


@dataclass
class Facts:
    """One run, as a text sees it. `query` is the run's part of the address, `step` not among it."""

    run: Run
    kernel: Kernel
    query: str = ""
    here: bool = True  # the run on the page; a run set beside it is led to by a link of its own
    claims: list[Claim] = field(default_factory=list)

    # ---- sizes

    def letters(self) -> dict[str, Any]:
        """The letters of the sizes: N queries, M keys, d, Br, Bc, Tr, Tc, ns splits, B sequences, H and Hkv heads, last."""
        p, t, s = self.run.problem, self.run.tiling, closedforms.Sizes.of(self.run.problem, self.run.tiling)
        return {
            "N": s.N, "M": s.M, "d": s.d, "Br": t.block_rows, "Bc": t.block_cols, "Tr": s.Tr, "Tc": s.Tc, "ns": s.ns,
            "B": p.batch, "H": p.heads, "Hkv": p.kv_heads, "group": p.group, "scale": p.effective_scale, "causal": p.causal,
            "inputs": p.inputs, "last": len(self.run.trace.steps) - 1,
        }  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        """A letter of the sizes, so that a run set beside this one says `other.N`."""
        if name.startswith("_") or "run" not in self.__dict__:
            raise AttributeError(name)
        try:
            return self.letters()[name]
        except KeyError:
            raise AttributeError(name) from None

    def names(self) -> dict[str, Any]:
        """Every name that a text may use."""
        own = (
            "steps", "first", "final", "go", "value", "old", "numbers", "column", "along", "caption", "label", "rises",
            "keeps", "starts", "watch", "ledger", "traffic", "closed", "closed_total", "formed", "launch_traffic",
            "traffic_table", "ideal", "least", "other", "alike", "apart", "sizes", "output", "shared_bytes", "blocks",
            "flops", "masked", "decode_form", "yours",
        )  # fmt: skip
        free = {
            "fmt": fmt, "tex": tex, "texlist": texlist, "count": count, "plural": plural, "percent": percent, "cite": cite,
            "chart": chart, "saves_from": closedforms.saves_from, "tile_bytes": closedforms.tile_bytes,
            "static_shared": STATIC_SHARED, "decode": decode, "measured": decode.measured, "split_choices": splits.choices,
            "exp": math.exp, "log": math.log, "ceil": math.ceil, "max": max, "min": min, "abs": abs, "sum": sum, "inf": math.inf,
            "float32_max": float(np.finfo(np.float32).max),
        }  # fmt: skip
        return {**self.letters(), **{name: getattr(self, name) for name in own}, **free}

    def sizes(self) -> dict[str, Any]:
        """The sizes that every kernel has, to ask `other` for the same."""
        p, t = self.run.problem, self.run.tiling
        return {"batch": p.batch, "heads": p.heads, "seqlen_q": p.seqlen_q, "seqlen_k": p.seqlen_k,
                "block_rows": t.block_rows, "block_cols": t.block_cols}  # fmt: skip

    # ---- steps

    def kinds(self, name: str) -> list[int]:
        """The kinds of step of this name; "launch/name" where several launches have one."""
        launch, slash, rest = name.partition("/")
        meta = self.run.trace.meta
        if slash:
            return [n for n, info in enumerate(meta.steps)
                    if info.name == rest and info.launch >= 0 and meta.launches[info.launch].name == launch]  # fmt: skip
        return [n for n, info in enumerate(meta.steps) if info.name == name]

    def steps(self, name: str, **where: int) -> list[int]:
        """The steps of this name, in serial order. where: loops and grid axes by name (i, j, split, head, batch), or block."""
        trace = self.run.trace
        kinds = self.kinds(name)
        if not kinds:
            raise KeyError(f"{self.kernel.name} has no step called {name!r}")
        found = np.flatnonzero(np.isin(trace.steps_kind, kinds))
        return [int(t) for t in found if self._stands(int(t), where)]

    def _stands(self, t: int, where: dict[str, int]) -> bool:
        trace = self.run.trace
        info, block = trace.step_info(t), int(trace.steps_block[t])
        for name, wanted in where.items():
            if name == "block":
                place = block
            elif name in info.loops:
                place = trace.loops_of(t)[info.loops.index(name)]
            else:
                place = trace.meta.launches[info.launch].coordinates(block).get(name, -1)
            if place != wanted:
                return False
        return True

    def first(self, name: str, **where: int) -> int | None:
        """The first such step; None where these sizes have none."""
        return next(iter(self.steps(name, **where)), None)

    def final(self, name: str, **where: int) -> int | None:
        """The last such step; None where these sizes have none."""
        return next(reversed(self.steps(name, **where)), None)

    def along(self, t: int, axis: str) -> int:
        """Where the block of step t stands along an axis of its grid: split, head, batch …"""
        trace = self.run.trace
        return trace.meta.launches[trace.step_info(t).launch].coordinates(int(trace.steps_block[t]))[axis]

    def go(self, target: str | int | None, cell: str | None = None, **where: int) -> str:
        """The address of a step for a Markdown link: `[the phrase]({{ go("update m, l", j=1) }})`.

        target: a step's name (then `where` as for `steps`), or a step. None, or a step that these sizes do not have, leaves
        the phrase without a link. cell: selected there ("li.0.0").
        """
        t = self.first(target, **where) if isinstance(target, str) else target
        if t is None or (not self.here and len(self.run.trace.steps) > BESIDE_STEPS + 1):  # a lesson would refuse that run
            return "step:none"
        self.claims.append(Claim(t, target if isinstance(target, str) else self.run.trace.step_info(t).name, where, self.run))
        if not self.here:
            parts = [self.query, f"step={t}", f"cell={cell}" if cell else ""]
            return f"/lessons/{self.kernel.name}?" + "&".join(part for part in parts if part)
        return f"step:{t}" + (f":{cell}" if cell else "")

    def caption(self, t: int | None) -> str:
        """The figure's own sentence of step t."""
        return NOTHING if t is None else words.caption(self.run.trace, t)

    def label(self, t: int | None) -> str:
        """The label of step t in the step list."""
        return NOTHING if t is None else words.label(self.run.trace, t)

    # ---- numbers

    def value(self, name: str, t: int | None = None, row: int = 0, col: int = 0, plane: int = 0) -> float | None:
        """One number of a slot, or of an array in HBM, after step t (default: the last). None where it holds none.

        row and col are the slot's own; of an array the whole matrix's, in `plane` (head by head, sequence by sequence).
        """
        table = self._table(name, t, plane)
        if table is None or row >= table.shape[0] or col >= table.shape[1]:
            return None
        return float(table[row, col])

    def numbers(self, name: str, t: int | None = None, row: int = 0, plane: int = 0) -> list[float]:
        """A row of a slot or an array after step t, as `value`; empty where it holds none."""
        table = self._table(name, t, plane)
        return [] if table is None or row >= table.shape[0] else [float(x) for x in table[row]]

    def old(self, name: str, t: int | None, row: int = 0, col: int = 0) -> float | None:
        """One number of a slot before step t, in the same block."""
        if t is None or t < 1 or self.run.trace.steps_block[t] != self.run.trace.steps_block[t - 1]:
            return None
        return self.value(name, t - 1, row, col)

    def _table(self, name: str, t: int | None, plane: int) -> NDArray[np.float32] | None:
        trace = self.run.trace
        t = len(trace.steps) - 1 if t is None else t
        state = trace.state(t)
        if name not in state:
            return None
        found: NDArray[np.float32] = np.asarray(state[name])
        if not any(info.name == name for info in trace.meta.arrays):
            return found.reshape(len(found), -1)
        info = trace.meta.array(name)
        shape = (info.planes, info.rows, info.cols)
        return np.asarray(found.reshape(shape)[plane], np.float32)

    def column(self, name: str, t: int | None = None, col: int = 0, plane: int = 0) -> list[float]:
        """A column of a slot or an array after step t, as `value`; empty where it holds none."""
        table = self._table(name, t, plane)
        return [] if table is None or col >= table.shape[1] else [float(x) for x in table[:, col]]

    def output(self, name: str, *index: int) -> float:
        """One number of an output: `output("lse", 0, 0, 3)`."""
        return float(self.run.outputs[name][index])

    def apart(self, other: Facts, name: str = "O") -> float:
        """The largest difference between an output of this run and another's, number by number; NaN and infinities apart."""
        with np.errstate(invalid="ignore"):
            gap = np.abs(self.run.outputs[name].astype(np.float64) - other.run.outputs[name])
        return float(gap[np.isfinite(gap)].max(initial=0.0))

    def _updates(self, slot: str, name: str | None, where: dict[str, int]) -> list[int]:
        """The steps that work out `slot` by a formula, or those called `name`, in serial order."""
        names = [name] if name else [info.name for info in self.run.trace.meta.steps
                                     if slot in info.formulas and info.name != "block appears"]  # fmt: skip
        return sorted(t for one in dict.fromkeys(names) for t in self.steps(one, **where))

    def _changes(self, slot: str, row: int, name: str | None, where: dict[str, int]) -> Iterable[tuple[int, float, float]]:
        """(step, old, new) of every step that updates `slot` and has both numbers."""
        for t in self._updates(slot, name, where):
            before, after = self.old(slot, t, row), self.value(slot, t, row)
            if before is not None and after is not None:
                yield t, before, after

    def rises(self, slot: str = "mi", row: int = 0, name: str | None = None, **where: int) -> int | None:
        """The first step in which `slot` of `row` rises from a finite number to another; None where it never does."""
        return next((t for t, old, new in self._changes(slot, row, name, where) if -math.inf < old < new), None)

    def keeps(self, slot: str = "mi", row: int = 0, name: str | None = None, **where: int) -> int | None:
        """The first step that leaves a finite number of `slot` as it was; None where there is none."""
        return next((t for t, old, new in self._changes(slot, row, name, where) if -math.inf < old == new), None)

    def starts(self, slot: str = "mi", row: int = 0, name: str | None = None, **where: int) -> int | None:
        """The first step in which `slot` of `row` leaves −∞; None where it never does."""
        return next((t for t, old, new in self._changes(slot, row, name, where) if old == -math.inf < new), None)

    def watch(self, slot: str = "mi", name: str | None = None, **where: int) -> Watched | None:
        """A row worth watching: the first step in which a row of `slot` rises from one finite number to another.

        Of the rows that rise there, the one that rises furthest. None where no row ever does, or none by so much that it can
        be seen in the numbers as they are written: equal scores may differ by how float32 rounds.
        """
        for t in self._updates(slot, name, where):
            before, after = self._table(slot, t - 1, 0), self._table(slot, t, 0)
            if before is None or after is None or before.shape != after.shape:
                continue
            finite = np.isfinite(before) & np.isfinite(after)
            rise = np.subtract(after, before, out=np.zeros_like(after), where=finite)[:, 0]
            row = int(rise.argmax()) if len(rise) else 0
            if rise.max(initial=0.0) > 0 and fmt(float(before[row, 0])) != fmt(float(after[row, 0])):
                return Watched(t, row, float(before[row, 0]), float(after[row, 0]))
        return None

    # ---- traffic and sizes of things

    @property
    def masked(self) -> bool:
        """Whether the run has a key mask."""
        return bool(self.run.trace.meta.problem["key_mask"])

    def ledger(self, array: str, way: str = "loads", unit: str = "elements") -> int:
        """What the run asked of HBM for one array: way loads or stores; unit elements, bytes or transfers."""
        return self.run.trace.ledger().get(array, {}).get(way, {}).get(unit, 0)

    def traffic(self, way: str | None = None, unit: str = "elements") -> int:
        """What the run asked of HBM over all arrays, in one direction or both."""
        entries = self.run.trace.ledger()
        return sum(total(entries, one, unit) for one in ((way,) if way else ("loads", "stores")))

    def _terms(self) -> tuple[closedforms.Term, ...]:
        return closedforms.terms(self.kernel.name, self.run.problem, self.run.tiling, self.masked)

    def closed(self, array: str, way: str = "loads") -> int:
        """The closed form's elements for one array in one direction."""
        return sum(term.elements for term in self._terms() if (term.array, term.way) == (array, way))

    def closed_total(self, way: str | None = None) -> int:
        """The closed form's elements over all arrays, in one direction or both."""
        return closedforms.total(self._terms(), way)

    def formed(
        self, kernel: str, way: str | None = None, arrays: tuple[str, ...] = (), key_mask: bool | None = None, **sizes: Any
    ) -> int:
        """The closed form's elements for any kernel at sizes of one's own (as Problem and Tiling name them); nothing is run.

        arrays: of these alone. What is not given is the reader's, also whether there is a key mask.
        """
        masked = self.masked if key_mask is None else key_mask
        asked = {**asdict(self.run.problem), **asdict(self.run.tiling), **sizes}
        problem = Problem(**{name: asked[name] for name in PROBLEM_FIELDS})
        terms = closedforms.terms(kernel, problem, Tiling(**{name: asked[name] for name in TILING_FIELDS}), masked)
        return closedforms.total(tuple(term for term in terms if not arrays or term.array in arrays), way)

    def _of_launch(self, launch: str) -> NDArray[np.bool_]:
        """Which events are a launch's."""
        trace = self.run.trace
        wanted = next(n for n, info in enumerate(trace.meta.launches) if info.name == launch)
        of_kind = np.array([info.launch == wanted for info in trace.meta.steps])
        return np.asarray(of_kind[trace.steps_kind][trace.event_step], np.bool_)

    def launch_traffic(self, launch: str, unit: str = "elements") -> int:
        """What the blocks of one launch asked of HBM, in both directions: elements or bytes."""
        trace = self.run.trace
        crossing = np.isin(trace.events.kind, CROSSINGS) & self._of_launch(launch)
        of = trace.event_bytes if unit == "bytes" else trace.events.elements.astype(np.int64)
        return int(of[crossing].sum())

    def traffic_table(self) -> str:
        """Closed form and ledger side by side, array by array, as a Markdown table."""
        heads = self.run.problem.batch * self.run.problem.heads
        form = "closed form a head" if heads > 1 else "closed form"
        lines = [f"| array | direction | {form} | comes to | ledger |", "|:--|:--|:--|--:|--:|"]
        for term in self._terms():
            way = "read" if term.way == "loads" else "written"
            asked = self.ledger(term.array, term.way)
            lines.append(f"| {term.array} | {way} | ${term.tex}$ | {count(term.elements)} | {count(asked)} |")
        lines.append(f"| **all** | | | **{count(self.closed_total())}** | **{count(self.traffic())}** |")
        return "\n".join(lines)

    def ideal(self) -> int:
        """Standard attention with every input read once, in elements."""
        return closedforms.ideal(self.run.problem)

    def least(self) -> int:
        """What any attention must move, in elements."""
        return closedforms.least(self.run.problem)

    def shared_bytes(self, launch: int = 0) -> int:
        """The shared memory of one block, in bytes."""
        return self.run.trace.meta.launches[launch].shared_bytes

    def blocks(self, launch: int = 0) -> int:
        """The blocks of a launch."""
        return self.run.trace.meta.launches[launch].blocks

    def flops(self, launch: str | None = None) -> int:
        """The floating-point operations of the run, or of one launch, a multiply-add counted as two."""
        counted = self.run.trace.events.flops.astype(np.int64)
        return int((counted if launch is None else counted[self._of_launch(launch)]).sum())

    # ---- the reader's own decode

    @property
    def yours(self) -> occupancy.Sizes:
        """The decode that the reader asks about: batch, heads, kv_heads, seqlen_k, head_dim, sms."""
        return splitspage.sizes_in(self.query)

    def decode_form(self, part: str) -> str:
        """A form for the reader's decode, with what follows from it: part "idle" or "choice"."""
        return f"```fragment\n{splitspage.fragment(part, self.query, f'/lessons/{self.kernel.name}')}\n```"

    # ---- other runs

    def other(self, kernel: str | None = None, **parameters: Any) -> Facts:
        """Another small run, recorded for this text: the same names answer for it, and its `go` opens it.

        kernel: this one by default. parameters: those that differ from its defaults under the named `inputs`.
        """
        name = kernel or self.kernel.name
        run = beside(name, tuple(sorted(parameters.items())))
        defaults = {**get(name).defaults(parameters.get("inputs", "random")), "inputs": "random"}
        differing = {key: as_text(value) for key, value in parameters.items() if value != defaults.get(key)}
        own = {key: text for key, text in parse_qsl(self.query) if key.startswith(occupancy.PREFIX)}
        return Facts(run, get(name), urlencode(differing | own), here=False, claims=self.claims)

    def alike(self, kernel: str, **changed: Any) -> Facts:
        """An attention kernel on this run's own inputs: the same names answer for it, and its `go` opens it.

        changed: block_rows and block_cols other than this run's.
        """
        p, t, inputs = self.run.problem, self.run.tiling, inputs_of(self.run).given()
        mask = inputs.pop("key_mask", None)
        asked = {"causal": p.causal, "scale": p.scale, "block_rows": t.block_rows, "block_cols": t.block_cols, **changed}
        small = estimate(kernel, *inputs.values(), key_mask=mask, **asked).steps <= BESIDE_STEPS
        run = record(kernel, *inputs.values(), key_mask=mask, values="all" if small else "none", **asked)
        query = {**dict(parse_qsl(self.query)), **{name: as_text(value) for name, value in changed.items()}}
        return Facts(run, get(kernel), urlencode(query), here=False, claims=self.claims)


@lru_cache(maxsize=128)
def beside(kernel: str, parameters: tuple[tuple[str, Any], ...]) -> Run:
    """A run that a text sets beside the reader's; its numbers are kept where it is small."""
    asked = {**get(kernel).defaults(dict(parameters).get("inputs", "random")), **dict(parameters)}
    small = estimate(kernel, **asked).steps <= BESIDE_STEPS
    return record(kernel, values="all" if small else "none", **asked)
