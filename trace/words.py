"""The words of a trace: numbers as text, labels, captions and paths.

The page says the same words with `static/player/words.js`; fixtures hold the two equal, character for
character. Rounding is half away from zero, as JavaScript's `toFixed` rounds, on the exact decimal value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING

from .events import NONE

if TYPE_CHECKING:
    from .trace import Trace

MINUS = "\u2212"  # a real minus sign is as wide as a plus
LARGE = 1e6
EXACT = 2**24  # whole numbers up to here are exact in float32
_ROUND = Context(prec=400, rounding=ROUND_HALF_UP)
_NUMBERED = re.compile(r"[0-9]{1,4}")
_FIELD = re.compile(r"\{([^{}]+)\}")


def number(value: float, digits: int = 4) -> str:
    """`value` as people read it: whole numbers plain, others with `digits` decimals, extremes as powers of ten."""
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return f"{MINUS}∞" if value < 0 else "∞"
    size = abs(value)
    sign = MINUS if value < 0 else ""
    if size <= EXACT and size == int(size):
        return f"{sign}{int(size)}"
    if size >= LARGE or size < 0.5 * 10.0**-digits:
        return sign + _scientific(size)
    return sign + _fixed(size, digits)


def listed(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"; nothing of nothing."""
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def _fixed(size: float, digits: int) -> str:
    return str(_ROUND.quantize(Decimal(size), Decimal(1).scaleb(-digits)))


def _scientific(size: float) -> str:
    exact = Decimal(size)
    power = exact.adjusted()
    mantissa = _ROUND.quantize(exact.scaleb(-power, _ROUND), Decimal("0.001"))
    if mantissa >= 10:
        mantissa, power = _ROUND.quantize(mantissa / 10, Decimal("0.001")), power + 1
    return f"{mantissa}e{MINUS if power < 0 else ''}{abs(power)}"


def label(trace: Trace, t: int) -> str:
    """The label of step t in the step list: "load K0, V0"."""
    return _fill(trace, t, trace.step_info(t).label, ())


def caption(trace: Trace, t: int) -> str:
    """The sentence of step t, with this step's numbers."""
    template = trace.meta.captions[int(trace.steps_caption[t])]
    return _fill(trace, t, template, trace.args_of(t))


def path(trace: Trace, t: int) -> tuple[str, ...]:
    """Where step t stands: launch, block, loops. Empty for the start."""
    info = trace.step_info(t)
    if info.launch < 0:
        return ()
    launch = trace.meta.launches[info.launch]
    loops = trace.loops_of(t)
    return (
        launch.title,
        block_name(trace, info.launch, int(trace.steps_block[t])),
        *(loop_name(name, index) for name, index in zip(info.loops, loops, strict=True)),
    )


def block_name(trace: Trace, launch: int, block: int) -> str:
    """A block and its place: "block 1 · split = 1"."""
    info = trace.meta.launches[launch]
    axes = [axis for axis, size in info.grid if size > 1] or [info.grid[0][0]]
    place = info.coordinates(block)
    return f"block {block} · " + ", ".join(f"{axis} = {place[axis]}" for axis in axes)


def loop_name(name: str, index: int) -> str:
    """A turn of a loop: "j = 1"; a heading ("#first sweep") stands alone."""
    return name[1:] if name.startswith("#") else f"{name} = {index}"


def _fill(trace: Trace, t: int, template: str, args: tuple[float, ...]) -> str:
    def replace(match: re.Match[str]) -> str:
        field = match[1]
        if _NUMBERED.fullmatch(field):
            return number(args[int(field)]) if int(field) < len(args) else match[0]
        info = trace.step_info(t)
        if field in info.loops:
            return str(trace.loops_of(t)[info.loops.index(field)])
        if field == "block":
            return str(int(trace.steps_block[t]))
        if field.startswith("block.") and info.launch >= 0:
            place = trace.meta.launches[info.launch].coordinates(int(trace.steps_block[t]))
            return str(place.get(field[6:], match[0]))
        return tile_name(trace, t, field) or match[0]

    return _FIELD.sub(replace, template)


def tile_name(trace: Trace, t: int, array: str) -> str | None:
    """The tile of `array` that step t first touches: "2", "01" of a matrix of tiles, "1,12" beyond nine."""
    for node, info in enumerate(trace.meta.arrays):
        if info.name != array:
            continue
        first, last = trace.event_range(t)
        for event in range(first, last):
            if node in (trace.events.src[event], trace.events.dst[event]) and trace.events.tiles[event]:
                inside = int(trace.events.tile[event]) % max(info.row_tiles * info.col_tiles, 1)
                row, col = divmod(inside, info.col_tiles)
                if info.col_tiles == 1 and info.space == "hbm":
                    return str(row)
                return f"{row}{col}" if row < 10 and col < 10 else f"{row},{col}"
    return None


__all__ = ["NONE", "block_name", "caption", "label", "listed", "loop_name", "number", "path", "tile_name"]
