"""How far a right float32 kernel may lie from exact arithmetic, element by element, at every step.

The same formulas that explain a number on the page are followed here in float64, with a forward error bound
carried beside every value. A rounded product or quotient is fl(x) = x (1 + δ) + η with |δ| <= u = 2^-24, the unit
roundoff of float32, and |η| <= h = 2^-150, half the distance of its subnormal numbers; one of the two is 0. A rounded
sum has no η: where it is subnormal, it is exact. The rules, each to first order in u plus the product terms, hold
with or without fused multiply-adds and in any order of summation:

    inputs          0: kernel and trace are given the same float32 numbers
    scale           u |scale| + h, it is rounded once to float32
    a + b, a − b    e(a) + e(b) + u |a ± b|
    a · b           |a| e(b) + |b| e(a) + e(a) e(b) + u |a b| + h
    a ÷ b           (e(a) + |a/b| e(b)) / (|b| − e(b)) + u |a/b| + h
    Σ x             Σ e(x) + n u Σ |x|
    Σ x·y           Σ (|x| e(y) + |y| e(x) + e(x) e(y)) + n (u Σ |x y| + h)
    max             the largest e among what can be the maximum: max is 1-Lipschitz
    exp(x)          exp(x + e(x)) (1 + 4u) − exp(x) + 2^-126: its argument's absolute error, 2 ULP of the
                    library's exp, and what flush-to-zero takes, which the approximating instruction may do
    ln(x)           e(x) / (x − e(x)) + 4u |ln x|: no logarithm of a float32 is subnormal

so a score lies within (d + 2) u scale Σ|q||k| + (scale d + 1) h, as scale · dot adds two roundings to the dot's d. See
Higham, Accuracy and Stability of Numerical Algorithms, 2002, chapters 2 to 4. Only exp may flush to zero, as in a build
with the compiler's defaults (no fast math): elsewhere a subnormal number is a number, and zeros in its place are wrong.
What is exact by definition (a hidden score, a row that sees no key, a rescale by 1 or 0) or as a product of an exact
0 has the bound 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .events import Kind
from .formula import FUNCTIONS, row_slot
from .layout import KEY_MASK, ArrayInfo
from .trace import Trace

U = 2.0**-24
TINY = 2.0**-126  # the smallest normal number
HALF = 2.0**-150  # h: half the smallest subnormal number
Doubles = NDArray[np.float64]
Tile = tuple[int, int, int]  # plane, first row, first column


@dataclass(frozen=True)
class Bounded:
    """Exact values (float64) and how far a right float32 result may lie from each."""

    value: Doubles
    error: Doubles


class Exact:
    """The run of a trace in float64 with error bounds; only the inputs and the structure of the trace are used."""

    def __init__(self, trace: Trace) -> None:
        if trace.meta.values == "none":
            raise ValueError("This run kept no numbers, so its inputs are gone: record it with values 'all' or 'focus'.")
        self.trace = trace
        self.arrays: dict[str, Bounded] = {}
        start = trace.state(0)
        for info in trace.meta.arrays:
            if info.space == "hbm":
                with np.errstate(invalid="ignore"):  # a signalling NaN among the inputs
                    value = np.array(start[info.name], np.float64).reshape(info.planes, info.rows, info.cols)
                self.arrays[info.name] = Bounded(value, np.zeros_like(value))

    def walk(self) -> Iterator[tuple[int, dict[str, Bounded]]]:
        """(step, slots that the step wrote), each (rows, cols). `arrays` follows along."""
        trace = self.trace
        nodes = trace.meta.nodes
        slots: dict[str, Bounded] = {}
        tiles: dict[str, Tile] = {}  # which tile of an array each slot stands for
        place: tuple[int, int] | None = None
        for t in range(1, len(trace.steps_kind)):
            info = trace.step_info(t)
            if (info.launch, int(trace.steps_block[t])) != place:
                slots, tiles, place = {}, {}, (info.launch, int(trace.steps_block[t]))
            before, written = dict(slots), {}
            for event in range(*trace.event_range(t)):
                kind = int(trace.events.kind[event])
                if kind == Kind.BARRIER:
                    continue
                src, dst = int(trace.events.src[event]), int(trace.events.dst[event])
                if kind in (Kind.STORE, Kind.PARTIAL):
                    self._store(slots[nodes[src].name], dst, event)
                    continue
                name = nodes[dst].name
                rows, cols = int(trace.events.rows[event]), int(trace.events.cols[event])
                if src < len(trace.meta.arrays) and trace.events.tiles[event]:
                    tiles[name] = self._tile(event, src)
                if kind == Kind.LOAD:
                    slots[name] = self._load(src, event)
                else:
                    evaluate = _Evaluation(self, before, slots, tiles, name, rows, cols)
                    try:
                        with np.errstate(all="ignore"):
                            slots[name] = _shaped(evaluate(info.formulas[name]), rows, cols)
                    except (KeyError, IndexError, TypeError, OverflowError) as error:
                        raise ValueError(f"The formula of {name} at step {t} does not fit its slots.") from error
                written[name] = slots[name]
            yield t, written

    def _tile(self, event: int, src: int) -> Tile:
        """The (first) tile of array `src` that an event touches."""
        plane, rows, cols = self.trace.meta.arrays[src].tile(int(self.trace.events.tile[event]))
        return plane, rows.start, cols.start

    def _parts(self, info: ArrayInfo, event: int) -> list[tuple[int, slice, slice]]:
        first, count = int(self.trace.events.tile[event]), int(self.trace.events.tiles[event])
        return [info.tile(first + n) for n in range(count)]

    def _load(self, src: int, event: int) -> Bounded:
        info = self.trace.meta.arrays[src]
        array, parts = self.arrays[info.name], self._parts(info, event)
        return Bounded(
            np.concatenate([array.value[part] for part in parts]), np.concatenate([array.error[part] for part in parts])
        )

    def _store(self, slot: Bounded, dst: int, event: int) -> None:
        info = self.trace.meta.arrays[dst]
        (part,) = self._parts(info, event)
        self.arrays[info.name].value[part] = slot.value
        self.arrays[info.name].error[part] = slot.error

    def visible(self, tile: Tile, rows: int, keys: int) -> NDArray[np.bool_]:
        """Which keys of a tile of queries by keys its queries may see, (rows, keys)."""
        plane, query, key = tile
        problem = self.trace.meta.problem
        seen = np.ones((rows, keys), bool)
        if problem["causal"]:
            last = np.arange(query, query + rows) + problem["seqlen_k"] - problem["seqlen_q"]
            seen &= np.arange(key, key + keys) <= last[:, None]
        if problem["key_mask"]:
            seen &= self.arrays[KEY_MASK].value[plane // problem["heads"], key : key + keys, 0] != 0
        return seen


def _shaped(result: Bounded, rows: int, cols: int) -> Bounded:
    return Bounded(np.broadcast_to(result.value, (rows, cols)), np.broadcast_to(result.error, (rows, cols)))


class _Evaluation:
    """One formula over all (r, c) of a slot at once. A number is (rows|1, cols|1); a row of numbers has a third axis."""

    def __init__(self, exact: Exact, before: dict[str, Bounded], now: dict[str, Bounded], tiles: dict[str, Tile],
                 target: str, rows: int, cols: int) -> None:  # fmt: skip
        self.exact, self.before, self.now, self.tiles = exact, before, now, tiles
        self.target, self.rows, self.cols = target, rows, cols

    def __call__(self, node: list[Any]) -> Bounded:
        match node:
            case ["num", x]:
                return _known(float(x))
            case ["const", "scale"]:
                scale = float(self.exact.trace.meta.problem["scale"])
                return Bounded(np.full((1, 1), scale), np.full((1, 1), U * abs(scale) + (HALF if scale else 0.0)))
            case ["ref", name, row, col, when]:
                return self._reference(self.before if when == "old" else self.now, name, row, col)
            case ["op", sign, a, b]:
                return _operate(sign, self(a), self(b))
            case ["call", name, *parts]:
                if name not in FUNCTIONS:
                    raise ValueError(f"A formula calls {name!r}, which has no meaning.")
                function: Any = getattr(self, f"_{name}")
                result: Bounded = function(*parts)
                return result
        raise ValueError(f"A formula holds {node!r}, which has no meaning.")

    def _reference(self, slots: dict[str, Bounded], name: str, row: str | int, col: str | int) -> Bounded:
        slot = slots[name]
        return Bounded(_index(slot.value, row, col), _index(slot.error, row, col))

    def _visible(self, slot: str | None, rows: int, keys: int) -> NDArray[np.bool_]:
        """Which keys the queries of the tile that `slot` stands for may see, (rows, keys)."""
        if slot not in self.tiles:
            raise ValueError(f"A formula of {self.target} asks which keys are visible, where no slot stands for a tile of them.")
        return self.exact.visible(self.tiles[slot], rows, keys)

    def _max(self, *parts: Any) -> Bounded:
        values, errors = [np.full((1, 1, 1), -np.inf)], [np.zeros((1, 1, 1))]
        for part in parts:
            x = _row(self(part))
            values.append(x.value)
            errors.append(x.error)
        shape = np.broadcast_shapes(*(value.shape[:2] for value in values))
        value = np.concatenate([np.broadcast_to(v, (*shape, v.shape[2])) for v in values], axis=2)
        error = np.concatenate([np.broadcast_to(e, (*shape, e.shape[2])) for e in errors], axis=2)
        top = value.max(axis=2)
        possible = value + error >= (value - error).max(axis=2)[..., None]
        return Bounded(top, np.where(possible, error, 0.0).max(axis=2))

    def _sum(self, part: Any) -> Bounded:
        x = _row(self(part))
        n = x.value.shape[2]
        return Bounded(x.value.sum(axis=2), x.error.sum(axis=2) + n * U * np.abs(x.value).sum(axis=2))

    def _dot(self, a: Any, b: Any) -> Bounded:
        return _dot(_row(self(a)), _row(self(b)), None)

    def _mix(self, p: Any, v: Any) -> Bounded:
        weights, values = _row(self(p)), _row(self(v))
        seen = self._visible(row_slot(p), self.rows, weights.value.shape[2])
        return _dot(weights, values, seen[:, None, :])

    def _masked(self, part: Any) -> Bounded:
        x = self(part)
        seen = self._visible(self.target, self.rows, self.cols)
        return Bounded(np.where(seen, x.value, -np.inf), np.where(seen, x.error, 0.0))

    def _rescale(self, old: Any, new: Any) -> Bounded:
        a, b = self(old), self(new)
        x = _exp(_operate("-", a, b))
        none, zero = b.value == -np.inf, (a.value == -np.inf) & (b.value != -np.inf) & ~np.isnan(b.value)
        return Bounded(np.where(none, 1.0, x.value), np.where(none | zero, 0.0, x.error))

    def _weight(self, scores: Any, top: Any) -> Bounded:
        s, m = self(scores), self(top)
        if s.value.ndim == 3:
            m = _row(m)
        x = _exp(_operate("-", s, m))
        hidden = s.value == -np.inf
        return Bounded(np.where(hidden, 0.0, x.value), np.where(hidden, 0.0, x.error))

    def _ratio(self, a: Any, b: Any) -> Bounded:
        over, under = self(a), self(b)
        x = _operate("/", over, under)
        none = under.value == 0
        return Bounded(np.where(none, 0.0, x.value), np.where(none, 0.0, x.error))

    def _exp(self, part: Any) -> Bounded:
        return _exp(self(part))

    def _log(self, part: Any) -> Bounded:
        return _log(self(part))

    def _lse(self, top: Any, total: Any) -> Bounded:
        m, total_ = self(top), self(total)
        x = _operate("+", m, _log(total_))
        none = total_.value == 0
        return Bounded(np.where(none, -np.inf, x.value), np.where(none, 0.0, x.error))


def _known(x: float) -> Bounded:
    return Bounded(np.full((1, 1), x), np.zeros((1, 1)))


def _index(data: Doubles, row: str | int, col: str | int) -> Doubles:
    """A slot's numbers for all (r, c): (rows|1, cols|1), with a third axis for a row of numbers."""
    match row, col:
        case "r", "c":
            return data
        case "r", int():
            return data[:, col : col + 1]
        case int(), "c":
            return data[row : row + 1]
        case int(), int():
            return data[row : row + 1, col : col + 1]
        case "r", ":":
            return data[:, None, :]
        case "c", ":":
            return data[None, :, :]
        case ":", "c":
            return data.T[None]
        case ":", int():
            return data[:, col][None, None, :]
    raise ValueError(f"A formula has the index [{row}, {col}], which has no meaning.")


