"""How real engines choose the number of splits for one decoded token, computed as their sources compute it.

Each function takes the sizes of a decode (batch, heads, kv_heads, seqlen_k, head_dim: one query a sequence, all
sequences of the same length, fp16) and the number of the GPU's SMs, and returns a `Choice`: the number of splits and one
sentence that says why. `splits` of 1 means that no key range is divided and no combine runs. Pure; nothing is launched.

What was read, in November 2026, is in `SOURCES`: repository, file, commit. Later versions may choose otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .tables import plural

SOURCES = {
    "FlashAttention-2": (
        "Dao-AILab/flash-attention csrc/flash_attn/flash_api.cpp (num_splits_heuristic, set_params_splitkv,"
        " mha_fwd) at 00979f57acf503b0b080ff08ada0007080074649"
    ),
    "FlashAttention-3": (
        "Dao-AILab/flash-attention hopper/heuristics.h at 13d0fd9cc276cb666afc88373e2d81449acdc749,"
        " hopper/flash_api.cpp (get_num_splits) at 0e79d71175346c7151f49ab6287084a052bc9613, hopper/tile_size.h"
        " at 07602adc2baa7a3ea037321ef2ca71c83096e5d5"
    ),
    "vLLM (Triton)": (
        "vllm-project/vllm vllm/v1/attention/backends/triton_attn.py at 63013883d93ca538eab430b4f5242916b878f618,"
        " vllm/v1/attention/ops/triton_unified_attention.py at 3f392a390bf134f62e29ec338553a10ff672338d"
    ),
    "FlashInfer": (
        "flashinfer-ai/flashinfer include/flashinfer/attention/scheduler.cuh at"
        " 00b1eec47586694311afa35194c93a5ffac9c482, include/flashinfer/utils.cuh at"
        " 00026e01a60afbfb054ab48b613b346d3b0609de"
    ),
    "SGLang (Triton)": (
        "sgl-project/sglang python/sglang/srt/layers/attention/triton_ops/metadata.py (get_num_kv_splits_triton) at"
        " bdd1bcdf4715964dddaa81acc590bd3b74a45acc, triton_backend.py at 00858422264b0552a4c0a21a9949c3986d0dec97"
    ),
}


@dataclass(frozen=True)
class Choice:
    """What an engine would do: its name, the number of splits, and why in one sentence."""

    engine: str
    splits: int
    why: str

    @property
    def source(self) -> str:
        return SOURCES[self.engine]


def choices(batch: int, heads: int, kv_heads: int, seqlen_k: int, head_dim: int, sms: int) -> list[Choice]:
    """What each engine would choose. Raises ValueError where the sizes cannot be."""
    _check(batch, heads, kv_heads, seqlen_k, head_dim, sms)
    engines: tuple[Callable[..., Choice], ...] = (flash_attention_2, flash_attention_3, vllm_triton, flashinfer, sglang_triton)
    return [engine(batch, heads, kv_heads, seqlen_k, head_dim, sms) for engine in engines]


def _check(batch: int, heads: int, kv_heads: int, seqlen_k: int, head_dim: int, sms: int) -> None:
    if min(batch, heads, kv_heads, head_dim, sms) < 1 or seqlen_k < 0:
        raise ValueError("Batch, heads, head dim and SMs should each be 1 or more, and the number of keys not negative.")
    if heads % kv_heads:
        raise ValueError(f"{heads} heads cannot share {kv_heads} key-value heads evenly: use a divisor of {heads}.")


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


# FlashAttention


def _efficiency(blocks: int, slots: int) -> np.float32:
    """The share of the last wave and those before it that is filled, in float32 as the source has it."""
    waves = np.float32(blocks) / np.float32(slots)
    return np.float32(waves / np.ceil(waves))


def fa2_heuristic(blocks: int, slots: int, key_blocks: int, max_splits: int) -> int:
    """FlashAttention-2's num_splits_heuristic(batch_nheads_mblocks, num_SMs, num_n_blocks, max_splits).

    The smallest eligible number of splits whose wave efficiency is within 85 % of the best one's; a number is eligible
    if it changes how many blocks of keys a split has.
    """
    if np.float32(blocks) >= np.float32(0.8) * np.float32(slots):
        return 1
    most = min(max_splits, slots, key_blocks)
    eligible = [n for n in range(1, most + 1) if n == 1 or _ceil(key_blocks, n) != _ceil(key_blocks, n - 1)]
    efficiency = {n: _efficiency(blocks * n, slots) for n in eligible}
    best = max(efficiency.values(), default=np.float32(0))
    return next((n for n in eligible if float(efficiency[n]) >= 0.85 * float(best)), 1)


def flash_attention_2(batch: int, heads: int, kv_heads: int, seqlen_k: int, head_dim: int, sms: int) -> Choice:
    """FlashAttention-2, and PyTorch's copy of it: waves over twice the SMs, blocks of 256, 128 or 64 keys by head dim.

    With fewer key-value heads than heads, the heads that share one become rows of a block of 64 (seqlenq_ngroups_swapped).
    """
    rows, across = (heads // kv_heads, kv_heads) if heads > kv_heads and head_dim % 8 == 0 else (1, heads)
    blocks = batch * across * _ceil(rows, 64)
    keys = 256 if head_dim <= 64 else 128 if head_dim <= 128 else 64
    slots, key_blocks = 2 * sms, _ceil(seqlen_k, keys)
    splits = fa2_heuristic(blocks, slots, key_blocks, 128)
    places = f"{slots:,} places (2 for each of {plural(sms, 'SM')})"
    if np.float32(blocks) >= np.float32(0.8) * np.float32(slots):
        why = f"{plural(blocks, 'block')} {_fill(blocks)} at least 80 % of {places}, so it does not split."
    elif key_blocks <= 1:
        why = f"{plural(seqlen_k, 'key')} are no more than one block of {keys}, which is not divided."
    else:
        share = float(_efficiency(blocks * splits, slots))
        why = (
            f"{splits} is the smallest count that fills the waves of {places} to within 85 % of the best: {blocks}"
            f" × {splits} blocks fill {100 * share:.0f} %."
        )
        if splits == key_blocks:
            why = f"{why[:-1]}, and there are no more blocks of {keys} keys to divide."
    return Choice("FlashAttention-2", splits, why)


def fa3_heuristic(
    blocks: int, sms: int, key_blocks: int, query_blocks: int, head_bytes: int, causal: bool, max_splits: int
) -> int:
    """FlashAttention-3's num_splits_heuristic: as FlashAttention-2's without eligibility, and never for 4 key blocks or fewer.

    `head_bytes` is the size of one head's K and V: past 50 MiB (the L2 assumed) a full grid splits after all, if there
    are queries enough to go over the keys twice, which one query never has.
    """
    if np.float32(blocks) >= np.float32(0.8) * np.float32(sms):
        l2 = 50 * 1024 * 1024
        if head_bytes > l2 and query_blocks >= sms * 2 and not causal:
            return min(_ceil(head_bytes, l2), max_splits)
        return 1
    if key_blocks <= 4:
        return 1
    most = min(max_splits, sms, key_blocks)
    efficiency = [_efficiency(blocks * n, sms) for n in range(1, most + 1)]
    best = float(max(efficiency))
    return next(n for n, one in enumerate(efficiency, 1) if float(one) >= 0.85 * best)


# tile_size_fwd_sm90 for 2-byte elements, not causal, not local, not paged: head dim -> (rows, keys) of a block.
_FA3_TILES = ((64, 192, 192), (96, 192, 144), (128, 128, 176), (192, 128, 112), (256, 128, 80))


def flash_attention_3(batch: int, heads: int, kv_heads: int, seqlen_k: int, head_dim: int, sms: int) -> Choice:
    """FlashAttention-3 (Hopper): waves over the SMs; the heads that share a key-value head are packed into one block's rows."""
    _, rows, keys = next((tile for tile in _FA3_TILES if head_dim <= tile[0]), _FA3_TILES[-1])
    query_blocks, key_blocks = _ceil(heads // kv_heads, rows), _ceil(seqlen_k, keys)
    blocks = batch * kv_heads * query_blocks
    splits = fa3_heuristic(blocks, sms, key_blocks, query_blocks, seqlen_k * 2 * head_dim * 2, False, 128)
    if np.float32(blocks) >= np.float32(0.8) * np.float32(sms):
        why = f"{plural(blocks, 'block')} {_fill(blocks)} at least 80 % of {plural(sms, 'SM')}, so it does not split."
    elif key_blocks <= 4:
        why = f"{plural(seqlen_k, 'key')} are {plural(key_blocks, 'block')} of {keys}, and 4 or fewer are never split."
    else:
        why = (
            f"{splits} is the smallest count that fills the waves of {plural(sms, 'SM')} to within 85 % of the best:"
            f" {blocks} × {splits} blocks fill {100 * float(_efficiency(blocks * splits, sms)):.0f} %."
        )
    return Choice("FlashAttention-3", splits, why)


# vLLM


def vllm_triton(batch: int, heads: int, kv_heads: int, seqlen_k: int, head_dim: int, sms: int) -> Choice:
    """vLLM's Triton backend: 16 segments while the batch is at most 128 // kv_heads, whatever the length and the GPU.

    With CUDA graphs the bound moves to the captured batch size nearest to it, which depends on the server's settings.
    Tiles are of 16 keys; segments past the last key return at once.
    """
    threshold, segments, tile = 128 // kv_heads, 16, 16
    if batch > threshold:
        why = f"A batch of {batch} is above 128 ÷ {plural(kv_heads, 'key-value head')} = {threshold}: its grid is large enough."
        return Choice("vLLM (Triton)", 1, why)
    each = _ceil(seqlen_k, segments * tile) * tile
    filled = _ceil(seqlen_k, each) if each else 0
    why = (
        f"A batch of {batch} is at most 128 ÷ {plural(kv_heads, 'key-value head')} = {threshold}, so there are"
        f" {segments} segments, whatever the length and the GPU"
        + (f"; {filled} of them {'holds' if filled == 1 else 'hold'} keys here." if filled < segments else ".")
    )
    return Choice("vLLM (Triton)", segments, why)


# FlashInfer

_FLASHINFER_GROUPS = (1, 2, 3, 4, 8)  # heads a key-value head that its decode kernel is built for
_FLASHINFER_DIMS = (64, 128, 256, 512)


def flashinfer_blocks_per_sm(group: int, head_dim: int, shared_per_sm: int = 228 * 1024) -> int:
    """Blocks of FlashInfer's fp16 decode kernel that one SM's shared memory and 2,048 threads allow.

    The engine asks the driver, which also counts registers: those depend on the compiled kernel and can make it fewer.
    `shared_per_sm` is an H100's or H200's, in bytes; each block costs 1 KiB more than it asks for.
    """
    vector = max(8, head_dim // 32)
    bdx = head_dim // vector
    threads = max(128, bdx * group)
    bdz = threads // (bdx * group)
    tile = 4 if group == 1 else 1
    shared = 2 * 2 * tile * group * bdz * head_dim * 2 + max(tile * threads * 8, 2 * group * bdz * 4)
    return max(1, min(shared_per_sm // (shared + 1024), 2048 // threads, 32))


def _smallest_chunk(least: int, most: int, fits: Callable[[int], bool]) -> int:
    """The source's binary search: the smallest chunk from `least` to `most` that fits; `most` where none does."""
    low, high = least, most
    while low < high:
        mid = (low + high) // 2
        low, high = (low, mid) if fits(mid) else (mid + 1, high)
    return low


def flashinfer(
    batch: int, heads: int, kv_heads: int, seqlen_k: int, head_dim: int, sms: int, page_size: int = 16,
    blocks_per_sm: int | None = None,
) -> Choice:  # fmt: skip
    """FlashInfer's batch decode: the smallest chunk of 128 keys or more with which all blocks are resident at once.

    Its decode kernel is built for 1, 2, 3, 4 and 8 heads a key-value head and head dims 64, 128, 256 and 512 (others are
    taken as the next larger); any other group runs its tensor-core kernel, planned for 2 blocks an SM. `blocks_per_sm`
    overrides what `flashinfer_blocks_per_sm` finds. Without CUDA graphs.
    """
    group, pages = heads // kv_heads, _ceil(seqlen_k, page_size)
    least = max(128 // page_size, 1)
    if group in _FLASHINFER_GROUPS:
        built = next((size for size in _FLASHINFER_DIMS if head_dim <= size), _FLASHINFER_DIMS[-1])
        places = (blocks_per_sm or flashinfer_blocks_per_sm(group, built)) * sms
        if batch * kv_heads >= places:
            blocks = batch * kv_heads
            resident = f"the {places:,} places that are resident at once"
            why = f"{plural(blocks, 'block')} {_fill(blocks)} {resident}, so it does not split."
            return Choice("FlashInfer", 1, why)
        chunk = _smallest_chunk(least, pages, lambda size: batch * _ceil(pages, size) * kv_heads <= places)
        kernel = "decode"
    else:
        places, rows = 2 * sms, 16 if group <= 16 else 64 if group <= 64 or head_dim >= 256 else 128
        tiles, most = _ceil(group, rows), 2 * sms // kv_heads
        chunk = _smallest_chunk(least, pages, lambda size: batch * tiles * _ceil(max(pages, 1), size) <= most)
        kernel = "tensor-core"
    splits = _ceil(max(pages, 1), chunk)
    if splits == 1:
        keys = plural(seqlen_k, "key")
        why = f"{keys} fit the chunk of {chunk * page_size:,} that is the smallest for its {kernel} kernel here."
    else:
        why = (
            f"{chunk * page_size:,} keys is the smallest chunk, of 128 or more, with which all blocks of its"
            f" {kernel} kernel are among the {places:,} resident at once."
        )
    return Choice("FlashInfer", splits, why)


# SGLang


def sglang_triton(
    batch: int, heads: int, kv_heads: int, seqlen_k: int, head_dim: int, sms: int, max_kv_splits: int = 8
) -> Choice:
    """SGLang's Triton backend, for sequences of one length: SMs times log2(length / 64) over the blocks of one split.

    `max_kv_splits` is the server's triton_attention_num_kv_splits, 8 unless it is set.
    """
    if seqlen_k == 0:
        return Choice("SGLang (Triton)", 1, "There are no keys to split.")
    grown = np.maximum(np.log2(np.float32(seqlen_k) / np.float32(64)), np.float32(1))
    cores = int(np.float32(sms) * grown)
    group = heads // kv_heads
    blocks = batch * (heads if group == 1 else _ceil(heads, min(16, group)))
    wanted = _ceil(cores, blocks)
    splits = _ceil(seqlen_k, _ceil(seqlen_k, min(wanted, max_kv_splits)))
    why = (
        f"{plural(sms, 'SM')} count as {cores:,} at this length (times log2 of {seqlen_k:,} / 64, at least 1); over"
        f" {plural(blocks, 'block')} a split that is {wanted:,}"
        + (f", and the server allows {max_kv_splits}." if wanted > max_kv_splits else f", which makes {plural(splits, 'split')}.")
    )
    return Choice("SGLang (Triton)", splits, why)


def _fill(count: int) -> str:
    return "fills" if count == 1 else "fill"
