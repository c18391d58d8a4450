"""The answers of the lesson on FlashAttention 1, worked out again from Q, K and V with NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attention_rows import first_rise, mean_of_values, row_scores

import flashstep as fs
from flashstep.kernels.record import Run


def output(run: Run) -> float:
    """Where a maximum first rises: the attention of that row over all keys up to that tile. Keys outside, queries inside."""
    plane, row, keys, _ = first_rise(run, keys_outside=True)
    return mean_of_values(run, plane, row, keys)


def partial(run: Run) -> float:
    """Row 0 over the keys of the first tile."""
    return mean_of_values(run, 0, 0, run.tiling.block_cols)


def turns(run: Run, block_cols: int) -> int:
    return -(-run.problem.seqlen_k // block_cols)


def crossings(run: Run) -> float:
    p = run.problem
    return 2.0 * p.batch * p.heads * p.seqlen_q * p.head_dim * turns(run, run.tiling.block_cols)


def wider(run: Run) -> float:
    """Keys, values and mask once a head; Q in, and O, m and l in and out, at every turn."""
    p = run.problem
    masked = p.seqlen_k if "key_mask" in run.trace.state(0) else 0
    turn = p.seqlen_q * p.head_dim + 2 * p.seqlen_q * (p.head_dim + 2)
    return float(p.batch * p.heads * (2 * p.seqlen_k * p.head_dim + masked + turns(run, 2 * run.tiling.block_cols) * turn))


def hidden(run: Run) -> float:
    del run  # the question is about another run
    s = row_scores(fs.record("flash-attention-1", inputs="first-tile-masked"), 0, 0)
    return float(np.exp(s[:4].max() - s[:8].max()))


ANSWERS: dict[str, Callable[[Run], float]] = {
    "output": output,
    "partial": partial,
    "crossings": crossings,
    "wider": wider,
    "hidden": hidden,
}
