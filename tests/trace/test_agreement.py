"""Bounds hold for right arithmetic at hostile inputs, and agreement is neither blind nor nervous."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from stepbounds import within_bounds

import flashstep as fs
from flashstep.kernels import reference
from flashstep.trace.agreement import _rounded, agree, compare_slot
from flashstep.trace.bounds import Bounded, Exact, U

ATTENTION = ("standard", "flash-attention-1", "flash-attention-2", "flash-decoding")
Floats = NDArray[np.float32]


def hostile(seed: int, n_q: int, n_k: int, d: int, logit: float, spread: float) -> tuple[Floats, Floats, Floats]:
    """Queries and keys whose scores lie near `logit`, within `spread` of each other."""
    rng = np.random.default_rng(seed)
    size = np.sqrt(abs(logit) / np.sqrt(d))
    q = size * (1 + spread / max(abs(logit), 1) * rng.standard_normal((n_q, d)))
    k = np.sign(logit) * size * (1 + spread / max(abs(logit), 1) * rng.standard_normal((n_k, d)))
    return q.astype(np.float32), k.astype(np.float32), rng.standard_normal((n_k, d)).astype(np.float32)


@pytest.mark.parametrize("kernel", ATTENTION)
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 12), st.sampled_from([1, 2, 8, 64])),
    logit=st.sampled_from([0.0, 1.0, 50.0, 2000.0, -2000.0]),
    spread=st.sampled_from([1e-3, 1.0, 20.0]),
    causal=st.booleans(),
)
def test_the_twin_lies_within_the_bound_at_every_step(
    kernel: str, seed: int, sizes: tuple[int, int, int], logit: float, spread: float, causal: bool
) -> None:
    n_q, n_k, d = sizes
    q, k, v = hostile(seed, 1 if kernel == "flash-decoding" else n_q, n_k, d, logit, spread)
    trace = fs.record(kernel, q, k, v, causal=causal, block_rows=2, block_cols=3).trace
    assert within_bounds(trace)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), d=st.sampled_from([2, 16, 64]), logit=st.sampled_from([1.0, 2000.0]))
def test_another_order_of_summation_agrees(seed: int, d: int, logit: float) -> None:
    """FlashAttention 2 written plainly, every sum in a random order, in float32: a right kernel of another's hand."""
    q, k, v = hostile(seed, 4, 9, d, logit, 1.0)
    run = fs.record("flash-attention-2", q, k, v, block_rows=4, block_cols=3)
    rng = np.random.default_rng(seed)
    m, total, out = np.full((4, 1), -np.inf, np.float32), np.zeros((4, 1), np.float32), np.zeros((4, d), np.float32)
    seen: list[tuple[int, str, Floats]] = []
    updates = [step.index for step in run.trace.steps if step.name == "update m, l, O"]
    scale = np.float32(1 / np.sqrt(d))
    for step, start in zip(updates, range(0, 9, 3), strict=True):
        order, keys = rng.permutation(d), start + rng.permutation(3)
        s = np.zeros((4, 3), np.float32)
        for x in order:
            s += q[:, [x]] * k[None, start : start + 3, x]
        s *= scale
        m_new = np.maximum(m, s.max(axis=1, keepdims=True))
        alpha, p = np.exp(m - m_new), np.exp(s - m_new)
        total, out = alpha * total, alpha * out
        for key in keys:
            total = total + p[:, [key - start]]
            out = out + p[:, [key - start]] * v[key]
        m = m_new
        seen += [(step, "mi", m.copy()), (step, "li", total.copy()), (step, "Oi", out.copy())]
    verdict = agree(run.trace, seen, {"O": (out / total)[None, None]}, engine="another's hand")
    assert verdict.ok, str(verdict.first_divergence)
    assert verdict.worst <= 1
    wrong = [(step, slot, data * np.float32(1 + 1e-2) if slot == "li" else data) for step, slot, data in seen]
    off = agree(run.trace, wrong, {}, engine="another's hand").first_divergence
    if logit == 1.0:  # near 2,000 a percent of l is within what rounding of the scores allows
        assert off is not None
        assert (off.step, off.slot) == (updates[0], "li")


