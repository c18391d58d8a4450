"""How a lesson's text writes what it asks: numbers for prose and for TeX, lists, curves, papers."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..trace import words
from .papers import PAPERS

NOTHING = "–"


def fmt(x: float | None, digits: int = 4) -> str:
    """A number as the figure writes it; a dash where there is none."""
    return NOTHING if x is None else words.number(x, digits)


def tex(x: float | None, digits: int = 4) -> str:
    """A number for TeX."""
    text = fmt(x, digits)
    for sign, written in ((words.MINUS, "-"), ("∞", r"\infty"), ("NaN", r"\mathrm{NaN}"), (NOTHING, r"\text{–}")):
        text = text.replace(sign, written)
    mantissa, e, power = text.partition("e")
    return rf"{mantissa}\cdot 10^{ {int(power)} }" if e else text


def texlist(numbers: Iterable[float], by: str = " + ", digits: int = 4, most: int = 8) -> str:
    """Numbers for TeX, one after another; the middle of a long list is left out."""
    parts = [rf"({tex(x, digits)})" if x < 0 and by.strip() in "+-" else tex(x, digits) for x in numbers]
    if len(parts) > most:
        parts = [*parts[: most - 2], r"\dots", parts[-1]]
    return by.join(parts) if parts else "0"


def chart(title: str, x: str, y: str, series: dict[str, dict[int, float]]) -> str:
    """Curves over a logarithmic scale, with their numbers as a table below: series is label -> {x: y}."""
    curves = {label: {str(a): b for a, b in curve.items()} for label, curve in series.items()}
    data = {"title": title, "x": x, "y": y, "series": curves}
    return f"```chart\n{json.dumps(data)}\n```"


def cite(name: str) -> str:
    """A paper's line for the reading list."""
    return PAPERS[name].markdown()