def _row(x: Bounded) -> Bounded:
    return x if x.value.ndim == 3 else Bounded(x.value[..., None], x.error[..., None])


def _operate(sign: str, a: Bounded, b: Bounded) -> Bounded:
    x, y, ex, ey = a.value, b.value, a.error, b.error
    if sign == "+" or sign == "-":
        value = x + y if sign == "+" else x - y
        return Bounded(value, ex + ey + U * _finite(value))
    if sign == "*":
        value = x * y
        return Bounded(value, _finite(x) * ey + _finite(y) * ex + ex * ey + U * _finite(value) + _underflow(_some(a) & _some(b)))
    value = x / y
    margin = np.abs(y) - ey
    error = np.where(margin > 0, (ex + _finite(value) * ey) / np.where(margin > 0, margin, 1.0), np.inf)
    return Bounded(value, error + U * _finite(value) + _underflow(_some(a)))


def _some(x: Bounded) -> NDArray[np.bool_]:
    """Where a right kernel may hold another number than 0."""
    some: NDArray[np.bool_] = (x.value != 0) | (x.error != 0)
    return some


def _underflow(rounded: NDArray[np.bool_]) -> Doubles:
    """What rounding to a subnormal number may take where something is rounded at all."""
    return np.where(rounded, HALF, 0.0)


