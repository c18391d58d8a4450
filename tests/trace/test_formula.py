"""Formulas: the text a twin writes, the lists a page reads, and that they say what really ran."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import flashstep as fs
from flashstep import Trace
from flashstep.trace.bounds import Exact
from flashstep.trace.events import Kind
from flashstep.trace.formula import parse, references, row_slot

SIZES: list[dict[str, Any]] = [
    {},
    {"seqlen_k": 7, "block_cols": 3, "head_dim": 3, "heads": 2},
    {"inputs": "first-tile-masked"},
    {"inputs": "fully-masked-row"},
    {"inputs": "large"},
]


def test_parse() -> None:
    assert parse("alpha[r] * old(li[r]) + sum(Sij[r, :])") == [
        "op", "+",
        ["op", "*", ["ref", "alpha", "r", 0, "new"], ["ref", "li", "r", 0, "old"]],
        ["call", "sum", ["ref", "Sij", "r", ":", "new"]],
    ]  # fmt: skip
    assert references(parse("masked(scale * dot(Qi[r, :], Kj[c, :]))")) == {"Qi", "Kj"}


@pytest.mark.parametrize("text", ["__import__('os')", "x", "a[b]", "f(x[r])", "x[1:2]", "x[r] ** 2", "lambda: 1", "x[r].y"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="formula"):
        parse(text)


@pytest.mark.parametrize("kernel", fs.kernels)
@pytest.mark.parametrize("asked", SIZES)
def test_every_computed_number_is_its_formula(kernel: str, asked: dict[str, Any]) -> None:
    """Evaluate each formula in float64 on the step's own float32 operands; no computed number is without one."""
    if kernel == "online-softmax":
        asked = {name: value for name, value in asked.items() if name != "head_dim"}
    trace = fs.record(kernel, **asked).trace
    nodes, checked = trace.meta.nodes, 0
    for t in range(1, len(trace.steps)):
        formulas = trace.step_info(t).formulas
        before, after = trace.state(t - 1), trace.state(t)
        for event in range(*trace.event_range(t)):
            if trace.events.kind[event] not in (Kind.FILL, Kind.UPDATE):
                continue
            name = nodes[trace.events.dst[event]].name
            rows, cols = int(trace.events.rows[event]), int(trace.events.cols[event])
            found = after[name].reshape(rows, cols)
            for r in range(rows):
                for c in range(cols):
                    with np.errstate(all="ignore"):
                        right = float(Evaluate(trace, t, before, after, r, c)(formulas[name]))
                    # 2,000-high scores carry their own rounding into exp
                    assert np.isclose(found[r, c], right, rtol=2e-3 if asked.get("inputs") == "large" else 2e-6, atol=1e-6), (
                        trace.steps[t].label, name, r, c, found[r, c], right,
                    )  # fmt: skip
                    checked += 1
    assert checked > 20


class Evaluate:
    """The meaning of formulas, once more, apart from the page's."""

    def __init__(self, trace: Trace, t: int, before: Any, after: Any, r: int, c: int) -> None:
        self.trace, self.t, self.before, self.after, self.r, self.c = trace, t, before, after, r, c

    def __call__(self, node: list[Any]) -> Any:
        match node:
            case ["num", x]:
                return x
            case ["const", "scale"]:
                return self.trace.meta.problem["scale"]
            case ["ref", name, row, col, when]:
                data = (self.before if when == "old" else self.after)[name].astype(np.float64)
                data = data[:, None] if data.ndim == 1 else data
                at = {"r": self.r, "c": self.c, ":": slice(None)}
                return data[at.get(row, row), at.get(col, col)]
            case ["op", sign, a, b]:
                x, y = self(a), self(b)
                return {"+": x + y, "-": x - y, "*": x * y, "/": x / y if y else np.nan}[sign]
            case ["call", name, *parts]:
                return getattr(self, f"_{name}")(*parts)
        raise AssertionError(node)

    def _max(self, *parts: Any) -> Any:
        return max((x for part in parts for x in np.atleast_1d(self(part))), default=-np.inf)

    def _sum(self, v: Any) -> Any:
        return np.sum(self(v))

    def _dot(self, a: Any, b: Any) -> Any:
        return np.dot(self(a), self(b))

    def _mix(self, p: Any, v: Any) -> Any:
        return np.dot(self(p), self(v))  # no NaN in these inputs: a hidden key weighs 0

    def _masked(self, x: Any) -> Any:
        return self(x) if self._visible() else -np.inf

    def _rescale(self, old: Any, new: Any) -> Any:
        return 1.0 if self(new) == -np.inf else np.exp(self(old) - self(new))

    def _weight(self, s: Any, m: Any) -> Any:
        s, m = self(s), self(m)
        return np.where(s == -np.inf, 0.0, np.exp(s - m))

    def _ratio(self, a: Any, b: Any) -> Any:
        return 0.0 if self(b) == 0 else self(a) / self(b)

    def _lse(self, m: Any, total: Any) -> Any:
        return -np.inf if self(total) == 0 else self(m) + np.log(self(total))

    def _visible(self) -> bool:
        trace, problem = self.trace, self.trace.meta.problem
        for event in range(*trace.event_range(self.t)):
            if trace.events.tiles[event] and trace.events.kind[event] == Kind.FILL:
                info = trace.meta.arrays[trace.events.src[event]]
                plane, rows, cols = info.tile(int(trace.events.tile[event]))
                query, key = rows.start + self.r, cols.start + self.c
                if problem["causal"] and key > query + problem["seqlen_k"] - problem["seqlen_q"]:
                    return False
                return not problem["key_mask"] or bool(self.after["key_mask"][plane // problem["heads"]].reshape(-1)[key])
        raise AssertionError("a masked score stands for no tile of S")


def test_the_slot_that_a_formula_runs_along() -> None:
    assert row_slot(parse("Sij[r, :]")) == "Sij"
    assert row_slot(parse("weight(Sij[r, :], mi[r])")) == "Sij"
    assert row_slot(parse("mi[r]")) is None


@pytest.mark.parametrize("kernel", ["standard", "flash-attention-1"])
@pytest.mark.parametrize("asked", [{"causal": True, "seqlen_q": 5}, {"inputs": "first-tile-masked", "heads": 2}])
def test_no_array_is_known_by_its_name(kernel: str, asked: dict[str, Any]) -> None:
    """What a formula may see follows from the tile that its slot stands for, whatever the kernel calls its arrays."""
    trace = fs.record(kernel, **asked).trace
    arrays = tuple(a if a.name == "key_mask" else replace(a, name=f"{a.name} by another name") for a in trace.meta.arrays)
    steps = {name: getattr(trace, f"steps_{name}") for name in ("kind", "block", "loop", "events", "caption", "args")}
    other = Trace(replace(trace.meta, arrays=arrays), trace.events, steps, trace.args, trace.values, trace.outputs)
    known, renamed = Exact(trace), Exact(other)
    for (t, slots), (_, others) in zip(known.walk(), renamed.walk(), strict=True):
        assert slots.keys() == others.keys()
        for name, slot in slots.items():
            assert np.array_equal(slot.value, others[name].value, equal_nan=True), (t, name)
            assert np.array_equal(slot.error, others[name].error, equal_nan=True), (t, name)
