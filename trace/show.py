"""The walk as text: a terminal's and a screen reader's view of the same steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import words

if TYPE_CHECKING:
    from .trace import Trace


def walk(trace: Trace) -> Iterator[str]:
    """Lines of text: headings for launch, block and loops as they begin, then each step and its sentence."""
    last = len(trace.steps) - 1
    above: tuple[str, ...] = ()
    for t in range(last + 1):
        path = words.path(trace, t)
        if path != above:
            shared = next((n for n, (a, b) in enumerate(zip(path, above, strict=False)) if a != b), min(len(path), len(above)))
            for depth in range(shared, len(path)):
                yield f"{'  ' * depth}{path[depth]}"
            above = path
        indent = "  " * len(path)
        yield f"{indent}step {t} of {last}: {words.label(trace, t)}"
        yield f"{indent}  {words.caption(trace, t)}"
