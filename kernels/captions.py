"""The sentences that several twins say. Each speaks the step's own numbers where they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .kernel import Floats, Mask

if TYPE_CHECKING:
    from ..trace.tape import OpenStep, Silence

    AnyStep = OpenStep | Silence


def update(step: AnyStep, m_old: Floats, m_new: Floats, alpha: Floats, carries: str) -> None:
    """What an online update did to the running maximum: how many rows rose, and row 0 in numbers.

    `carries` names what is rescaled ("l and O"). m_old, m_new and alpha are (rows, 1).
    """
    if not step.speaks:
        step.say(f"The tile is taken in: where its largest score beats m, α multiplies the old {carries} first.")
        return
    old, new = float(m_old[0, 0]), float(m_new[0, 0])
    if new != new:
        text = "Row 0 has met a visible NaN, so its m is NaN, and all that follows from it."
    elif float(alpha[0, 0]) != float(alpha[0, 0]):
        text = "Row 0's maximum is {3}: ∞ − ∞ has no value, so its α is NaN, and all that follows from it."
    elif new == -np.inf:
        text = "Row 0 has seen no key yet: m stays −∞, α = 1, and its carries stay as they are."
    elif old == -np.inf:
        text = f"Row 0 sees its first keys: m rises from −∞ to {{3}}, so α = 0 and nothing old is carried into {carries}."
    elif new > old:
        text = f"Row 0's maximum rises from {{2}} to {{3}}, so α = {{4}} multiplies the old {carries} before this tile is added."
    else:
        text = "Row 0 keeps its maximum {3}, so α = 1: nothing shrinks, this tile is only added."
    raised = int(np.count_nonzero(m_new > m_old))
    count = " The maximum rises in {0} of {1} rows." if len(m_new) > 1 else ""
    step.say(text + count, raised, len(m_new), old, new, float(alpha[0, 0]))


def fill(step: AnyStep, s: Floats, seen: Mask | None, what: str = "S{S}") -> None:
    """What a tile of scores holds: its largest, and how much of it the masks hide (`seen`: what they do not)."""
    if not step.speaks:
        step.say(f"Every query of the tile meets every key: {what} = scale · Q Kᵀ.")
        return
    scores = count(s.size, "score")
    hidden = 0 if seen is None else s.size - int(np.count_nonzero(seen))
    if hidden == s.size:
        step.say(f"{what} = scale · Q Kᵀ, but the mask hides every pair: each score is −∞.")
    elif hidden:
        step.say(f"{what} = scale · Q Kᵀ: {{0}} scores, {{1}} hidden (−∞); the largest is {{2}}.", s.size, hidden, float(s.max()))
    else:
        step.say(f"{what} = scale · Q Kᵀ: {scores} in shared memory; the largest is {{1}}.", s.size, float(s.max()))


def count(number: int, what: str = "key") -> str:
    """"1 key", "4 keys": as text in a template, so that one is not said as many."""
    return f"1 {what}" if number == 1 else f"{{0}} {what}s"
