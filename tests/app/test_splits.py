"""How real engines choose the number of splits: against figures worked out by hand, and against what PyTorch launched."""

from __future__ import annotations

import re
from itertools import product

import pytest

from flashstep.app import decode, splits

H200 = 132


def of(engine: str, *sizes: int) -> int:
    return next(choice.splits for choice in splits.choices(*sizes) if choice.engine == engine)


def test_flash_attention_2_is_what_pytorch_launched() -> None:
    """PyTorch's copy of the heuristic ran on the H200: the grid's second number is the count of splits."""
    rows = [row for row in decode.measured()["pytorch"] if row["path"] == "PyTorch FlashAttention-2"]
    assert len(rows) >= 9
    problem = decode.measured()["problem"]
    for row in rows:
        chosen = splits.flash_attention_2(1, problem["heads"], problem["kv_heads"], row["keys"], problem["head_dim"], H200)
        assert row["kernels"][0]["name"].endswith("flash_fwd_splitkv_kernel")
        assert row["kernels"][0]["grid"][1] == chosen.splits, row["keys"]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (128, 1),  # one block of 128 keys
        (512, 4),  # 4 blocks: 4 × 32 of 264 places is the fullest there is; 3 would give some split 2 blocks, as 2 does
        (1024, 8),  # 8 blocks: 8 fill 97 %; 7 and 6 and 5 are not eligible (2 blocks each, as with 4), and 4 fill 48 %
        (4096, 7),  # 32 blocks: 8 fill 97 %, and 7 with 85 % are within 85 % of that; 6 with 73 % are not
        (65_536, 7),
    ],
)
def test_flash_attention_2_by_hand(keys: int, wanted: int) -> None:
    assert of("FlashAttention-2", 1, 32, 32, keys, 128, H200) == wanted


def test_flash_attention_2_packs_the_heads_that_share_keys() -> None:
    """16 heads, 2 key-value heads on an A100's 108 SMs: 2 blocks over 216 places, 512 blocks of keys. 103 is the first
    eligible number (5 blocks each) with 95 %, and 86 before it has 80 %, under 0.85 × 95 %."""
    assert of("FlashAttention-2", 1, 16, 2, 65_536, 128, 108) == 103
    assert of("FlashAttention-2", 1, 16, 16, 65_536, 128, 108) == 12  # 16 × 12 of 216 places: 89 %; 16 × 27 are 2 whole waves


def test_flash_attention_2_does_not_split_a_full_grid() -> None:
    """264 places: 211.2 is 80 %. 212 blocks do not split, 208 do."""
    assert splits.fa2_heuristic(212, 264, 512, 128) == 1
    assert splits.fa2_heuristic(208, 264, 512, 128) > 1
    assert "does not split" in splits.flash_attention_2(64, 32, 32, 4096, 128, H200).why


def test_the_example_in_the_sources_own_comment() -> None:
    """«batch * n_heads = 48 and we have 108 SMs, having 2 splits (efficiency = 0.89) is better than having 3 (0.67)»."""
    assert float(splits._efficiency(48 * 2, 108)) == pytest.approx(0.89, abs=0.005)
    assert float(splits._efficiency(48 * 3, 108)) == pytest.approx(0.67, abs=0.005)
    assert splits.fa2_heuristic(48, 108, 64, 128) == 2
    assert splits.fa3_heuristic(48, 108, 64, 1, 0, False, 128) == 2


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (512, 1),  # 3 blocks of 176 keys: never split («we never split for hdim = 128 and seqlen_k = 512»)
        (704, 1),  # 4 blocks
        (705, 4),  # 5 blocks: 4 × 32 of 132 SMs is 97 %
        (65_536, 4),  # 33 would fill 8 waves wholly; 97 % is within 85 % of that
    ],
)
def test_flash_attention_3_by_hand(keys: int, wanted: int) -> None:
    assert of("FlashAttention-3", 1, 32, 32, keys, 128, H200) == wanted


def test_flash_attention_3_splits_a_full_grid_only_for_many_queries_over_large_heads() -> None:
    over = 50 * 1024 * 1024 + 1
    assert splits.fa3_heuristic(264, 132, 99, 264, over, False, 128) == 2
    assert splits.fa3_heuristic(264, 132, 99, 264, over, True, 128) == 1
    assert splits.fa3_heuristic(264, 132, 99, 263, over, False, 128) == 1
    assert splits.fa3_heuristic(264, 132, 99, 264, over - 1, False, 128) == 1


@pytest.mark.parametrize(("batch", "kv_heads", "wanted"), [(1, 32, 16), (4, 32, 16), (5, 32, 1), (16, 8, 16), (17, 8, 1)])
@pytest.mark.parametrize("keys", [16, 65_536])
def test_vllm_asks_for_batch_times_heads_and_nothing_else(batch: int, kv_heads: int, wanted: int, keys: int) -> None:
    for sms in (108, H200):
        assert of("vLLM (Triton)", batch, 32, kv_heads, keys, 128, sms) == wanted


