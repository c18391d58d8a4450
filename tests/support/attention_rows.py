"""Single rows of attention in float64, from the inputs that a run stands on: for answers worked out by another way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from flashstep.kernels.record import Run

Row = NDArray[np.float64]


def planes(run: Run) -> int:
    """Query heads over all sequences."""
    return run.problem.batch * run.problem.heads


def _keys_of(run: Run, plane: int) -> tuple[int, int]:
    """(sequence, key-value head) of a query head."""
    p = run.problem
    sequence, head = divmod(plane, p.heads)
    return sequence, head // (p.heads // p.kv_heads)


def row_scores(run: Run, plane: int, row: int) -> Row:
    """The scaled scores of one query with every key, -inf where a key is hidden: (seqlen_k,)."""
    p, state = run.problem, run.trace.state(0)
    sequence, kv = _keys_of(run, plane)
    q = np.asarray(state["Q"], np.float64).reshape(planes(run), p.seqlen_q, -1)[plane, row]
    k = np.asarray(state["K"], np.float64)[sequence, kv]
    seen = np.ones(p.seqlen_k, bool)
    if "key_mask" in state:
        seen &= np.asarray(state["key_mask"]).reshape(p.batch, p.seqlen_k)[sequence] != 0
    if p.causal:
        seen &= np.arange(p.seqlen_k) <= row + p.seqlen_k - p.seqlen_q
    return np.where(seen, p.effective_scale * (k @ q), -np.inf)


def values(run: Run, plane: int, col: int = 0) -> Row:
    """One column of a head's values: (seqlen_k,)."""
    sequence, kv = _keys_of(run, plane)
    return np.asarray(run.trace.state(0)["V"], np.float64)[sequence, kv, :, col]


def weights(s: Row) -> Row:
    """exp(s - max), and 0 for a hidden key."""
    seen = np.isfinite(s)
    return np.where(seen, np.exp(np.where(seen, s, 0) - s[seen].max(initial=-np.inf)), 0.0) if seen.any() else np.zeros_like(s)


def sum_of_values(run: Run, plane: int, row: int, keys: int, col: int = 0) -> float:
    """One number of the unnormalised output over the first `keys` keys."""
    return float(weights(row_scores(run, plane, row)[:keys]) @ values(run, plane, col)[:keys])


def mean_of_values(run: Run, plane: int, row: int, keys: int, col: int = 0) -> float:
    """One number of the output over the first `keys` keys; 0 where none is visible."""
    total = float(weights(row_scores(run, plane, row)[:keys]).sum())
    return sum_of_values(run, plane, row, keys, col) / total if total else 0.0


def _turns(run: Run, keys_outside: bool) -> Iterator[tuple[int, int, int]]:
    """(plane, first row, first key) of each tile in the order in which a kernel meets them."""
    p, t = run.problem, run.tiling
    rows, keys = range(0, p.seqlen_q, t.block_rows), range(0, p.seqlen_k, t.block_cols)
    for plane in range(planes(run)):
        if keys_outside:
            yield from ((plane, i, j) for j in keys for i in rows)
        else:
            yield from ((plane, i, j) for i in rows for j in keys)


def first_rise(run: Run, keys_outside: bool) -> tuple[int, int, int, float]:
    """(plane, row, keys up to that tile's end, rise) where a row's finite maximum first rises: the row that rises furthest."""
    p, t = run.problem, run.tiling
    for plane, top, start in _turns(run, keys_outside):
        end = min(start + t.block_cols, p.seqlen_k)
        best = (0.0, -1)
        for row in range(top, min(top + t.block_rows, p.seqlen_q)):
            s = row_scores(run, plane, row).astype(np.float32)
            old, new = s[:start].max(initial=-np.inf), s[:end].max(initial=-np.inf)
            if np.isfinite(old) and np.isfinite(new):
                best = max(best, (float(new) - float(old), -row))
        if best[0] > 1e-6 * max(1.0, abs(float(p.effective_scale))):
            return plane, -best[1], end, best[0]
    raise AssertionError("no row rises, and the lesson asks")
