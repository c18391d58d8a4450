"""Numbers as a person reads them in a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def size(count: int) -> str:
    """Bytes in the largest unit that leaves a number above 1: "352 B", "12.3 kB", "4.56 MB"."""
    number, units = float(count), ("B", "kB", "MB", "GB")
    power = 0
    while number >= 999.5 and power < len(units) - 1:
        number, power = number / 1000, power + 1
    return f"{count} B" if power == 0 else f"{number:.3g} {units[power]}"


def table(head: Sequence[str], rows: Sequence[Sequence[str | int]], foot: Sequence[str | int] | None = None) -> str:
    """Plain aligned columns: the first to the left, numbers to the right, a line above the foot if there is one."""
    text = [[cell if isinstance(cell, str) else f"{cell:,}" for cell in row] for row in (head, *rows, *([foot] if foot else []))]
    widths = [max(len(row[column]) for row in text) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(w) if n == 0 else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True)))
        for row in text
    ]
    rule = "-" * len(lines[0])
    return "\n".join([lines[0], rule, *(lines[1:] if foot is None else [*lines[1:-1], rule, lines[-1]])])