@pytest.mark.parametrize("kernel", ATTENTION)
@pytest.mark.parametrize(
    "asked", [{}, {"causal": True, "seqlen_k": 11, "heads": 4, "kv_heads": 2}, {"inputs": "first-tile-masked"}]
)
def test_exact_arithmetic_is_the_oracles(kernel: str, asked: dict[str, Any]) -> None:
    """The formulas followed in float64 end where the oracle, which shares no code with them, ends."""
    run = fs.record(kernel, **asked)
    exact, start = Exact(run.trace), run.trace.state(0)
    for _ in exact.walk():
        pass
    mask = start["key_mask"].reshape(run.problem.batch, -1) != 0 if "key_mask" in start else None
    q, k, v = (start[name] for name in "QKV")
    right = reference.attention(q, k, v, causal=run.problem.causal, key_mask=mask)
    got = exact.arrays["O"].value.reshape(right.O.shape)
    assert np.abs(got - right.O).max() < 1e-14


def test_the_bound_of_a_score_is_the_textbooks() -> None:
    trace = fs.record("flash-attention-2", seqlen_q=4, seqlen_k=4, head_dim=8).trace
    state = trace.state(0)
    q, k = (state[name][0, 0].astype(np.float64) for name in "QK")
    scale = trace.meta.problem["scale"]
    for t, written in Exact(trace).walk():
        if trace.steps[t].name == "fill Sij":
            closed = (8 + 2) * U * scale * (np.abs(q) @ np.abs(k).T)
            # u |s| is charged for the multiplication by scale, which Σ|q||k| bounds from above
            assert np.all(written["Sij"].error <= closed)
            assert np.all(written["Sij"].error >= 0.8 * closed - 2 * U * np.abs(written["Sij"].value))


def exactly(values: list[float], error: float = 0.0) -> tuple[Floats, Bounded]:
    row = np.array([values], np.float32)
    return row, Bounded(row.astype(np.float64), np.full(row.shape, error))


@pytest.mark.parametrize(
    ("got", "want", "error", "ok"),
    [
        ([1.0], [1.0], 0.0, True),
        ([1.0000001], [1.0], 0.0, False),
        ([1.0000001], [1.0], 1e-6, True),
        ([1.0000012], [1.0], 1e-6, False),  # a fifth beyond
        ([-1.0000012], [-1.0], 1e-6, False),
        ([np.nan], [1.0], 1e9, False),  # fmaxf(nan, 0) is 0: a comparison that hides this passes anything
        ([1.0], [np.nan], 1e9, False),
        ([np.nan], [np.nan], 0.0, True),
        ([np.inf], [1.0], 1e9, False),
        ([-np.inf], [-np.inf], 0.0, True),
        ([np.inf], [-np.inf], 1e9, False),
        ([-1e30], [-np.inf], 1e9, False),  # a finite stand-in
        ([0.0], [0.0], 0.0, True),  # a right zero
        ([0.0], [0.75], 1e-6, False),
    ],
)
def test_what_a_slot_may_hold(got: list[float], want: list[float], error: float, ok: bool) -> None:
    wanted, exact = exactly(want, error)
    verdict = compare_slot("Oi", np.array([got], np.float32), wanted, exact)
    assert verdict.ok is ok
    assert verdict.nonfinite == int(not ok and not (np.isfinite(got[0]) and np.isfinite(want[0])))
    assert (verdict.used <= 1) is ok


@pytest.mark.parametrize("kernel", ATTENTION)
def test_scores_so_large_that_rounding_decides_all_are_no_difference(kernel: str) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((n, 4)).astype(np.float32) for n in (1 if kernel == "flash-decoding" else 8, 8, 8))
    trace = fs.record(kernel, np.full_like(q, 1e30), k, v).trace
    seen = []
    for step in trace.steps[1:]:
        state = trace.state(step.index)
        seen += [(step.index, slot, state[slot].reshape(len(state[slot]), -1)) for slot in ("Sij", "mi", "li") if slot in state]
    written = {(t, name) for t, slots in Exact(trace).walk() for name in slots}
    verdict = agree(trace, [found for found in seen if found[:2] in written], {}, engine="the twin itself")
    assert verdict.ok, str(verdict.first_divergence)


