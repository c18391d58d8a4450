"""Numbers and texts as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence


def size(count: int) -> str:
    """A number of bytes as a person reads it: `40 B`, `1.5 KiB`, `32 MiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1023.95:  # beyond it, one decimal would say 1024
            return f"{value:.1f}".removesuffix(".0") + f" {unit}"
        value /= 1024
    return f"{value:,.1f}".removesuffix(".0") + " GiB"


def count(x: float) -> str:
    """A whole number with its thousands apart."""
    return f"{round(x):,}"


def plural(x: int, one: str, many: str | None = None) -> str:
    """ "1 key", "4,096 keys"."""
    return f"{count(x)} {one if x == 1 else many or one + 's'}"


def percent(share: float, digits: int = 0) -> str:
    """A share: "12 %"."""
    return f"{100 * share:.{digits}f} %"


def short(text: str, most: int = 24) -> str:
    """The text, or its beginning where it is longer than `most` characters: for what a stranger typed."""
    return text if len(text) <= most else text[: most - 1] + "…"


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
