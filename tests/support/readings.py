"""The lessons read at sizes that have bitten before, each once: what the tests of their texts share."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import flashstep as fs
from flashstep.app.lessons import LESSONS, Reading, read
from flashstep.kernels.record import Run
from flashstep.kernels.registry import KERNELS, get

Sizes = dict[str, Any]


def sizes_of(name: str) -> list[Sizes]:
    """Sizes that have bitten before: none, one, one tile, ragged, masked, several heads, nothing visible."""
    kernel = KERNELS[name]
    rows: Sizes = {} if kernel.one_query else {"seqlen_q": 7}
    found: list[Sizes] = [
        {},
        {"seqlen_k": 0},
        {**({} if kernel.one_query else {"seqlen_q": 1}), "seqlen_k": 1},
        {"block_rows": 8, "block_cols": 8},
        {**rows, "seqlen_k": 10, "block_cols": 3},
        {"heads": 2, "batch": 2},
        *({"inputs": preset} for preset in kernel.presets if preset != "random"),
    ]
    if not kernel.matrix:
        found += [{"causal": True}, {"heads": 4, "kv_heads": 2}, {"scale": 0.0}]
        if not kernel.one_query:
            found += [{"causal": True, "seqlen_q": 9, "seqlen_k": 5}]
    if "splits" in kernel.parameters:
        found += [{"splits": 1}, {"splits": 8, "seqlen_k": 5}]
    return [{key: value for key, value in sizes.items() if key in kernel.parameters} for sizes in found]


CASES = [pytest.param(name, sizes, id=f"{name} {sizes}") for name in LESSONS for sizes in sizes_of(name)]


def recorded(name: str, sizes: Sizes) -> Run:
    defaults = get(name).defaults(sizes.get("inputs", "random"))
    return fs.record(name, values="all", **{**defaults, **sizes})


def reading(name: str, sizes: Sizes) -> tuple[Run, Reading]:
    return read_once(name, tuple(sizes.items()))


@cache
def read_once(name: str, pairs: tuple[tuple[str, Any], ...]) -> tuple[Run, Reading]:
    sizes = dict(pairs)
    run = recorded(name, sizes)
    return run, read(LESSONS[name], run, "&".join(f"{key}={value}" for key, value in sizes.items()))