def test_the_traces_own_distance_is_allowed_besides() -> None:
    """The trace may lie on one side of what is exact, and a right kernel on the other."""
    want, exact = np.array([[1.0, 1.0]], np.float32), Bounded(np.full((1, 2), 1.0 - 2**-21), np.full((1, 2), 2.0**-20))
    far = np.float32(1.0 - 2**-20 - 2**-21)
    verdict = compare_slot("Oi", np.array([[far, far - np.float32(2**-23)]], np.float32), want, exact)
    assert verdict.allowed.tolist() == [[2.0**-20 + 2.0**-21] * 2]
    assert verdict.first is not None
    assert verdict.first.col == 1
    assert verdict.used == (2**-20 + 2**-21 + 2**-23) / (2**-20 + 2**-21)


def test_a_trace_that_is_wrong_is_no_excuse() -> None:
    """As in a file that someone has changed: what is right differs from it, and so does what is wrong elsewhere."""
    wanted, exact = np.array([[1.5, 1.5]], np.float32), Bounded(np.ones((1, 2)), np.full((1, 2), 1e-6))
    verdict = compare_slot("Oi", np.array([[1.0, 1.4]], np.float32), wanted, exact)
    assert verdict.allowed.tolist() == [[2e-6, 2e-6]]
    assert not verdict.ok


def test_what_is_rounded_once_more_may_lose_of_its_error_too() -> None:
    bound = Bounded(np.array([[1.0], [0.0], [0.0], [-np.inf], [2.0]]), np.array([[0.25], [0.25], [0.0], [0.0], [np.inf]]))
    rounded = _rounded(bound, 2.0**-8, 2.0**-30, (1, 5))
    by = [0.25 + 2.0**-8 * 1.25 + 2.0**-30, 0.25 + 2.0**-8 * 0.25 + 2.0**-30, 0, 0, np.inf]
    assert rounded.error.tolist() == [by]
    assert _rounded(bound, 0.0, 0.0, (1, 5)).error.tolist() == [[0.25, 0.25, 0, 0, np.inf]]


@pytest.mark.parametrize(("wrong", "first"), [(["Oi", "li"], "li"), (["li", "mi"], "mi"), (["Oi", "Sij"], "Sij")])
def test_of_several_slots_the_first_to_be_computed_is_named(wrong: list[str], first: str) -> None:
    """li follows from Sij, and Oi from both: the one that the step computes first is where it went wrong."""
    trace = fs.record("flash-attention-2").trace
    step = next(step.index for step in trace.steps if step.name == "update m, l, O")
    state = trace.state(step)
    slots = ("Oi", "Sij", "li", "mi")
    seen = [(step, name, state[name].reshape(4, -1) + np.float32(name in wrong)) for name in slots]
    verdict = agree(trace, seen, {}, engine="test")
    assert verdict.first_divergence is not None
    assert verdict.first_divergence.slot == first
    assert [slot.slot for slot in verdict.steps[0].slots] == ["mi", "Sij", "li", "Oi"]


def test_an_element_at_the_end_is_named_by_batch_head_and_row() -> None:
    run = fs.record("flash-attention-2", batch=2, heads=3, seqlen_q=4, seqlen_k=5, head_dim=2)
    O, lse = run.outputs["O"].copy(), run.outputs["lse"].copy()
    O[1, 2, 3, 1] += 1
    lse[1, 0, 2] += 1
    verdict = agree(run.trace, (), {"O": O, "lse": lse}, engine="test")
    last = len(run.trace.steps) - 1
    place = f"first differs at step {last} (the end), O, batch 1, head 2, row 3, column 1: "
    assert str(verdict.first_divergence).startswith(place)
    verdict = agree(run.trace, (), {"lse": lse}, engine="test")
    assert "(the end), lse, batch 1, head 0, row 2: " in str(verdict.first_divergence)
    one = fs.record("flash-attention-2")
    verdict = agree(one.trace, (), {"O": one.outputs["O"] + 1}, engine="test")
    assert "(the end), O, row 0, column 0: " in str(verdict.first_divergence)


