"""A person's own arrays: which is which, the shapes they may have, and the form they are kept in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..trace.words import listed
from .tables import plural, short, size

Array = NDArray[np.generic]

# The names that arrays are kept under, and what people call them.
ALIASES = {
    **dict.fromkeys(("q", "query", "queries"), "q"),
    **dict.fromkeys(("k", "key", "keys"), "k"),
    **dict.fromkeys(("v", "value", "values"), "v"),
    **dict.fromkeys(("x", "scores", "logits"), "x"),
    **dict.fromkeys(("key_mask", "keymask", "mask"), "key_mask"),
}
ATTENTION = ("q", "k", "v")
_LOOSE = re.compile(rf"({'|'.join(sorted(ALIASES, key=len, reverse=True))})(?![a-z])")  # q64, K_cache, key-mask.1
NAMING = "the name of a file or entry says which array it is"


class ArraysError(ValueError):
    """Arrays that cannot be used; the message is one sentence saying what would be right."""


@dataclass(frozen=True)
class Arrays:
    """A person's arrays in the form they are kept in: float32 (`key_mask`: bool), C order.

    `q`, `k`, `v` are (batch, heads, seqlen, head_dim) or (seqlen, head_dim); `x` is (rows, columns);
    `key_mask` is (batch, seqlen_k) or (seqlen_k,), True = visible. `notes` say what was changed on the way in.
    """

    arrays: dict[str, Array]
    notes: tuple[str, ...] = field(default=())

    @property
    def shapes(self) -> dict[str, list[int]]:
        """The shape of each array, by name."""
        return {name: list(array.shape) for name, array in self.arrays.items()}


def shown(name: str) -> str:
    """A name from a file, short enough for a sentence."""
    return short(_printable(name), 40)


def _printable(name: str) -> str:
    """A name without the halves of characters that no encoding has."""
    return name.encode("utf-8", "replace").decode()


def settle(found: dict[str, Array], limit: int = 2**62) -> Arrays:
    """The arrays under the names that kernels know, as float32, with notes on what that changed.

    Unknown names are left out when known ones are there; otherwise three arrays are q, k and v in their order, and a
    single one is x. Raises `ArraysError` for missing, doubled or misshapen ones, and for more than `limit` bytes.
    """
    notes: list[str] = []
    known: dict[str, tuple[str, Array]] = {}
    roles = _roles(found)
    for original, name in roles.items():
        if name in known:
            raise ArraysError(f"{shown(known[name][0])} and {shown(original)} are both {name}; send one of them.")
        known[name] = (original, found[original])
    others = [name for name in found if name not in roles]
    if not any(name in known for name in (*ATTENTION, "x")):
        if len(others) != 3 and not (len(others) == 1 and found[others[0]].ndim == 2):
            raise ArraysError(f"{NAMING.capitalize()}: call them q, k and v (or x).")
        names = ATTENTION if len(others) == 3 else ("x",)
        known |= {name: (other, found[other]) for name, other in zip(names, others, strict=True)}
        notes.append(
            "Taken as "
            + ", ".join(f"{name}: {shown(other)}" for name, other in zip(names, others, strict=True))
            + "."
        )
    elif others:
        notes.append(f"Left out: {', '.join(map(shown, sorted(others)[:8]))}.")
    missing = [name for name in ATTENTION if name not in known]
    if 0 < len(missing) < 3:
        verb = "is" if len(missing) == 1 else "are"
        unknown = f", and {shown(others[0])} names none" if others else ""
        raise ArraysError(f"{listed(missing)} {verb} missing; send q, k and v together: {NAMING}{unknown}.")
    taken = sum(array.size * (1 if name == "key_mask" else 4) for name, (_, array) in known.items())
    if taken > limit:
        raise ArraysError(f"These arrays take {size(taken)} as float32; send at most {size(limit)}.")
    settled: dict[str, Array] = {}
    for name in (*ATTENTION, "x", "key_mask"):
        if name in known:
            original, array = known[name]
            _check_shape(name, array)
            settled[name] = _convert(name, array, notes)
    return Arrays(settled, tuple(notes))


def settle_mask(mask: Array) -> Arrays:
    """A key mask without arrays, which goes with named inputs. Raises `ArraysError` for a shape or numbers of no mask."""
    _check_shape("key_mask", mask)
    return Arrays({"key_mask": _convert("key_mask", mask, [])})


def _roles(names: Iterable[str]) -> dict[str, str]:
    """Which array each name says it is, where it says so. `q` is meant before `q64`, which serves where no `q` is."""
    plain = {name: name.strip().lower().replace("-", "_") for name in names}
    roles = {name: ALIASES[text] for name, text in plain.items() if text in ALIASES}
    taken = {*roles.values()}
    for name, text in plain.items():
        loose = _LOOSE.match(text)
        if name not in roles and loose and ALIASES[loose[1]] not in taken:
            roles[name] = ALIASES[loose[1]]
    return roles


def _check_shape(name: str, array: Array) -> None:
    shape = array.shape or "a single number"
    if name == "key_mask":
        if array.ndim not in (1, 2):
            raise ArraysError(
                f"key_mask is {shape}; give (keys) or (batch, keys), true where a key is visible."
            )
    elif name == "x":
        if array.ndim != 2:
            raise ArraysError(f"x is {shape}; give a matrix of rows by columns.")
    elif array.ndim not in (2, 4):
        raise ArraysError(f"{name} is {shape}; give (seqlen, head_dim) or (batch, heads, seqlen, head_dim).")


def _convert(name: str, array: Array, notes: list[str]) -> Array:
    if name == "key_mask":
        if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
            raise ArraysError(
                "key_mask holds other numbers than 0 and 1; give 1 where a key is visible, 0 where not."
            )
        return np.ascontiguousarray(array.astype(np.bool_))
    with np.errstate(over="ignore"):
        settled = np.array(array, np.float32, order="C")
    settled[np.isnan(settled)] = np.nan  # one NaN, so that the same numbers have the same hash
    if array.dtype not in (np.float32, np.float16):
        overflowed = int(np.count_nonzero(np.isinf(settled) & np.isfinite(array)))
        if overflowed:
            notes.append(
                f"{name} was {array.dtype}: {plural(overflowed, 'number')} beyond float32's range became infinite."
            )
        elif not np.array_equal(settled, array.astype(np.float64), equal_nan=True):
            notes.append(f"{name} was {array.dtype} and is rounded to float32, in which the kernels compute.")
    return settled
