"""Recorded runs that several tests step through: every kernel at textbook, ragged and masked sizes, and odd ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import flashstep as fs

KERNELS = ("standard", "online-softmax", "flash-attention-1", "flash-attention-2", "flash-decoding")

RAGGED: dict[str, Any] = {
    "batch": 2, "heads": 2, "kv_heads": 1, "seqlen_q": 3, "seqlen_k": 5, "head_dim": 3, "block_rows": 2,
    "block_cols": 3, "seed": 3,
}  # fmt: skip
MASKED: dict[str, Any] = {"heads": 2, "kv_heads": 2, "seqlen_q": 7, "seqlen_k": 5, "head_dim": 3, "block_rows": 3,
                          "block_cols": 2, "causal": True, "seed": 5}  # fmt: skip
KEY_MASK = np.array([False, False, True, False, True])  # the first tile is wholly hidden, the second partly


def _parameters(kernel: str) -> dict[str, dict[str, Any]]:
    """The parameters of this kernel's runs, by size."""
    decoding, softmax = kernel == "flash-decoding", kernel == "online-softmax"
    rows = {"seqlen_q": 1} if decoding else {}
    split = {"splits": 3} if decoding else {}
    drop = {"kv_heads", "head_dim"} if softmax else set()
    ragged = {key: value for key, value in (RAGGED | rows | split).items() if key not in drop}
    found: dict[str, dict[str, Any]] = {"textbook": {}, "ragged": ragged}
    if not softmax:
        found["masked"] = MASKED | rows | split | {"key_mask": KEY_MASK}
        found["hidden"] = {"inputs": "fully-masked-row"} if not decoding else {"key_mask": np.zeros(8, bool)}
    return found


SIZES = [(kernel, size) for kernel in KERNELS for size in _parameters(kernel)]
NAMES = [f"{kernel} {size}" for kernel, size in SIZES]


@cache
def run(name: str) -> fs.Run:
    """The run of a name in NAMES."""
    kernel, size = name.split(" ")
    return fs.record(kernel, **_parameters(kernel)[size])
