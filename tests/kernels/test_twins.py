"""Every twin against the float64 oracle, over shapes, tilings, splits, masks and magnitudes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import bounds
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import flashstep as fs
from flashstep.kernels import reference
from flashstep.kernels.registry import KERNELS
from flashstep.trace.events import Kind

ATTENTION = ("standard", "flash-attention-1", "flash-attention-2", "flash-decoding")


@dataclass
class Drawn:
    q: NDArray[np.float32]
    k: NDArray[np.float32]
    v: NDArray[np.float32]
    mask: NDArray[np.bool_] | None
    options: dict[str, Any]


@st.composite
def problems(draw: st.DrawFn, kernel: str) -> Drawn:
    batch, kv_heads, group = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    n_q = 1 if kernel == "flash-decoding" else draw(st.integers(1, 9))
    n_k, d = draw(st.integers(0, 13)), draw(st.sampled_from([1, 2, 3, 4, 7, 8, 59]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([1e-3, 1.0, 6.0, 40.0]))  # the last makes logits of thousands
    q = (rng.standard_normal((batch, kv_heads * group, n_q, d)) * size).astype(np.float32)
    k = (rng.standard_normal((batch, kv_heads, n_k, d)) * size).astype(np.float32)
    v = rng.standard_normal((batch, kv_heads, n_k, d)).astype(np.float32)
    mask = None
    if draw(st.booleans()):
        mask = rng.random((batch, n_k)) < draw(st.sampled_from([0.0, 0.3, 0.8]))
        for b in range(batch):  # what the mask hides may be anything
            k[b, :, ~mask[b]] = np.nan
            v[b, :, ~mask[b]] = draw(st.sampled_from([np.nan, np.inf]))
    options = {
        "block_rows": draw(st.integers(1, 5)),
        "block_cols": draw(st.integers(1, 5)),
        "splits": draw(st.integers(1, n_k + 2)),
        "causal": draw(st.booleans()),
        "scale": draw(st.sampled_from([None, 1.0, 0.1])),
    }
    return Drawn(q, k, v, mask, options)


@pytest.mark.parametrize("kernel", ATTENTION)
@settings(max_examples=120)
@given(data=st.data())
def test_attention_is_the_oracles(kernel: str, data: st.DataObject) -> None:
    drawn = data.draw(problems(kernel))
    run = fs.record(kernel, drawn.q, drawn.k, drawn.v, key_mask=drawn.mask, **drawn.options)
    right = reference.attention(drawn.q, drawn.k, drawn.v, drawn.options["causal"], drawn.mask, drawn.options["scale"])
    p = run.problem
    error = bounds.score_error(p, drawn.q, drawn.k)
    relative = bounds.relative(p, error, p.seqlen_k)
    allowed = relative[..., None] * bounds.values(p, drawn.v) + 1e-37
    assert np.all(np.abs(run.outputs["O"] - right.O) <= allowed)
    blind = right.l == 0
    assert np.all(run.outputs["lse"][blind] == -np.inf)
    assert np.all(run.outputs["O"][blind] == 0)
    near = np.abs(run.outputs["lse"][~blind] - right.lse[~blind])
    assert np.all(near <= (relative + error + 4 * bounds.U * np.abs(right.lse))[~blind])


@settings(max_examples=120)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(0, 13)),
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from([1e-3, 1.0, 3000.0]),
    tiling=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    hidden=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_softmax_is_the_oracles(
    shape: tuple[int, int], seed: int, size: float, tiling: tuple[int, int], hidden: float
) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * size).astype(np.float32)
    x[rng.random(shape) < hidden] = -np.inf
    run = fs.record("online-softmax", x, block_rows=tiling[0], block_cols=tiling[1])
    right = reference.softmax(x)
    relative = (shape[1] * 8 + 16) * bounds.U
    assert np.all(np.abs(run.outputs["Y"][0, 0] - right.Y) <= relative * right.Y + 1e-37)
    assert np.array_equal(run.outputs["m"][0, 0], right.m)
    assert np.all(np.abs(run.outputs["l"][0, 0] - right.l) <= relative * right.l)


@pytest.mark.parametrize("kernel", ATTENTION)
def test_a_visible_nan_takes_its_row_and_no_other(kernel: str) -> None:
    rng = np.random.default_rng(1)
    n_q = 1 if kernel == "flash-decoding" else 6
    q, k, v = (rng.standard_normal((1, 1, n, 4)).astype(np.float32) for n in (n_q, 6, 6))
    k[0, 0, 4, 1] = np.nan  # causal: rows 4 and 5 see it, the rows before do not
    run = fs.record(kernel, q, k, v, causal=True, block_rows=2, block_cols=2)
    sees = np.arange(n_q) + 6 - n_q >= 4
    right = reference.attention(q, k, v, causal=True).O[0, 0]
    assert np.array_equal(np.isnan(run.outputs["O"][0, 0]).all(axis=1), sees)
    assert np.array_equal(np.isnan(right).all(axis=1), sees)
    assert np.allclose(run.outputs["O"][0, 0][~sees], right[~sees], rtol=1e-5)


@pytest.mark.parametrize("kernel", ATTENTION)
def test_a_visible_nan_in_v_takes_its_rows_only(kernel: str) -> None:
    rng = np.random.default_rng(2)
    n_q = 1 if kernel == "flash-decoding" else 6
    q, k, v = (rng.standard_normal((1, 1, n, 4)).astype(np.float32) for n in (n_q, 6, 6))
    v[0, 0, 3, 2] = np.nan
    run = fs.record(kernel, q, k, v, causal=True, block_rows=4, block_cols=4)
    right = reference.attention(q, k, v, causal=True).O[0, 0]
    assert np.array_equal(np.isnan(run.outputs["O"][0, 0]), np.isnan(right))


@pytest.mark.parametrize("kernel", fs.kernels)
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"seqlen_k": 0},
        {"seqlen_k": 11, "splits": 3},
        {"seqlen_k": 3, "splits": 7},
        {"seqlen_k": 9, "splits": 1, "head_dim": 5},
        {"seqlen_q": 7, "seqlen_k": 13, "block_cols": 2, "splits": 2, "head_dim": 3, "heads": 2},
    ],
)
def test_the_largest_block_keeps_as_many_numbers_as_was_foretold(kernel: str, asked: dict[str, Any]) -> None:
    """To the number: what the first block, which is the largest, stores is among what it keeps, and is not kept twice."""
    known = KERNELS[kernel]
    fit = {name: size for name, size in asked.items() if name in known.parameters}
    if known.one_query:
        fit.pop("seqlen_q", None)
    expected = fs.estimate(kernel, **fit).value_bytes
    trace, whole = (fs.record(kernel, values=values, **fit).trace for values in ("focus", "all"))
    stores = np.isin(trace.events.kind, (Kind.STORE, Kind.PARTIAL)) & (trace.steps_block[trace.event_step] == 0)
    spared = expected["all"] - whole.values.nbytes  # a single partial is read where it stands
    assert (spared > 0) <= (kernel == "flash-decoding" and asked.get("splits") == 1)
    stored = 4 * int(trace.events.elements[stores].sum())
    assert trace.values.nbytes == expected["focus"] - stored - spared


@pytest.mark.slow
def test_the_widely_used_check_problem() -> None:
    """Batch 1, 32 heads, 16,384 keys, d 128, chunks of 1,024: within 1e-4 of the oracle."""
    run = fs.record(
        "flash-decoding", heads=32, kv_heads=32, seqlen_k=16384, head_dim=128, splits=16, block_cols=128, values="none"
    )
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 32, n, 128), np.float32) for n in (1, 16384, 16384))
    right = reference.attention(q, k, v)
    assert np.abs(run.outputs["O"] - right.O).max() < 1e-4
    assert np.abs(run.outputs["lse"] - right.lse).max() < 1e-4
