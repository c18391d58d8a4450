"""Agreement: what a kernel left in its slots, step by step, against the trace.

A right kernel lies within the bound of `trace/bounds.py` of exact arithmetic. So does the trace; so a kernel
may differ from the trace by its bound plus the trace's own distance from exact, which is no more than the bound
again: a trace that lies farther off is no excuse for what it is compared with. A value that is not finite on
either side must be the same on both: a NaN against a number is a failure, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import words
from .bounds import Bounded, Exact
from .layout import ArrayInfo
from .trace import Trace

Floats = NDArray[np.float32]
Progress = Callable[[int, int], None]
Rounding = tuple[float, float]
"""What may be lost of a number besides: a share of it (a type's unit roundoff), and so much of however small a number."""


@dataclass(frozen=True)
class Element:
    """One element that differs: where it stands, both values, and how far apart they may lie."""

    row: int
    col: int
    got: float
    want: float
    allowed: float


@dataclass(frozen=True)
class SlotAgreement:
    """One slot after one step (or one array at the end). Differences are over the finite elements."""

    slot: str
    max_abs: float
    max_rel: float
    max_ulp: float
    nonfinite: int  # elements where one side is not finite and the other is not the same
    used: float  # the largest share of the allowed difference that was used; above 1 it differs
    first: Element | None  # the first element that differs by more than is allowed
    got: Floats = field(repr=False, compare=False)  # the kernel's numbers, (rows, cols)
    want: Floats = field(repr=False, compare=False)  # the trace's
    allowed: NDArray[np.float64] = field(repr=False, compare=False)  # how far they may lie apart

    @property
    def ok(self) -> bool:
        return self.first is None


@dataclass(frozen=True)
class StepAgreement:
    """All checked slots of one step, and the running worst share of what is allowed."""

    step: int
    label: str
    slots: tuple[SlotAgreement, ...]
    worst: float

    @property
    def ok(self) -> bool:
        return all(slot.ok for slot in self.slots)


@dataclass(frozen=True)
class Divergence:
    """The first place where kernel and trace part. In an array at the end, the element's row counts on through its
    batches and heads, and `place` names them; `label` is "" where no steps were compared."""

    step: int
    label: str
    path: tuple[str, ...]
    slot: str
    element: Element
    place: str = ""

    def __str__(self) -> str:
        e = self.element
        when = f"at step {self.step} ({', '.join((*self.path, self.label))})" if self.label else "in"
        where = self.place or f"row {e.row}, column {e.col}"
        return (
            f"first differs {when}{',' if self.label else ''} {self.slot}, {where}:"
            f" {words.number(e.got)} against {words.number(e.want)} (allowed: {words.number(e.allowed)})"
        )


@dataclass(frozen=True)
class Agreement:
    """The verdict on a kernel, with its grounds."""

    engine: str
    steps: tuple[StepAgreement, ...]
    outputs: tuple[SlotAgreement, ...]
    device: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    first_divergence: Divergence | None = None
    findings: tuple[str, ...] = ()  # what else an engine found wrong, a sentence each: a race, a write beyond an array

    def __repr__(self) -> str:
        """The verdict in a sentence: an assertion that fails prints it, and not every number."""
        used = f"used at most {self.worst:.3g} of what is allowed"
        grounds = [str(self.first_divergence or used), *self.findings]
        return f"<Agreement of {self.engine}: {'agrees' if self.ok else 'differs'}; {'; '.join(grounds)}>"

    @property
    def ok(self) -> bool:
        return self.first_divergence is None and not self.findings

    @property
    def worst(self) -> float:
        """The largest share of the allowed difference that any element used."""
        return max([step.worst for step in self.steps[-1:]] + [output.used for output in self.outputs], default=0.0)

    def to_json(self) -> dict[str, Any]:
        """Plain data; numbers that JSON lacks are written as text."""
        return {
            "engine": self.engine,
            "ok": self.ok,
            "first_divergence": str(self.first_divergence) if self.first_divergence else None,
            "findings": list(self.findings),
            "worst_share_of_allowed": plain(self.worst),
            "device": self.device,
            "note": self.note,
            "steps": [
                {"step": step.step, "label": step.label, "ok": step.ok, "worst": plain(step.worst),
                 "slots": [_slot_json(slot) for slot in step.slots]}
                for step in self.steps
            ],
            "outputs": [_slot_json(output) for output in self.outputs],
        }  # fmt: skip


def plain(value: Any) -> Any:
    """The value, as JSON holds it: a float that JSON lacks (NaN, an infinity) is its text."""
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _slot_json(slot: SlotAgreement) -> dict[str, Any]:
    first = slot.first
    return {
        "slot": slot.slot, "ok": slot.ok, "max_abs": plain(slot.max_abs), "max_rel": plain(slot.max_rel),
        "max_ulp": plain(slot.max_ulp), "nonfinite": slot.nonfinite, "used": plain(slot.used),
        "first": None if first is None else {
            "row": first.row, "col": first.col,
            "got": plain(first.got), "want": plain(first.want), "allowed": plain(first.allowed),
        },
    }  # fmt: skip


def compare_slot(name: str, got: Floats, want: Floats, exact: Bounded) -> SlotAgreement:
    """One slot against the trace: got and want (rows, cols) float32, exact with its bound of the same shape."""
    with np.errstate(all="ignore"):  # a signalling NaN is one already where it is read
        g, w = got.astype(np.float64), want.astype(np.float64)
        finite = np.isfinite(g) & np.isfinite(w)
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        gap = np.where(finite, np.abs(g - w), 0.0)
        own = np.abs(w - exact.value)
        # A bound that is no number is one without end: scores of 1e30 round by more than exp can take.
        allowed = exact.error + np.where(np.isfinite(own), np.minimum(own, exact.error), 0.0)
        allowed = np.nan_to_num(allowed, nan=np.inf, posinf=np.inf)
        allowed = np.where(np.isfinite(w), allowed, 0.0)
        used = np.where(gap == 0, 0.0, gap / np.where(allowed > 0, allowed, 1.0))
        used = np.where((gap > 0) & (allowed == 0), np.inf, used)
        disagree = ~finite & ~same
        wrong = disagree | (finite & ~(gap <= allowed))
        relative = np.where(gap == 0, 0.0, gap / np.maximum(np.abs(w), np.finfo(np.float32).tiny))
        ulp = gap / np.spacing(np.maximum(np.abs(want), np.float32(np.finfo(np.float32).tiny))).astype(np.float64)
    first = None
    if wrong.any():
        row, col = np.argwhere(wrong)[0]
        first = Element(int(row), int(col), float(g[row, col]), float(w[row, col]), float(allowed[row, col]))
    return SlotAgreement(
        name, float(gap.max(initial=0)), float(relative.max(initial=0)), float(np.where(finite, ulp, 0).max(initial=0)),
        int(disagree.sum()), float("inf") if disagree.any() else float(used.max(initial=0)), first,
        got, want, allowed,
    )  # fmt: skip


def agree(trace: Trace, observed: Iterable[tuple[int, str, Floats]], arrays: dict[str, Floats], *, engine: str,
          device: dict[str, Any] | None = None, note: str = "", rounding: dict[str, Rounding] | None = None,
          progress: Progress | None = None) -> Agreement:  # fmt: skip
    """Compare a kernel's run with the trace.

    observed: (step, slot, its valid part (rows, cols)) in the order of steps. arrays: HBM at the end, by name.
    Steps whose numbers the trace did not keep are compared with exact arithmetic rounded to float32 instead.
    rounding: what may be lost of an array besides, by name.
    progress(done, total) is called every few steps and may raise to cancel.
    """
    seen: dict[int, list[tuple[str, Floats]]] = {}
    for t, slot, data in observed:
        seen.setdefault(t, []).append((slot, data))
    exact = Exact(trace)
    steps: list[StepAgreement] = []
    first: Divergence | None = None
    worst = 0.0
    for t, written in exact.walk():
        if progress is not None and t % 16 == 0:
            progress(t, len(trace.steps_kind))
        if t not in seen:
            continue
        state = trace.state(t)
        slots = []
        order = list(written)  # the order in which the step computes them: the first to differ is where it went wrong
        for name, data in sorted(seen[t], key=lambda found: order.index(found[0])):
            bound = written[name]
            with np.errstate(all="ignore"):  # beyond float32 it is an infinity there too
                want = state[name].reshape(data.shape) if name in state else bound.value.astype(np.float32)
            slots.append(compare_slot(name, data, want, bound))
        worst = max([worst, *(slot.used for slot in slots)])
        step = StepAgreement(t, words.label(trace, t), tuple(slots), worst)
        steps.append(step)
        if first is None and not step.ok:
            at = next(found for found in slots if found.first)
            assert at.first
            first = Divergence(t, step.label, words.path(trace, t), at.slot, at.first)
    outputs = []
    last = len(trace.steps_kind) - 1
    end = trace.state(last)
    for info in trace.meta.arrays:
        if info.space == "hbm" and info.role != "input" and info.name in arrays:
            shape = (info.planes * info.rows, info.cols)
            bound = exact.arrays[info.name]
            flat = _rounded(bound, *(rounding or {}).get(info.name, (0.0, 0.0)), shape)
            output = compare_slot(info.name, arrays[info.name].reshape(shape), end[info.name].reshape(shape), flat)
            outputs.append(output)
            if first is None and output.first:
                first = Divergence(last, "the end", (), info.name, output.first, _place(info, output.first))
    return Agreement(engine, tuple(steps), tuple(outputs), device or {}, note, first)


def _rounded(bound: Bounded, unit: float, least: float, shape: tuple[int, int]) -> Bounded:
    """The bound in `shape`, of numbers that were rounded once more: x within e of exact moves by u (|exact| + e) at most."""
    value, error = bound.value.reshape(shape), bound.error.reshape(shape)
    size = np.abs(value) + error
    rounded = (size > 0) & np.isfinite(size)  # what must be 0 stays 0, and an infinity is no rounded number
    return Bounded(value, error + np.where(rounded, unit * np.where(rounded, size, 0.0) + least, 0.0))


def _place(info: ArrayInfo, element: Element) -> str:
    """An element of an array with its batch and head, where there are several."""
    plane, row = divmod(element.row, info.rows)
    place = [f"row {row}"] if info.vector else [f"row {row}", f"column {element.col}"]
    if info.planes > 1:
        batch, head = divmod(plane, info.heads)
        place = [f"batch {batch}", f"head {head}", *place]
    return ", ".join(place)