def test_vllm_says_how_many_segments_hold_keys() -> None:
    """40 keys: tiles of 16, one tile a segment, so 3 of the 16 segments hold keys."""
    assert "3 of them hold keys here" in splits.vllm_triton(1, 32, 32, 40, 128, H200).why
    assert "hold keys" not in splits.vllm_triton(1, 32, 32, 65_536, 128, H200).why


def test_flashinfer_fills_the_resident_grid() -> None:
    """fp16, d 128, a head a key-value head: 32,768 bytes of K and V and 4,096 of pointers, and the 1,024 that each block
    costs: 6 on an SM's 233,472. 792 places for 32 heads are 24 chunks of 65,536 keys: 4,096 pages over 24 make 171."""
    assert splits.flashinfer_blocks_per_sm(1, 128) == 6
    choice = splits.flashinfer(1, 32, 32, 65_536, 128, H200)
    assert choice.splits == 24
    assert f"{171 * 16:,} keys" in choice.why
    assert splits.flashinfer(1, 32, 32, 65_536, 128, H200, blocks_per_sm=2).splits == 8  # 264 // 32
    assert splits.flashinfer(1, 32, 32, 512, 128, H200).splits == 4  # chunks of 128 keys, no fewer
    assert splits.flashinfer(1, 32, 32, 128, 128, H200).splits == 1
    assert splits.flashinfer(25, 32, 32, 65_536, 128, H200).splits == 1  # 800 blocks


def test_flashinfer_plans_other_groups_for_its_tensor_core_kernel() -> None:
    """16 heads a key-value head: 264 places over 4 key-value heads are 66 chunks, and 8,192 keys have only 64 of 128."""
    choice = splits.flashinfer(1, 64, 4, 8192, 128, H200)
    assert (choice.splits, "tensor-core" in choice.why) == (64, True)
    assert splits.flashinfer(1, 64, 4, 65_536, 128, H200).splits == 66  # 4,096 pages in chunks of 63
    assert "decode kernel" in splits.flashinfer(1, 64, 8, 8192, 128, H200).why


@pytest.mark.parametrize(
    ("keys", "batch", "wanted"),
    [
        (65_536, 1, 8),  # 132 × log2(1,024) = 1,320 over 32 blocks is 42, and the server allows 8
        (128, 1, 5),  # 132 × log2(2) = 132 over 32 is 5: chunks of 26
        (64, 1, 5),  # log2(1) = 0 counts as 1; chunks of 13
        (65_536, 8, 6),  # 1,320 over 256
        (65_536, 64, 1),
        (3, 1, 3),  # a key a split
    ],
)
def test_sglang_by_hand(keys: int, batch: int, wanted: int) -> None:
    assert of("SGLang (Triton)", batch, 32, 32, keys, 128, H200) == wanted


def test_sglang_counts_a_group_of_heads_as_one_block() -> None:
    """32 heads in groups of 4: 8 blocks a sequence. 132 × 3 = 396 over 16 sequences of them, 128 blocks, is 4."""
    assert of("SGLang (Triton)", 16, 32, 8, 512, 128, H200) == 4
    assert splits.sglang_triton(1, 32, 32, 65_536, 128, H200, max_kv_splits=64).splits == 42


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (32, 32), (32, 8), (71, 1)])
def test_every_choice_is_a_count_and_one_sentence(heads: int, kv_heads: int) -> None:
    for batch, keys, head_dim in product((1, 3, 64), (0, 1, 63, 4096, 131_072), (4, 64, 96, 128, 192, 256, 512)):
        chosen = splits.choices(batch, heads, kv_heads, keys, head_dim, H200)
        assert [choice.engine for choice in chosen] == list(splits.SOURCES)
        for choice in chosen:
            assert choice.splits >= 1
            assert re.fullmatch(r"[A-Z0-9][^.]*\.", choice.why), choice
            assert not re.search(r"\b1 (blocks|keys|SMs|splits|heads)\b", choice.why), choice
            assert choice.source == splits.SOURCES[choice.engine]


def test_no_engine_switches_at_a_fixed_number_of_keys() -> None:
    """Whether 512 or 1,024 keys are split depends on the rest: each engine that splits them for one sequence leaves them
    whole in a batch of 64."""
    for keys in (512, 1024):
        one = {choice.engine: choice.splits for choice in splits.choices(1, 32, 32, keys, 128, H200)}
        many = {choice.engine: choice.splits for choice in splits.choices(64, 32, 32, keys, 128, H200)}
        assert max(one.values()) > 1
        assert set(many.values()) == {1}


def test_every_source_names_repository_file_and_commit() -> None:
    for source in splits.SOURCES.values():
        assert re.match(r"[\w-]+/[\w-]+ [\w/]+\.(cpp|h|py|cuh)", source)
        assert re.search(r"\b[0-9a-f]{40}\b", source)


@pytest.mark.parametrize("sizes", [(0, 1, 1, 8, 4, 132), (1, 3, 2, 8, 4, 132), (1, 1, 1, -1, 4, 132), (1, 1, 1, 8, 4, 0)])
def test_impossible_sizes_are_refused_in_a_sentence(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"^[A-Z0-9].*\.$"):
        splits.choices(*sizes)
