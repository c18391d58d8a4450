"""Numbers pasted as text, read into matrices. The text is a stranger's: what is wrong is said with its line."""

from __future__ import annotations

import math
import re
import sys
from operator import itemgetter

import numpy as np

from .ownarrays import ALIASES, ATTENTION, Array, ArraysError
from .tables import plural, short

MAX_TEXT_NUMBERS = 200_000
MAX_WORD = 1000
MAX_TEXT = 25 * MAX_TEXT_NUMBERS  # characters: the longest number and a space

_HEADING = re.compile(r"^\s*([A-Za-z_]\w*)\s*(?:[:=]\s*(.*))?$")
# None of these looks at a stretch of text twice, however long it is.
_NUMBER = re.compile(r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan|true|false)")
_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_WORD = re.compile(r"(?P<row>\](?:\s*,)?\s*\[)|[^\s,;\[\](){}]+")


def read_text(text: str) -> dict[str, Array]:
    """Matrices from pasted numbers: a heading (`q`, `k`, `v`, `x` or `key_mask`) on a line, then a row a line.

    Numbers stand apart by spaces, commas, semicolons or tabs; brackets are decoration; `inf`, `-inf` and `nan` are
    numbers. Without headings, blank lines part the matrices: three are q, k and v, a single one is x.
    Raises `ArraysError`.
    """
    too_long = ArraysError(f"This is more than {MAX_TEXT_NUMBERS:,} numbers; send a .npy file instead.")
    if len(text) > MAX_TEXT:
        raise too_long
    named: dict[str, list[list[float]]] = {}
    unnamed: list[list[list[float]]] = [[]]
    current: list[list[float]] | None = None
    total = 0
    for number, line in enumerate(map(itemgetter(1), _LINE.finditer(text.replace("−", "-"))), 1):
        heading = _HEADING.match(line)
        if heading and not _NUMBER.fullmatch(heading[1].lower()):
            name = ALIASES.get(heading[1].lower())
            if name is None:
                raise ArraysError(f"Line {number} names “{heading[1]}”; name the matrices q, k and v, or x.")
            if name in named:
                raise ArraysError(f"Line {number} begins {name} a second time; give each matrix once.")
            current = named[name] = []
            line = heading[2] or ""
        elif current is None and not line.strip() and unnamed[-1]:
            unnamed.append([])
        rows: list[list[float]] = [[]]
        for word in _WORD.finditer(line):
            if word["row"]:  # [[1, 2], [3, 4]] on one line is two rows, as NumPy and Python print them
                if rows[-1]:
                    rows.append([])
                continue
            rows[-1].append(_number(word[0], number))
            total += 1
            if total > MAX_TEXT_NUMBERS:
                raise too_long
        (unnamed[-1] if current is None else current).extend(row for row in rows if row)
    loose = [rows for rows in unnamed if rows]
    if named and loose:
        raise ArraysError("Some rows stand before the first name; begin with a line that says q, k, v or x.")
    if loose:
        if len(loose) not in (1, 3):
            raise ArraysError(
                f"There are {len(loose)} matrices without names; begin each with a line that says q, k, v or x."
            )
        named = dict(zip(ATTENTION if len(loose) == 3 else ("x",), loose, strict=True))
    if not named:
        raise ArraysError(
            "There are no numbers here; paste a row of numbers a line, under the names q, k and v."
        )
    return {name: _matrix(name, rows) for name, rows in named.items()}


def _number(word: str, line: int) -> float:
    if len(word) > MAX_WORD or not _NUMBER.fullmatch(word.lower()):
        shown = short(word, 20)
        raise ArraysError(
            f"Line {line} has “{shown}”, which is not a number; write numbers such as 0.5, -inf or 1e-3."
        )
    if word.lower() in ("true", "false"):
        return float(word.lower() == "true")
    number = float(word)
    if math.isinf(number) and "n" not in word.lower():  # 1e999, not inf: kept finite, so that `settle` has its word
        return math.copysign(sys.float_info.max, number)
    return number


def _matrix(name: str, rows: list[list[float]]) -> Array:
    if name == "key_mask":
        return np.array([number for row in rows for number in row], np.float64)
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ArraysError(
                f"Row {index + 1} of {name} has {plural(len(row), 'number')} and row 1 has {len(rows[0])}; "
                "give every row as many."
            )
    written = np.array(rows, np.float64).reshape(len(rows), len(rows[0]) if rows else 0)
    with np.errstate(over="ignore"):
        rounded = written.astype(np.float32)
    # Decimals are rounded by everyone who reads them; only what becomes infinite deserves `settle`'s word.
    return written if (np.isinf(rounded) & np.isfinite(written)).any() else rounded