def test_the_worst_is_kept_from_step_to_step_and_the_first_difference_too() -> None:
    trace = fs.record("flash-attention-2").trace
    seen: list[tuple[int, str, Floats]] = []
    for step in trace.steps:
        if step.name == "fill Sij":
            off = np.float32(len(seen) == 1) + 2 * np.float32(len(seen) == 2)
            seen.append((step.index, "Sij", trace.state(step.index)["Sij"] + off))
    arrays = {name: output * 2 for name, output in trace.outputs.items()}
    verdict = agree(trace, seen, arrays, engine="test")
    worst = [step.worst for step in verdict.steps]
    assert worst[0] == 0
    assert 1e3 < worst[1] < worst[2] == worst[3]
    assert verdict.worst == max(worst[-1], *(output.used for output in verdict.outputs))
    assert [step.ok for step in verdict.steps] == [True, False, False, True]
    assert verdict.first_divergence is not None
    assert (verdict.first_divergence.step, verdict.first_divergence.slot) == (seen[1][0], "Sij")
    assert verdict.first_divergence.element == verdict.steps[1].slots[0].first
    assert agree(trace, seen, {}, engine="test").worst == worst[-1]
    late = agree(trace, (), arrays, engine="test")
    assert late.first_divergence is not None
    assert late.first_divergence.slot == "O"


def test_the_first_element_that_differs_is_the_one_that_is_told() -> None:
    wanted, exact = exactly([1.0, 2.0, 3.0, 4.0], 1e-6)
    verdict = compare_slot("Oi", np.array([[1.0, 2.5, np.nan, 9.0]], np.float32), wanted, exact)
    assert verdict.first is not None
    assert (verdict.first.col, verdict.first.got, verdict.first.want) == (1, 2.5, 2.0)
    assert verdict.nonfinite == 1
    assert verdict.used == np.inf


def test_a_bound_without_end_is_no_number_that_a_nan_is_held_to() -> None:
    wanted, exact = exactly([-np.inf, np.nan, 1.0], np.inf)
    verdict = compare_slot("lse", np.array([[np.nan, 1.0, 2.0]], np.float32), wanted, exact)
    assert verdict.allowed.tolist() == [[0, 0, np.inf]]
    assert verdict.first is not None
    assert verdict.first.allowed == 0


def test_differences_are_measured() -> None:
    wanted, exact = exactly([1.0, 2.0, -4.0], 1e-6)
    got = np.array([[1.0, np.nextafter(np.float32(2), np.float32(3)), -4.00001]], np.float32)
    verdict = compare_slot("Oi", got, wanted, exact)
    assert verdict.max_abs == pytest.approx(1.0e-5, rel=0.05)
    assert verdict.max_ulp == pytest.approx(21, abs=1)
    assert verdict.max_rel == pytest.approx(2.4e-6, rel=0.05)
    assert verdict.first is not None
    assert (verdict.first.row, verdict.first.col) == (0, 2)
    assert verdict.used > 1


def test_a_verdict_names_the_place_and_is_plain_json() -> None:
    run = fs.record("flash-decoding")
    step = next(s.index for s in run.trace.steps if s.name == "update m, l, O" and s.block == 1)
    li = run.trace.state(step)["li"].reshape(1, 1)
    bad = agree(run.trace, [(step, "li", li * np.float32(np.nan))], {}, engine="test")
    place = "launch 1: one block a split, block 1 · split = 1, j = 0"
    assert str(bad.first_divergence).startswith(f"first differs at step {step} ({place}")
    assert "li, row 0, column 0: NaN against" in str(bad.first_divergence)
    text = json.dumps(bad.to_json(), allow_nan=False)
    told: dict[str, Any] = json.loads(text)
    assert told["ok"] is False
    assert told["steps"][0]["slots"][0]["first"]["got"] == "nan"


def test_what_an_engine_found_is_no_agreement() -> None:
    good = agree(fs.record("flash-decoding").trace, [], {}, engine="test")
    assert good.ok
    assert good.to_json()["findings"] == []
    found = replace(good, findings=("two threads race",))
    assert not found.ok
    told = found.to_json()
    assert (told["ok"], told["first_divergence"], told["findings"]) == (False, None, ["two threads race"])
