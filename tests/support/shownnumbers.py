"""Numbers as the player shows them, read back: a text against the value it stands for, and the arithmetic of a line."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np


def at(state: Any, name: str, row: int, col: int) -> float | None:
    """A number of a slot; None where it holds nothing there."""
    if name not in state:
        return None
    values = state[name]
    values = values.reshape(len(values), -1)
    return float(values[row, col]) if row < values.shape[0] and col < values.shape[1] else None


def same(text: str, value: float | None, empty: str = "", digits: int | None = None) -> bool:
    """Whether a text is this number, rounded to as many places as it shows."""
    if value is None:
        return text in ("", empty)
    text = text.replace("−", "-")
    if not math.isfinite(value):
        return text == {math.inf: "∞", -math.inf: "-∞"}.get(value, "NaN")
    match = re.fullmatch(r"-?\d+(?:\.(\d+))?(?:e(-?\d+))?", text)
    if not match:
        return False
    if digits is not None and match[1] is not None and match[2] is None and len(match[1]) < digits:
        return False
    unit = 10.0 ** (int(match[2] or 0) - len(match[1] or ""))
    if match[1] is None and match[2] is None and abs(value) < 99.9:
        return float(text) == value  # a whole number is shown only where it is one
    return abs(float(text) - value) <= unit / 2 * (1 + 1e-6)


FUNCTIONS: dict[str, Any] = {
    "exp": np.exp,
    "log": np.log,
    "inf": np.inf,
    "nan": np.nan,
    "max": lambda *numbers: np.max(numbers) if numbers else -np.inf,
}


def arithmetic(text: str) -> float:
    """The value of an expression as the page writes it."""
    for sign, python in (("−", "-"), ("×", "*"), ("÷", "/"), ("∞", "inf"), ("ln(", "log("), ("NaN", "nan")):
        text = text.replace(sign, python)
    assert re.fullmatch(r"[-+*/(),.\d\se]*|[-+*/(),.\d\sa-z]*", text), text
    text = re.sub(r"(?<![\w.])(\d+(?:\.\d+)?(?:e-?\d+)?|inf|nan)", r"np.float64(\1)", text)
    with np.errstate(all="ignore"):
        return float(eval(text, {"__builtins__": {}, "np": np, **FUNCTIONS}))


def close(a: float, b: float) -> bool:
    """Equal within what four decimals of an intermediate sum can hide."""
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= 2e-4 * max(1.0, abs(a), abs(b))
