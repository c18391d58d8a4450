"""The oracle: attention and softmax in float64, plainly, sharing no code with twins or kernels.

What is right by definition: m is the row's maximum over visible keys, l the sum of exp(s − m), O the
weighted mean of V, lse = m + ln l. A row that sees no key has m = −inf, l = 0, O = 0, lse = −inf. Hidden
keys and values are never multiplied, so a NaN there is harmless; a visible NaN makes its row NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Attention:
    """O (batch, heads, seqlen_q, head_dim); m, l, lse (batch, heads, seqlen_q); float64."""

    O: Doubles
    m: Doubles
    l: Doubles
    lse: Doubles


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    causal: bool = False,
    key_mask: ArrayLike | None = None,
    scale: float | None = None,
) -> Attention:
    """Attention over (batch, heads, seqlen, head_dim), row by row.

    Query head h reads key-value head h // (heads / kv_heads); causal is bottom-right; key_mask is
    (batch, seqlen_k) or (seqlen_k,), True = visible; scale None is 1/sqrt(head_dim).
    """
    queries, keys, values = (np.asarray(a, np.float64) for a in (q, k, v))
    batch, heads, n_q, d = queries.shape
    n_k, per_kv = keys.shape[2], heads // keys.shape[1]
    factor = 1 / math.sqrt(d) if scale is None else scale
    allowed = np.ones((batch, n_k), bool) if key_mask is None else np.broadcast_to(np.asarray(key_mask, bool), (batch, n_k))
    O = np.zeros(queries.shape)
    m, total = np.full((batch, heads, n_q), -np.inf), np.zeros((batch, heads, n_q))
    with np.errstate(all="ignore"):
        for b in range(batch):
            for h in range(heads):
                hk, hv = keys[b, h // per_kv], values[b, h // per_kv]
                for row in range(n_q):
                    end = min(n_k, row + n_k - n_q + 1) if causal else n_k
                    see = np.flatnonzero(allowed[b, : max(end, 0)])
                    if see.size == 0:
                        continue
                    s = hk[see] @ queries[b, h, row] * factor
                    top = s.max()
                    if top == -np.inf:
                        continue
                    p = np.exp(s - top)
                    m[b, h, row], total[b, h, row] = top, p.sum()
                    O[b, h, row] = p @ hv[see] / p.sum()
        lse = np.where(total == 0, -np.inf, m + np.log(total))
    return Attention(O, m, total, lse)


@dataclass(frozen=True)
class Softmax:
    """Y of x's shape; m and l, the maximum and the sum of exponentials of each row; float64."""

    Y: Doubles
    m: Doubles
    l: Doubles


def softmax(x: ArrayLike) -> Softmax:
    """Softmax over the last axis; a row of nothing but −inf (or of nothing) is all zeros."""
    rows = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        m = np.max(rows, axis=-1, initial=-np.inf)
        empty = m == -np.inf
        p = np.where(empty[..., None], 0.0, np.exp(rows - m[..., None]))
        total = p.sum(axis=-1)
        Y = np.where(empty[..., None], 0.0, p / total[..., None])
    return Softmax(Y, m, total)
