"""The bound of every rule: it holds for numbers down to the smallest, is as tight as it says, and 0 where nothing is rounded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from stepbounds import within_bounds

import flashstep as fs
from flashstep.trace import bounds
from flashstep.trace.bounds import HALF, TINY, Bounded, Exact, U, _Evaluation
from flashstep.trace.formula import parse

ATTENTION = ("standard", "flash-attention-1", "flash-attention-2", "flash-decoding")
LEAST = 2.0**-149  # the smallest subnormal number
SIZES = st.sampled_from([1.0, 1e-19, 1e-30, 2.0**-126, 1e-40, 1e-42, LEAST])
Floats = NDArray[np.float32]


def small(rng: np.random.Generator, rows: int, cols: int, size: float) -> Floats:
    """Numbers about `size`, a few of them 0."""
    x = (rng.standard_normal((rows, cols)) * size).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = 0
    return x


@pytest.mark.parametrize("kernel", ATTENTION)
@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 12), st.sampled_from([1, 2, 8])),
    sizes=st.tuples(SIZES, SIZES, SIZES),
    scale=st.sampled_from([None, 1.0, 1e-10, 1e-41, 1e10]),
    causal=st.booleans(),
)
def test_subnormal_numbers_lie_within_the_bound_at_every_step(
    kernel: str, seed: int, shape: tuple[int, int, int], sizes: tuple[float, float, float], scale: float | None, causal: bool
) -> None:
    rng, (n_q, n_k, d) = np.random.default_rng(seed), shape
    rows = (1 if kernel == "flash-decoding" else n_q, n_k, n_k)
    q, k, v = (small(rng, n, d, size) for n, size in zip(rows, sizes, strict=True))
    trace = fs.record(kernel, q, k, v, scale=scale, causal=causal, block_rows=2, block_cols=3).trace
    assert within_bounds(trace)


def divided_first(s: Floats, v: Floats, order: list[int]) -> Floats:
    """Standard attention, by hand: P = exp(S − m) ÷ l, then a sum over the keys."""
    p = np.exp(s - s.max(axis=1, keepdims=True))
    total, out = np.zeros((len(s), 1), np.float32), np.zeros((len(s), v.shape[1]), np.float32)
    for key in order:
        total += p[:, [key]]
    for key in order:
        out += p[:, [key]] / total * v[key]
    return out


def divided_last(s: Floats, v: Floats, order: list[int]) -> Floats:
    """FlashAttention 2 in tiles of one key."""
    m, total = np.full((len(s), 1), -np.inf, np.float32), np.zeros((len(s), 1), np.float32)
    out = np.zeros((len(s), v.shape[1]), np.float32)
    for key in order:
        m_new = np.maximum(m, s[:, [key]])
        alpha, p = np.exp(m - m_new), np.exp(s[:, [key]] - m_new)
        total, out, m = alpha * total + p, alpha * out + p * v[key], m_new
    return out / total


def divided_in_tiles(s: Floats, v: Floats, order: list[int]) -> Floats:
    """FlashAttention 1 in tiles of two keys: O is divided after each."""
    m, total = np.full((len(s), 1), -np.inf, np.float32), np.zeros((len(s), 1), np.float32)
    out = np.zeros((len(s), v.shape[1]), np.float32)
    for keys in (order[at : at + 2] for at in range(0, len(order), 2)):
        m_new = np.maximum(m, s[:, keys].max(axis=1, keepdims=True))
        alpha, p = np.exp(m - m_new), np.exp(s[:, keys] - m_new)
        l_old = alpha * total
        total, m = l_old + p.sum(axis=1, keepdims=True), m_new
        out = out * l_old
        for n, key in enumerate(keys):
            out += p[:, [n]] * v[key]
        out = out / total
    return out


@pytest.mark.parametrize("hand", [divided_first, divided_last, divided_in_tiles])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 70), st.sampled_from([1, 2, 8])),
    logit=st.sampled_from([0.0, 1.0, 20.0]),
    size=st.sampled_from([1.0, 1e-6, 1e-36, 1e-38, 1e-40, 1e-42, 3e-45]),
)
def test_a_right_kernel_of_any_hand_is_right_however_small_v(
    hand: Any, kind: type[Any], seed: int, shape: tuple[int, int, int], logit: float, size: float
) -> None:
    rng, (n_q, n_k, d) = np.random.default_rng(seed), shape
    q, k = small(rng, n_q, d, logit), small(rng, n_k, d, 1.0)
    v = small(rng, n_k, d, size)
    scores = np.zeros((n_q, n_k), np.float32)
    for x in rng.permutation(d):
        scores += q[:, [x]] * k[None, :, x]
    scores *= np.float32(1 / np.sqrt(d))
    o = hand(scores, v, [int(key) for key in rng.permutation(n_k)]).astype(kind)
    verdict = fs.check(o, q, k, v)
    assert verdict.ok, verdict.first_divergence
    if logit == 0:  # the weights are equal and nothing of the bound is the scores'
        off = (8 * n_k + 64) * U * np.abs(v).max() + (4 * n_k + 8) * LEAST
        if kind is np.float16:
            off += 4 * (2.0**-11 * np.abs(v).max() + 2.0**-24)
        assert not fs.check((o + off).astype(kind), q, k, v).ok


@pytest.mark.parametrize("size", [1e-38, 1e-40, 1e-42])
def test_a_wrong_subnormal_is_wrong(size: float) -> None:
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((n, 8)).astype(np.float32) for n in (5, 9, 9))
    v = (v * size).astype(np.float32)
    run = fs.record("standard", q, k, v)
    o = run.outputs["O"]
    assert fs.check(o, q, k, v).ok
    one = o.copy()
    one[0, 0, 2, 3] *= np.float32(1.01)
    one[0, 0, 2, 3] += np.float32(20 * LEAST)
    without = fs.record("standard", q, k[:-1], v[:-1]).outputs["O"]
    for wrong in (np.zeros_like(o), np.full_like(o, v[0, 0]), -o, without, one, np.full_like(o, np.nan)):
        assert not fs.check(wrong, q, k, v).ok


# --- each rule --------------------------------------------------------------------------------------------------------


def rule(text: str, **slots: tuple[Any, Any]) -> Bounded:
    """The value and bound of a formula of slots that are given as (value, error), each a number or rows of numbers."""
    exact: Any = type("Problem", (), {"trace": fs.record("standard", scale=3.0).trace})()
    given = {}
    for name, pair in slots.items():
        value, error = np.broadcast_arrays(*(np.array(part, np.float64, ndmin=2) for part in pair))
        given[name] = Bounded(value, error)
    rows = max([bound.value.shape[0] for bound in given.values()], default=1)
    with np.errstate(all="ignore"):
        return _Evaluation(exact, given, given, {}, "x", rows, 1)(parse(text))


E, F = 2.0**-20, 2.0**-18  # errors of the operands


@pytest.mark.parametrize(
    ("text", "slots", "error"),
    [
        ("a[r] + b[r]", {"a": (3, E), "b": (5, F)}, E + F + 8 * U),
        ("a[r] - b[r]", {"a": (3, E), "b": (5, F)}, E + F + 2 * U),
        ("a[r] * b[r]", {"a": (3, E), "b": (-5, F)}, 3 * F + 5 * E + E * F + 15 * U + HALF),
        ("a[r] / b[r]", {"a": (3, E), "b": (-6, F)}, (E + 0.5 * F) / (6 - F) + 0.5 * U + HALF),
        ("scale * a[r]", {"a": (2, 0)}, 2 * (3 * U + HALF) + 6 * U + HALF),
        ("sum(a[r, :])", {"a": ([[1, -2, 4]], [[E, F, 0]])}, E + F + 3 * U * 7),
        ("dot(a[r, :], b[r, :])", {"a": ([[1, -2, 4]], E), "b": ([[3, 5, -6]], F)}, 7 * F + 14 * E + 3 * (E * F + U * 37 + HALF)),
        ("max(a[r, :])", {"a": ([[1, 4, 4 - E]], [[1, E, F]])}, F),  # 1 cannot be the maximum: its error is no matter
        ("max(a[r, :])", {"a": ([[3.5, 4]], [[1, E]])}, 1),
        ("exp(a[r])", {"a": (-3, E)}, np.exp(-3 + E) * (1 + 4 * U) - np.exp(-3) + TINY),
        ("exp(a[r])", {"a": (-100, 0)}, np.exp(-100) * 4 * U + TINY),
        ("log(a[r])", {"a": (5, E)}, E / (5 - E) + 4 * U * np.log(5)),
        ("lse(a[r], b[r])", {"a": (2, E), "b": (5, F)}, E + F / (5 - F) + 4 * U * np.log(5) + U * (2 + np.log(5))),
        ("weight(a[r], b[r])", {"a": (2, E), "b": (5, F)}, np.exp(-3 + E + F + 3 * U) * (1 + 4 * U) - np.exp(-3) + TINY),
    ],
)
def test_every_rule_is_as_it_is_written(text: str, slots: Any, error: float) -> None:
    assert float(rule(text, **slots).error.item()) == pytest.approx(error, rel=1e-9, abs=0)


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("a[r] * b[r]", {"a": (0, 0), "b": (5, F)}),
        ("b[r] * a[r]", {"a": (0, 0), "b": (5, F)}),
        ("ratio(a[r], b[r])", {"a": (0, 0), "b": (5, F)}),
        ("ratio(a[r], b[r])", {"a": (7, E), "b": (0, 0)}),
        ("dot(a[r, :], b[r, :])", {"a": ([[0, 0]], 0), "b": ([[3, 5]], F)}),
        ("dot(a[r, :], b[r, :])", {"a": ([[0, 1]], 0), "b": ([[3, 0]], [[F, 0]])}),
        ("weight(a[r], b[r])", {"a": (-np.inf, 0), "b": (5, F)}),
        ("rescale(a[r], b[r])", {"a": (-np.inf, 0), "b": (-np.inf, 0)}),
        ("rescale(a[r], b[r])", {"a": (-np.inf, 0), "b": (5, F)}),
        ("lse(a[r], b[r])", {"a": (-np.inf, 0), "b": (0, 0)}),
        ("a[r] + b[r]", {"a": (-np.inf, 0), "b": (5, 0)}),
        ("max(a[r, :])", {"a": ([[-np.inf, -np.inf]], 0)}),
    ],
)
def test_what_is_exact_has_no_bound(text: str, slots: Any) -> None:
    assert rule(text, **slots).error.item() == 0


def test_a_scale_of_0_is_exact() -> None:
    trace = fs.record("standard", scale=0.0).trace
    for t, written in Exact(trace).walk():
        if trace.steps[t].name == "fill Sij":
            assert not written["Sij"].error.any()


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32 - 1), shape=st.tuples(*[st.integers(1, 5)] * 3), hidden=st.booleans(), zeros=st.booleans())
def test_matrix_products_are_dots(seed: int, shape: tuple[int, int, int], hidden: bool, zeros: bool) -> None:
    """The product of finite rows with finite columns, as matrix products, and term by term."""
    rng, (rows, n, cols) = np.random.default_rng(seed), shape
    x = Bounded(rng.standard_normal((rows, 1, n)), rng.random((rows, 1, n)) * 1e-3)
    y = Bounded(rng.standard_normal((1, cols, n)), rng.random((1, cols, n)) * 1e-3)
    if zeros:
        x = Bounded(0 * x.value, 0 * x.error)
    seen = rng.random((rows, 1, n)) < 0.5 if hidden else None
    whole = bounds._dot(x, y, seen)
    wide = Bounded(np.repeat(x.value, cols, axis=1), np.repeat(x.error, cols, axis=1))
    plain = bounds._dot(wide, y, seen) if cols > 1 else whole
    assert np.allclose(whole.value, plain.value, rtol=1e-13, atol=1e-14)
    assert np.allclose(whole.error, plain.error, rtol=1e-13, atol=1e-18)
    assert np.array_equal(whole.error == 0, plain.error == 0)


def test_dots_lose_as_much_to_underflow_either_way() -> None:
    x, y = (Bounded(np.full(shape, 2.0**-70), np.zeros(shape)) for shape in ((2, 1, 3), (1, 2, 3)))
    plain = bounds._dot(Bounded(np.repeat(x.value, 2, axis=1), np.zeros((2, 2, 3))), y, None)
    assert bounds._dot(x, y, None).error.tolist() == plain.error.tolist() == [[3 * (3 * U * 2.0**-140 + HALF)] * 2] * 2
    none = np.zeros((2, 1, 3), bool)
    assert not bounds._dot(x, y, none).error.any()
    assert not bounds._dot(Bounded(np.repeat(x.value, 2, axis=1), np.zeros((2, 2, 3))), y, none).error.any()


def test_a_hidden_score_has_no_bound() -> None:
    trace = fs.record("flash-attention-2", causal=True).trace
    hidden = 0
    for t, written in Exact(trace).walk():
        if trace.steps[t].name == "fill Sij":
            scores = written["Sij"]
            hidden += int((scores.value == -np.inf).sum())
            assert np.array_equal(scores.error == 0, scores.value == -np.inf)
    assert hidden


def halves() -> Iterator[tuple[float, float]]:
    yield from pairwise(np.arange(0, 40) * LEAST)


def test_half_a_subnormal_number_is_what_rounding_takes() -> None:
    for low, high in halves():
        middle = (low + high) / 2
        assert abs(float(np.float32(middle)) - middle) == HALF
