"""What is asked: the problem's sizes and the tiling, each of which can say what is wrong with it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

MAX_ELEMENTS = 2**31 - 1
MAX_HEAD_DIM = 1024
MAX_BLOCK = 1024
MAX_TILES = 65_534  # a loop index or a tile count must fit a 16-bit column, with one value to spare
MAX_SPLITS = 4096


class ParameterError(ValueError):
    """A parameter that cannot be: `field` names it, the message says what would be right."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class TooLarge(ParameterError):
    """Sizes that are sound one by one, and together more than can be numbered."""


def _whole(field: str, value: object, least: int, most: int, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParameterError(field, f"{what} should be a whole number from {least} to {most:,}, not {value!r}.")
    if not least <= value <= most:
        raise ParameterError(field, f"{what} should be from {least} to {most:,}, not {value:,}.")


def _in_float32(value: object) -> bool:
    """Whether it is a number that float32 holds: as no infinity, nor as a 0 that was none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == 0 or 2.0**-150 < abs(value) < 2.0**128 - 2.0**103  # the ties go to 0 and to infinity


@dataclass(frozen=True)
class Problem:
    """The attention problem. Q is (batch, heads, seqlen_q, head_dim); K and V (batch, kv_heads, seqlen_k, head_dim).

    `scale` multiplies the scores; None means 1/sqrt(head_dim). Raises ParameterError.
    """

    batch: int = 1
    heads: int = 1
    kv_heads: int = 1
    seqlen_q: int = 8
    seqlen_k: int = 8
    head_dim: int = 4
    causal: bool = False
    scale: float | None = None
    inputs: str = "random"
    seed: int = 0

    def __post_init__(self) -> None:
        _whole("batch", self.batch, 1, 65_535, "The batch size")
        _whole("heads", self.heads, 1, 65_535, "The number of heads")
        _whole("kv_heads", self.kv_heads, 1, 65_535, "The number of key-value heads")
        _whole("seqlen_q", self.seqlen_q, 1, 2**24, "The number of queries")
        _whole("seqlen_k", self.seqlen_k, 0, 2**24, "The number of keys")
        _whole("head_dim", self.head_dim, 1, MAX_HEAD_DIM, "The head dimension")
        _whole("seed", self.seed, 0, 2**32 - 1, "The seed")
        if not isinstance(self.causal, bool):
            raise ParameterError("causal", f"causal should be true or false, not {self.causal!r}.")
        if self.heads % self.kv_heads:
            raise ParameterError(
                "kv_heads",
                f"Every key-value head serves the same number of query heads, so {self.heads} query heads"
                f" cannot share {self.kv_heads}: take a divisor of {self.heads}.",
            )
        if self.scale is not None and not _in_float32(self.scale):
            raise ParameterError(
                "scale",
                f"The scale should be a finite number that float32 holds (0, or 1e-45 to 3.4e38 in size), or left out, not {self.scale!r:.40}.",
            )
        queries = self.batch * self.heads * self.seqlen_q * self.head_dim
        keys = self.batch * self.kv_heads * self.seqlen_k * self.head_dim
        if max(queries, keys) > MAX_ELEMENTS:
            raise TooLarge(
                "seqlen_q" if queries > keys else "seqlen_k",
                f"An array of {max(queries, keys):,} elements is too large: keep each below {MAX_ELEMENTS:,}.",
            )

    @property
    def group(self) -> int:
        """How many query heads read one key-value head."""
        return self.heads // self.kv_heads

    @property
    def effective_scale(self) -> float:
        return self.scale if self.scale is not None else 1.0 / math.sqrt(self.head_dim)


@dataclass(frozen=True)
class Tiling:
    """How the work is cut: Br query rows, Bc keys a tile, and the number of splits. Raises ParameterError."""

    block_rows: int = 4
    block_cols: int = 4
    splits: int = 2

    def __post_init__(self) -> None:
        _whole("block_rows", self.block_rows, 1, MAX_BLOCK, "The rows of a query tile (Br)")
        _whole("block_cols", self.block_cols, 1, MAX_BLOCK, "The keys of a tile (Bc)")
        _whole("splits", self.splits, 1, MAX_SPLITS, "The number of splits")


PROBLEM_FIELDS = tuple(field.name for field in fields(Problem))
TILING_FIELDS = tuple(field.name for field in fields(Tiling))


def tiles(length: int, tile: int, field: str) -> int:
    """How many tiles cover `length`. Raises TooLarge (on `field`) beyond what a trace can number."""
    count = -(-length // tile)
    if count > MAX_TILES:
        raise TooLarge(field, f"{length:,} in tiles of {tile} are {count:,} tiles; at most {MAX_TILES:,} can be numbered.")
    return count
