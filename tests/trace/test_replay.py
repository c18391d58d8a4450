"""The state from a keyframe and a few events equals a plain replay from the start."""

from __future__ import annotations

from typing import Any

import naive
import numpy as np
import pytest

import flashstep as fs
from flashstep.trace.events import Kind
from flashstep.trace.replay import EVERY

SIZES: list[tuple[str, dict[str, Any]]] = [
    ("standard", {"seqlen_q": 7, "seqlen_k": 5, "block_rows": 3, "block_cols": 2, "heads": 2}),
    ("online-softmax", {"seqlen_q": 5, "seqlen_k": 150, "block_rows": 4, "block_cols": 4}),
    ("online-softmax", {"seqlen_q": 15, "seqlen_k": 4, "block_rows": 2, "block_cols": 2, "heads": 2}),  # two column tiles
    ("flash-attention-1", {"seqlen_q": 9, "seqlen_k": 30, "block_rows": 2, "block_cols": 4, "causal": True}),
    ("flash-attention-2", {"seqlen_q": 5, "seqlen_k": 130, "block_rows": 4, "block_cols": 2, "heads": 2, "kv_heads": 1}),
    ("flash-decoding", {"seqlen_k": 250, "block_cols": 2, "splits": 3, "batch": 2}),
    ("flash-decoding", {"seqlen_k": 2, "splits": 4, "key_mask": [True, False]}),
]


@pytest.mark.parametrize(("kernel", "sizes"), SIZES)
def test_state_from_keyframes_is_replay_from_the_start(kernel: str, sizes: dict[str, Any]) -> None:
    trace = fs.record(kernel, **sizes).trace
    assert len(trace.steps) > EVERY or sizes["seqlen_k"] == 2
    for t, arrays, slots in naive.replay(trace):
        state = trace.state(t)
        assert set(state) == set(arrays) | set(slots), t
        for name, expected in (arrays | slots).items():
            assert naive.same(state[name], expected), (t, name)


@pytest.mark.parametrize("block_cols", [1, 2, 3, 4])
def test_the_inputs_stand_as_they_were_given_in_any_tiles(block_cols: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 4)).astype(np.float32)
    trace = fs.record("online-softmax", x, block_rows=2, block_cols=block_cols).trace
    for t in (0, len(trace.steps) - 1):
        assert np.array_equal(trace.state(t)["X"], x)
    loads = [step.index for step in trace.steps if step.name == "load X"]
    first, last = trace.state(loads[0])["Xij"], trace.state(loads[-1])["Xij"]
    assert np.array_equal(first.reshape(2, -1), x[0, 0, :2, :block_cols])
    assert np.array_equal(last.reshape(1, -1), x[1, 2, 4:, (3 // block_cols) * block_cols :])


def test_a_number_at_the_pools_first_place_is_there() -> None:
    """As an array's is where a run has no inputs' numbers before it."""
    trace = fs.record("flash-attention-2").trace
    stores = np.flatnonzero(np.isin(trace.events.kind, (Kind.STORE, Kind.PARTIAL)))
    trace.events.value[stores[0]] = 0
    end = trace.state(-1)["O"]
    assert np.array_equal(end[0, 0, :4].ravel(), trace.values[:16])


def test_a_state_says_what_it_does_not_hold() -> None:
    trace = fs.record("flash-attention-2", values="focus", focus=1).trace
    appeared = next(step.index for step in trace.steps if step.name == "block appears")
    with pytest.raises(KeyError, match="holds nothing yet"):
        trace.state(appeared)["Qi"]
    filled = next(step.index for step in trace.steps if step.name == "fill Sij")
    with pytest.raises(KeyError, match="not kept"):
        trace.state(filled)["Sij"]
    with pytest.raises(KeyError, match="no slot or array nonsense"):
        trace.state(0)["nonsense"]
    assert not trace.state(0).written("O").any()
    assert trace.state(-1).written("O").all()
    with pytest.raises(IndexError, match="from 0 to 18"):
        trace.state(19)
    for nonsense in (1.5, "a", None):
        with pytest.raises(TypeError, match=r"whole number from 0 to 18, not .*\.$"):
            trace.state(nonsense)  # type: ignore[arg-type]
    assert trace.steps[np.int64(3)].index == 3  # type: ignore[call-overload]


def test_what_memory_held_before_does_not_matter() -> None:
    """An array that is only allocated holds NaN, and none comes through."""
    for kernel in fs.kernels:
        run = fs.record(kernel, seqlen_k=5, block_cols=2) if kernel != "online-softmax" else fs.record(kernel, seqlen_k=5)
        for output in run.outputs.values():
            assert np.isfinite(output).all()
