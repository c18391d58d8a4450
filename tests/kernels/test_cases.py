"""Faults that real kernels had, as small inputs (the project's list of cases): the right value, and not the wrong one."""

from __future__ import annotations

import numpy as np
import pytest

import flashstep as fs
from flashstep.kernels import reference

ATTENTION = ("standard", "flash-attention-1", "flash-attention-2", "flash-decoding")
WITH_QUERIES = ATTENTION[:3]


def column(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)[:, None]


ONE = column(1)
G = (ONE, column(0, 1, 4, 2, 3), column(1, 2, 3, 5, 4))
G_RIGHT, G_M, G_L = 3.351381, 4.0, 1.571317


def out(run: fs.Run) -> float:
    return float(run.outputs["O"].reshape(-1)[0])


def lse(run: fs.Run) -> float:
    return float(run.outputs["lse"].reshape(-1)[0])


@pytest.mark.parametrize("kernel", ATTENTION)
@pytest.mark.parametrize("block_cols", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("splits", [1, 2, 3, 8])
def test_case_g_for_any_tile_and_any_split(kernel: str, block_cols: int, splits: int) -> None:
    run = fs.record(kernel, *G, scale=1.0, block_cols=block_cols, splits=splits)
    assert out(run) == pytest.approx(G_RIGHT, abs=1e-6)
    assert lse(run) == pytest.approx(G_M + np.log(G_L), abs=1e-6)


def test_case_g_is_the_hand_sized_input() -> None:
    for kernel in ATTENTION:
        run = fs.record(kernel, inputs="hand")
        assert out(run) == pytest.approx(G_RIGHT, abs=1e-6)
        assert run.tiling.block_cols == 2
    softmax = fs.record("online-softmax", inputs="hand")
    assert softmax.outputs["m"].item() == G_M
    assert softmax.outputs["l"].item() == pytest.approx(G_L, abs=1e-6)


def test_the_carries_of_case_g_tile_by_tile() -> None:
    """m 1, 4, 4 and l as the old l shrinks by exp(1 - 4): not forgotten, not inverted."""
    run = fs.record("flash-attention-2", *G, scale=1.0, block_rows=1, block_cols=2)
    states = [run.trace.state(step.index) for step in run.trace.steps if step.name == "update m, l, O"]
    assert [float(state["mi"][0]) for state in states] == [1, 4, 4]
    first = np.exp(-1.0) + 1
    second = np.exp(-3.0) * first + 1 + np.exp(-2.0)
    assert [float(state["li"][0]) for state in states] == pytest.approx([first, second, second + np.exp(-1.0)], rel=1e-6)
    assert float(states[1]["alpha"][0]) == pytest.approx(np.exp(-3.0), rel=1e-6)


@pytest.mark.parametrize("kernel", ATTENTION)
def test_a_ragged_tail_weighs_nothing(kernel: str) -> None:
    run = fs.record(kernel, column(-1), column(1, 1, 1, 1, 1), column(1, 1, 1, 1, 1), block_cols=4)
    assert out(run) == pytest.approx(1.0, abs=1e-6)  # padded with zero keys it would be 0.380088


@pytest.mark.parametrize("kernel", ATTENTION)
def test_first_tile_wholly_masked(kernel: str) -> None:
    keys = column(1, 2, 3, 4)
    run = fs.record(kernel, ONE, keys, keys, scale=1.0, block_cols=2, key_mask=[False, False, True, True])
    assert out(run) == pytest.approx(3.731059, abs=1e-6)


@pytest.mark.parametrize("kernel", ATTENTION)
def test_all_keys_masked_is_a_right_zero(kernel: str) -> None:
    keys = column(1, 2, 3, 4)
    run = fs.record(kernel, ONE, keys, keys, scale=1.0, block_cols=2, key_mask=[False] * 4)
    assert out(run) == 0
    assert lse(run) == -np.inf


@pytest.mark.parametrize("kernel", ATTENTION)
def test_no_finite_stand_in(kernel: str) -> None:
    run = fs.record(kernel, ONE, column(-524288), ONE, scale=1.0)
    assert out(run) == 1
    assert lse(run) == -524288


@pytest.mark.parametrize("kernel", ATTENTION)
def test_logits_of_thousands_stay_finite(kernel: str) -> None:
    run = fs.record(kernel, column(2000), column(1, 0.5, 1), column(1, 2, 3), scale=1.0, block_cols=2)
    assert out(run) == 2
    assert np.isfinite(lse(run))


def test_empty_splits_change_nothing() -> None:
    run = fs.record("flash-decoding", *G, scale=1.0, block_cols=1, splits=8)
    assert out(run) == pytest.approx(G_RIGHT, abs=1e-6)
    last = run.trace.state(-1)
    empty = slice(5, 8)
    assert np.all(last["m_partial"][0, 0, empty] == -np.inf)
    assert np.all(last["l_partial"][0, 0, empty] == 0)
    assert np.all(last["O_partial"][0, 0, empty] == 0)


@pytest.mark.parametrize("kernel", WITH_QUERIES)
def test_causal_with_more_queries_than_keys(kernel: str) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((n, 4)).astype(np.float32) for n in (5, 2, 2))
    run = fs.record(kernel, q, k, v, causal=True, block_rows=2, block_cols=2)
    assert np.all(run.outputs["O"][0, 0, :3] == 0)
    assert np.all(run.outputs["lse"][0, 0, :3] == -np.inf)
    assert np.all(np.isfinite(run.outputs["lse"][0, 0, 3:]))


