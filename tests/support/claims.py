"""What a step's caption claims, checked against the trace: every claim, and no decimal that no claim vouches for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from shownnumbers import same

Claim = Callable[[Any, int, re.Match[str]], bool]


def _carry(trace: Any, t: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    return trace.state(t - 1)[name], trace.state(t)[name]


def _rises(trace: Any, t: int, match: re.Match[str]) -> bool:
    old, new = _carry(trace, t, "mi")
    alpha = trace.state(t)["alpha"]
    return bool(new[0] > old[0]) and same(match[1], old[0]) and same(match[2], new[0]) and same(match[3], alpha[0])


def _keeps(trace: Any, t: int, match: re.Match[str]) -> bool:
    old, new = _carry(trace, t, "mi")
    return bool(new[0] == old[0]) and same(match[1], new[0]) and bool(trace.state(t)["alpha"][0] == 1)


def _first(trace: Any, t: int, match: re.Match[str]) -> bool:
    old, new = _carry(trace, t, "mi")
    return bool(old[0] == -np.inf) and same(match[1], new[0]) and bool(trace.state(t)["alpha"][0] == 0)


def _unseen(trace: Any, t: int, match: re.Match[str]) -> bool:
    old, new = _carry(trace, t, "mi")
    return bool(old[0] == new[0] == -np.inf) and bool(trace.state(t)["alpha"][0] == 1)


def _count(trace: Any, t: int, match: re.Match[str]) -> bool:
    old, new = _carry(trace, t, "mi")
    return int(match[1]) == int((new > old).sum()) and int(match[2]) == len(new)


def _scores(trace: Any, t: int, match: re.Match[str]) -> bool:
    scores = trace.state(t)["Sij"]
    hidden = int(np.isneginf(scores).sum())
    return int(match[1]) == scores.size and int(match[2] or 0) == hidden and same(match[3], float(scores.max()))


def _all_hidden(trace: Any, t: int, match: re.Match[str]) -> bool:
    scores = trace.state(t)["Sij"]
    return bool(np.isneginf(scores).all()) and int(match[1]) == scores.size


def _row_zero(name: str) -> Claim:
    def claim(trace: Any, t: int, match: re.Match[str]) -> bool:
        return all(same(text, float(held[0])) for text, held in zip(match.groups(), _carry(trace, t, name), strict=True))

    return claim


def _global(name: str, group: int) -> Claim:
    return lambda trace, t, match: same(match[group], float(trace.state(t)[name].ravel()[0]))


N = r"(−?(?:\d+(?:\.\d+)?(?:e−?\d+)?|∞)|NaN)"
CLAIMS: list[tuple[str, Claim]] = [
    (rf"maximum rises from {N} to {N}, so α = {N}", _rises),
    (rf"keeps its maximum {N}, so α = 1", _keeps),
    (rf"first keys: m rises from −∞ to {N}, so α = 0", _first),
    (r"has seen no key yet: m stays −∞, α = 1", _unseen),
    (r"The maximum rises in (\d+) of (\d+) rows?", _count),
    (rf": (\d+) scores?(?: in shared memory|, (\d+)(?: of them)? hidden \(−∞\)); the largest is {N}", _scores),
    (r"hides all (\d+) pairs", _all_hidden),
    (rf"largest score: row 0's goes from {N} to {N}", _row_zero("mi")),
    (rf"exp\(S − m\): row 0's goes from {N} to {N}", _row_zero("li")),
    (rf"partial maxima: m = {N}", _global("m", 1)),
    (rf"split 0 weighs {N}", _global("ws", 1)),
    (rf"The global l = Σ w · l_split = {N}", _global("l", 1)),
    (rf"not yet divided: m = {N}", _global("mi", 1)),
    (rf"not yet divided: m = {N}, l = {N}", _global("li", 2)),
]


def check_claims(trace: Any, t: int, caption: str) -> None:
    """Each claim that a caption makes, and no number that no claim explains where there are decimals."""
    explained: set[str] = set()
    for pattern, claim in CLAIMS:
        for match in re.finditer(pattern, caption):
            assert claim(trace, t, match), f"not so: {match[0]!r}"
            explained.update(text for text in match.groups() if text)
    decimals = set(re.findall(r"−?\d+\.\d+(?:e−?\d+)?", caption))
    assert decimals <= explained, f"nothing vouches for {decimals - explained} in {caption!r}"