def _finite(x: Doubles) -> Doubles:
    """|x|, and 0 where x is not finite: there the value must be met exactly."""
    return np.where(np.isfinite(x), np.abs(x), 0.0)


def _dot(x: Bounded, y: Bounded, seen: NDArray[np.bool_] | None) -> Bounded:
    n = x.value.shape[2]
    if x.value.shape[1] == 1 and y.value.shape[0] == 1 and np.isfinite(x.value).all() and np.isfinite(y.value).all():
        return _matrix_product(x, y, seen)
    product = x.value * y.value
    error = _finite(x.value) * y.error + _finite(y.value) * x.error + x.error * y.error + n * U * _finite(product)
    error = error + _underflow(_some(x) & _some(y))
    if seen is not None:  # hidden keys are left out, never multiplied
        product, error = np.where(seen, product, 0.0), np.where(seen, error, 0.0)
    return Bounded(product.sum(axis=2), error.sum(axis=2))


def _matrix_product(x: Bounded, y: Bounded, seen: NDArray[np.bool_] | None) -> Bounded:
    """`_dot` of finite rows with finite columns, as matrix products: the same numbers without a third axis."""
    a, ea, b, eb = x.value[:, 0], x.error[:, 0], y.value[0].T, y.error[0].T
    if seen is not None:
        a, ea = np.where(seen[:, 0], a, 0.0), np.where(seen[:, 0], ea, 0.0)
    crossed = np.abs(a) @ eb + ea @ np.abs(b) + ea @ eb
    sizes = np.abs(a) @ np.abs(b)
    return Bounded(a @ b, crossed + a.shape[1] * (U * sizes + _underflow((sizes > 0) | (crossed > 0))))


def _exp(x: Bounded) -> Bounded:
    value = np.exp(x.value)
    finite = np.isfinite(value)
    return Bounded(value, np.where(finite, np.exp(x.value + x.error) * (1 + 4 * U) - value + TINY, 0.0))


def _log(x: Bounded) -> Bounded:
    value = np.log(x.value)
    margin = x.value - x.error
    error = np.where(margin > 0, x.error / np.where(margin > 0, margin, 1.0), np.inf)
    return Bounded(value, error + 4 * U * _finite(value))
