"""How large a run may be, and what would fit where one is larger: sizes found by asking the estimate, no other formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..trace.words import listed
from .kernel import Kernel
from .problem import MAX_BLOCK

MAX_STEPS = 1_000_000
MAX_HBM_BYTES = 8 * 2**30

Sizes = dict[str, int]
Fits = Callable[[Sizes], bool]  # whether the run would fit with these sizes changed


@dataclass(frozen=True)
class Limits:
    """The most steps, bytes of all arrays in the model's HBM, and operations; None: any number."""

    steps: int = MAX_STEPS
    hbm_bytes: int = MAX_HBM_BYTES
    flops: int | None = None


def what_fits(kernel: Kernel, words: dict[str, Any], fits: Fits) -> str:
    """One sentence with one or two changes of sizes, each of which does alone: " It would fit with …."; or nothing.

    words: every field of the problem and its tiling, as asked.
    """
    found: list[str] = []
    for change in (_tiles, _lengths, _batch, _heads, _head_dim, _alone):
        if change is _alone and found:
            break
        sizes = next(change(kernel, words, fits), None)
        if sizes:
            found.append(_named(sizes))
    if not found:
        return ""
    return f" It would fit with {', or with '.join(found[:2])}."


def _named(sizes: Sizes) -> str:
    """"seqlen_q and seqlen_k of 4,096", "batch and heads of 1, seqlen_k of 7"."""
    groups: dict[int, list[str]] = {}
    for name, size in sizes.items():
        groups.setdefault(size, []).append(name)
    return ", ".join(f"{listed(names)} of {size:,}" for size, names in groups.items())


def _tiles(kernel: Kernel, words: dict[str, Any], fits: Fits) -> Iterator[Sizes]:
    """The smallest tiles, a power of two, that are enough."""
    names = [name for name in ("block_rows", "block_cols") if name in kernel.parameters]
    for power in range(1, MAX_BLOCK.bit_length()):
        larger: Sizes = {name: 2**power for name in names if words[name] < 2**power}
        if larger and fits(larger):
            yield larger


def _lengths(kernel: Kernel, words: dict[str, Any], fits: Fits) -> Iterator[Sizes]:
    """The longest sequences; the longer of the two is cut first."""
    names = [name for name in ("seqlen_q", "seqlen_k") if name in kernel.parameters]
    yield from _largest(lambda n: {name: n for name in names if words[name] > n}, max(words[name] for name in names), fits)


def _batch(kernel: Kernel, words: dict[str, Any], fits: Fits) -> Iterator[Sizes]:
    yield from _largest(lambda n: {"batch": n}, words["batch"], fits)


def _heads(kernel: Kernel, words: dict[str, Any], fits: Fits) -> Iterator[Sizes]:
    """The most heads, in groups as large as were asked."""
    group = words["heads"] // words["kv_heads"]

    def fewer(n: int) -> Sizes:
        return {"heads": n} if words["kv_heads"] == 1 else {"heads": n * group, "kv_heads": n}

    yield from _largest(fewer, words["heads"] if words["kv_heads"] == 1 else words["kv_heads"], fits)


def _head_dim(kernel: Kernel, words: dict[str, Any], fits: Fits) -> Iterator[Sizes]:
    if "head_dim" in kernel.parameters:
        yield from _largest(lambda n: {"head_dim": n}, words["head_dim"], fits)


def _alone(kernel: Kernel, words: dict[str, Any], fits: Fits) -> Iterator[Sizes]:
    """One sequence and one head, as long as can be: where no one size is enough."""
    one: Sizes = {name: 1 for name in ("batch", "heads", "kv_heads") if name in kernel.parameters and words[name] > 1}
    for sizes in _lengths(kernel, words, lambda sizes: fits({**one, **sizes})):
        yield {**one, **sizes}


def _largest(change: Callable[[int], Sizes], beyond: int, fits: Fits) -> Iterator[Sizes]:
    """The change for the largest number below `beyond` that fits, and before it the round one beneath that."""
    low, high = 0, 1  # upwards, as small estimates cost least
    while high < beyond and fits(change(high)):
        low, high = high, 2 * high
    high = min(high, beyond)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(change(middle)) else (low, middle)
    step = 2 ** max(low.bit_length() - 3, 0)
    for number in (low // step * step, low):
        if number and fits(change(number)):
            yield change(number)
