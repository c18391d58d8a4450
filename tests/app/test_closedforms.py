"""The closed forms that no ledger states by itself: when FlashAttention saves, and what a block takes of shared memory."""

from __future__ import annotations

from typing import Any

import pytest

import flashstep as fs
from flashstep.app.closedforms import ideal, least, saves_from, terms, tile_bytes, total
from flashstep.kernels.problem import Problem, Tiling

HEAD_DIMS = pytest.mark.parametrize("head_dim", [1, 4, 6, 7, 64, 80, 128])


def asked(kernel: str, keys: int, head_dim: int, **tiling: int) -> int:
    """What a kernel asks for beyond the ideal, with as many queries as keys; negative where it saves."""
    problem = Problem(seqlen_q=keys, seqlen_k=keys, head_dim=head_dim)
    return total(terms(kernel, problem, Tiling(**tiling))) - ideal(problem)


@HEAD_DIMS
@pytest.mark.parametrize(
    ("kernel", "side", "other"),
    [("flash-attention-1", "block_cols", "block_rows"), ("flash-attention-2", "block_rows", "block_cols")],
)
def test_flash_attention_saves_from_that_tile_on(kernel: str, side: str, other: str, head_dim: int) -> None:
    least = saves_from(kernel, head_dim)
    for across in (1, 16):
        for tile in (least, least + 1, 2 * least):
            assert asked(kernel, 1_000 * tile, head_dim, **{side: tile, other: across}) <= 0
        if least > 1:
            assert asked(kernel, 1_000 * (least - 1), head_dim, **{side: least - 1, other: across}) > 0


def test_other_kernels_have_no_such_tile() -> None:
    with pytest.raises(KeyError):
        saves_from("standard", 64)


@pytest.mark.parametrize("kernel", ["flash-attention-1", "flash-attention-2"])
@pytest.mark.parametrize("inputs", ["random", "first-tile-masked"])
def test_a_block_takes_the_bytes_of_its_tiles(kernel: str, inputs: str) -> None:
    for rows, cols, head_dim in ((4, 4, 4), (3, 5, 7), (8, 2, 16)):
        run = fs.record(kernel, inputs=inputs, block_rows=rows, block_cols=cols, head_dim=head_dim)
        masked = any(array.name == "key_mask" for array in run.trace.meta.arrays)
        assert masked == (inputs == "first-tile-masked")
        assert run.trace.meta.launches[0].shared_bytes == tile_bytes(rows, cols, head_dim, masked)


SHARED: list[dict[str, Any]] = [
    {}, {"heads": 4, "kv_heads": 2, "batch": 3}, {"seqlen_q": 7, "seqlen_k": 10, "heads": 2, "kv_heads": 1}
]  # fmt: skip


@pytest.mark.parametrize("sizes", SHARED, ids=str)
def test_the_least_is_every_array_once(sizes: dict[str, Any]) -> None:
    run = fs.record("flash-attention-2", **sizes)
    arrays = {info.name: info.planes * info.rows * info.cols for info in run.trace.meta.arrays}
    assert least(run.problem) == sum(arrays[name] for name in ("Q", "K", "V", "O"))
    for kernel in ("standard", "flash-attention-1", "flash-attention-2"):
        moved = fs.record(kernel, **sizes).trace.ledger()
        assert sum(entry[way]["elements"] for entry in moved.values() for way in ("loads", "stores")) >= least(run.problem)