@pytest.mark.parametrize("kernel", ATTENTION)
@pytest.mark.parametrize("length", [1, 3])
def test_fewer_rows_than_a_tile(kernel: str, length: int) -> None:
    rng = np.random.default_rng(length)
    q, k, v = (rng.standard_normal((n, 4)).astype(np.float32) for n in (1, length, length))
    run = fs.record(kernel, q, k, v, block_rows=4, block_cols=4)
    assert np.allclose(run.outputs["O"], reference.attention(q[None, None], k[None, None], v[None, None]).O, atol=1e-6)
    if length == 1:
        assert np.array_equal(run.outputs["O"][0, 0], v)


@pytest.mark.parametrize("kernel", ATTENTION)
@pytest.mark.parametrize("head_dim", [3, 59, 63, 111])
def test_head_dim_not_a_power_of_two(kernel: str, head_dim: int) -> None:
    run = fs.record(kernel, seqlen_k=9, head_dim=head_dim)
    state = run.trace.state(-1)
    assert np.allclose(run.outputs["O"], reference.attention(state["Q"], state["K"], state["V"]).O, atol=1e-5)


@pytest.mark.parametrize("kernel", ATTENTION)
def test_a_single_tile_is_loaded_once(kernel: str) -> None:
    ledger = fs.record(kernel, seqlen_k=4, block_cols=4, block_rows=8, splits=1).trace.ledger()
    assert ledger["K"]["loads"] == {"transfers": 1, "elements": 16, "bytes": 64}
    assert ledger["V"]["loads"] == {"transfers": 1, "elements": 16, "bytes": 64}


def test_a_ragged_tail_is_a_tile_of_its_own() -> None:
    run = fs.record("flash-attention-2", seqlen_q=1, seqlen_k=10, block_cols=4)
    fills = [run.trace.state(step.index)["Sij"].shape for step in run.trace.steps if step.name == "fill Sij"]
    assert fills == [(1, 4), (1, 4), (1, 2)]


@pytest.mark.parametrize("kernel", ATTENTION)
def test_large_scores_of_one_key(kernel: str) -> None:
    q = k = np.full((1, 64), 133120, np.float32)
    v = np.arange(64, dtype=np.float32)[None]
    assert np.array_equal(fs.record(kernel, q, k, v).outputs["O"][0, 0], v)


def test_the_split_count_changes_the_result_by_rounding_only() -> None:
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((n, 8)).astype(np.float32) for n in (1, 16, 16))
    outs = np.stack([fs.record("flash-decoding", q, k, v, splits=s).outputs["O"] for s in (1, 2, 4, 8, 16, 17)])
    spread = (outs.max(axis=0) - outs.min(axis=0)) / np.spacing(np.abs(outs).max(axis=0))
    assert 0 < spread.max() <= 16, f"{spread.max()} ULP between split counts"


@pytest.mark.parametrize("kernel", fs.kernels)
def test_minus_infinity_of_the_first_steps_survives_the_file(kernel: str) -> None:
    run = fs.record(kernel)
    again = fs.load_bytes(run.to_bytes())
    carried = {"mi": 0, "m": 0}
    for step in run.trace.steps:
        for name in carried:
            state, loaded = run.trace.state(step.index), again.trace.state(step.index)
            if name in state:
                assert np.array_equal(state[name], loaded[name])
                carried[name] += bool(np.any(state[name] == -np.inf))
    assert sum(carried.values()) > 0
