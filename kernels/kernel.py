"""What a kernel is to the rest of the house: a name, words, a twin, and an estimate of what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..trace.layout import KEY_MASK
from ..trace.recorder import Array, Machine
from .presets import PRESETS, SIZES
from .problem import ParameterError, Problem, Tiling

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Inputs:
    """The arrays of one run. Attention kernels take q, k, v and a key mask (batch, seqlen_k), True = visible;
    a kernel on one matrix takes x, (batch, heads, rows, cols)."""

    q: Floats | None = None
    k: Floats | None = None
    v: Floats | None = None
    x: Floats | None = None
    key_mask: Mask | None = None

    def given(self) -> dict[str, NDArray[Any]]:
        """Those there are, by name, in the order above."""
        return {name: array for name, array in vars(self).items() if array is not None}


@dataclass(frozen=True)
class LaunchSize:
    """What one launch will leave behind. `kept` counts the numbers of all its blocks' snapshots, `kept_most`
    those of its largest block, `stored` the numbers it writes to HBM; `made` those of the arrays that come to be
    through it, `flops` its operations. Never too small."""

    blocks: int
    steps: int
    events: int
    kept: int
    kept_most: int
    stored: int
    made: int
    flops: int


Twin = Callable[[Machine, Problem, Tiling, Inputs], dict[str, Floats]]
Sizes = Callable[[Problem, Tiling, bool], Sequence[LaunchSize]]

ATTENTION = ("batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim", "causal", "scale", "inputs", "seed")


@dataclass(frozen=True)
class Kernel:
    """One kernel of the course. A folder under `kernels/` makes one in its `__init__.py`, and that is all it takes.

    `twin` runs on the recorder's machine; `sizes(problem, tiling, has_key_mask)` foretells each launch.
    `standing(problem, has_key_mask)` counts the numbers that stand in HBM before the first step. `source` is twin.py.
    """

    name: str
    title: str
    idea: str
    order: int
    twin: Twin
    sizes: Sizes
    source: Path
    standing: Callable[[Problem, bool], int]
    parameters: tuple[str, ...] = (*ATTENTION, "block_rows", "block_cols")
    presets: tuple[str, ...] = tuple(PRESETS)
    overrides: dict[str, Any] = field(default_factory=dict)
    matrix: bool = False  # takes one matrix x instead of q, k, v
    one_query: bool = False  # serves one new query at a time
    outputs: tuple[str, ...] = ("O", "lse")

    def defaults(self, preset: str = "random") -> dict[str, Any]:
        """Every parameter this kernel has a use for, with its default under a named input. Raises ParameterError."""
        choices = f"choose one of {', '.join(self.presets)}."
        if not isinstance(preset, str) or preset not in PRESETS:
            raise ParameterError("inputs", f"There are no inputs {preset!r}: {choices}")
        if preset not in self.presets:
            raise ParameterError("inputs", f"The inputs {preset!r} do not suit {self.name}: {choices}")
        plain = {**vars(Problem()), **vars(Tiling())}
        chosen = {**plain, "inputs": preset, **SIZES.get(preset, {}), **self.overrides}
        if preset == "hand":
            chosen["block_cols"] = 2
        if preset == "fully-masked-row" and (self.one_query or self.matrix):
            chosen |= {"seqlen_k": 8, "causal": False}  # a causal mask leaves a single query every key
        return {name: value for name, value in chosen.items() if name in self.parameters}

    @property
    def cuda_source(self) -> Path:
        """The kernel.cu beside the twin."""
        return self.source.with_name("kernel.cu")


def attention_inputs(problem: Problem, key_mask: bool) -> int:
    """The numbers of Q, K, V and the key mask."""
    p = problem
    queries = p.batch * p.heads * p.seqlen_q * p.head_dim
    keys = p.batch * p.kv_heads * p.seqlen_k * p.head_dim
    return queries + 2 * keys + (p.batch * p.seqlen_k if key_mask else 0)


def key_mask_array(machine: Machine, mask: Mask | None, keys: Sequence[int]) -> Array | None:
    """The key mask (batch, seqlen_k) as an array in HBM, one byte a key, cut as K is; None where there is none."""
    if mask is None:
        return None
    data = mask[:, None].astype(np.float32)
    return machine.array(KEY_MASK, data, role="input", row_edges=keys, dtype="bool")
