"""How far a right float32 kernel may lie from the float64 oracle, element by element.

A score is a dot product: |S - s| <= (d + 2) u scale Σ|q||k|. exp turns that absolute error into a relative
one of each weight, in the numerator and in the denominator of O; sums add n u of their absolute terms.
The factor 2 covers second-order terms. u = 2^-24.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flashstep.kernels.problem import Problem

U = 2.0**-24
Doubles = NDArray[np.float64]


def score_error(p: Problem, q: NDArray[np.float32], k: NDArray[np.float32]) -> Doubles:
    """The largest absolute error of a score in each row, (batch, heads, seqlen_q)."""
    if p.seqlen_k == 0:
        return np.zeros((p.batch, p.heads, p.seqlen_q))
    q64, k64 = np.nan_to_num(np.abs(q.astype(np.float64))), np.nan_to_num(np.abs(k.astype(np.float64)))
    sizes = q64 @ np.repeat(k64, p.group, axis=1).swapaxes(2, 3)
    return (p.head_dim + 2) * U * abs(p.effective_scale) * np.asarray(sizes.max(axis=3))


def relative(p: Problem, scores: Doubles, tiles: int) -> Doubles:
    """The relative error of l, and of O against Σ p|v| / l, given the scores' absolute error."""
    error: Doubles = 2 * (2 * scores + (p.seqlen_k + 6 * tiles + 16) * U)
    return error


def values(p: Problem, v: NDArray[np.float32]) -> Doubles:
    """The largest |v| of each column: what Σ p|v| / l cannot pass. (batch, heads, 1, head_dim)."""
    if p.seqlen_k == 0:
        return np.zeros((p.batch, p.heads, 1, p.head_dim))
    v64 = np.nan_to_num(np.abs(v.astype(np.float64)), posinf=0.0)
    largest: Doubles = np.repeat(v64, p.group, axis=1).max(axis=2, keepdims=True)
    return largest
