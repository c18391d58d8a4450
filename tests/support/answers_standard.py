"""The answers of the lesson on standard attention, worked out again with NumPy and with other runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import numpy as np

import flashstep as fs
from flashstep.kernels.record import Run


def fold(run: Run) -> float:
    """The largest visible score of query 0 in the first tile of keys."""
    p, state = run.problem, run.trace.state(0)
    keys = min(run.tiling.block_cols, p.seqlen_k)
    q, k = state["Q"][0, 0, 0].astype(np.float64), state["K"][0, 0, :keys].astype(np.float64)
    seen = np.ones(keys, bool)
    if "key_mask" in state:
        seen &= state["key_mask"].reshape(p.batch, -1)[0, :keys] != 0
    if p.causal:
        seen &= np.arange(keys) <= p.seqlen_k - p.seqlen_q
    return float(np.where(seen, p.effective_scale * (k @ q), -np.inf).max())


def moved(run: Run) -> int:
    """Every element that crossed, in both directions."""
    return sum(entry[way]["elements"] for entry in run.trace.ledger().values() for way in ("loads", "stores"))


def twice(run: Run) -> float:
    """A run of twice the queries and keys, against this one."""
    asked = {**asdict(run.problem), **asdict(run.tiling), "inputs": run.problem.inputs}
    larger = {**asked, "seqlen_q": 2 * run.problem.seqlen_q, "seqlen_k": 2 * run.problem.seqlen_k}
    return moved(fs.record("standard", values="none", **larger)) / moved(run)


def softmax_numbers(run: Run) -> float:
    p = run.problem
    return 4.0 * p.batch * p.heads * p.seqlen_q * p.seqlen_k


ANSWERS: dict[str, Callable[[Run], float]] = {
    "fold": fold,
    "sweeps": lambda run: 3.0,
    "launches": softmax_numbers,
    "twice": twice,
}
