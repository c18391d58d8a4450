"""The arithmetic that the twins share, in float32 as the kernels do it.

Running maxima start at -inf, and no finite stand-in is used; so differences of infinities are met on
purpose here, once, instead of in every twin.
"""

from __future__ import annotations

import numpy as np

from .kernel import Floats, Mask
from .problem import Problem

INF = np.float32(np.inf)


def visible(problem: Problem, row: int, rows: int, key: int, keys: int, mask: Floats | None) -> Mask | None:
    """Which of `keys` keys from `key` on each of `rows` queries from `row` on may see: (rows, keys), or None for all.

    Causal is bottom-right: key j is visible to query i when j <= i + seqlen_k - seqlen_q.
    `mask`: the tile of the key mask, (keys, 1), non-zero where visible.
    """
    seen: Mask | None = None
    if problem.causal:
        last = row + problem.seqlen_k - problem.seqlen_q  # the last key that the first query sees
        if key + keys - 1 > last:
            seen = np.arange(key, key + keys) <= np.arange(last, last + rows)[:, None]
    if mask is not None and not mask.all():
        by_key = np.broadcast_to(mask[:, 0] != 0, (rows, keys))
        seen = by_key if seen is None else seen & by_key
    return seen


def scores(q: Floats, k: Floats, scale: np.float32, seen: Mask | None) -> Floats:
    """scale · q kᵀ, and -inf where a key is hidden: (rows, keys)."""
    s: Floats = scale * (q @ k.T)
    return s if seen is None else np.where(seen, s, -INF)


def row_max(s: Floats) -> Floats:
    """The largest of each row, (rows, 1); NaN wins, as in the kernels."""
    top: Floats = np.maximum.reduce(s, 1, keepdims=True)
    return top


def row_sum(p: Floats) -> Floats:
    """The sum of each row, (rows, 1)."""
    total: Floats = np.add.reduce(p, 1, keepdims=True)
    return total


def rescale(old: Floats, new: Floats) -> Floats:
    """alpha = exp(old - new), by which what was summed under the old maximum shrinks; 1 while the new is -inf."""
    alpha = np.exp(old - new)
    return alpha if _seen(new) else np.where(new == -INF, np.float32(1), alpha)


def weight(s: Floats, m: Floats) -> Floats:
    """exp(s - m), and 0 where s is -inf: a hidden key weighs nothing, even in a row that has seen no key."""
    p = np.exp(s - m)
    return p if _seen(m) else np.where(s == -INF, np.float32(0), p)


def _seen(m: Floats) -> bool:
    """Whether every row has seen a key (and no NaN), so that differences from m are plain."""
    return bool(np.minimum.reduce(m, None) > -INF)


def weighted_sum(p: Floats, v: Floats, seen: Mask | None) -> Floats:
    """p v over the visible keys, (rows, head_dim). Hidden keys are left out, not multiplied: 0 · NaN is NaN."""
    if seen is None or np.isfinite(v).all():
        return p @ v
    return np.stack([row[keys] @ v[keys] for row, keys in zip(p, seen, strict=True)])


def ratio(a: Floats, b: Floats) -> Floats:
    """a / b, and 0 where b is 0: a row that sees no key is 0."""
    return np.where(b == 0, np.float32(0), a / b)


def logsumexp(m: Floats, l: Floats) -> Floats:
    """lse = m + ln l, the natural logarithm; -inf where l is 0."""
    return np.where(l == 0, -INF, m + np.log(l))
