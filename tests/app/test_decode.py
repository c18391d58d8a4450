"""What decoding was measured to cost: the packaged copy, the closed forms, the claims, and the benchmark's own parts."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import decode as benchmark
import decode_lesson
import decode_timing
import numpy as np
import pytest

import flashstep as fs
from flashstep.app import decode
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS

ROOT = Path(__file__).resolve().parents[2]
NEWEST = max((ROOT / "benchmarks" / "results").glob("decode-*.json"))
LENGTHS = [512 << n for n in range(9)]


@pytest.fixture(scope="module")
def results() -> decode.Results:
    found: decode.Results = json.loads(NEWEST.read_text("utf-8"))
    return found


@pytest.fixture
def changed(results: decode.Results) -> decode.Results:
    """The results, to be made others."""
    return copy.deepcopy(results)


# The results and their copy


def test_the_packaged_figures_are_those_of_the_newest_results(results: decode.Results) -> None:
    wanted = decode.taken(results, f"benchmarks/results/{NEWEST.name}")
    assert decode.measured() == wanted, "run python -m flashstep.app.decode on the newest results"


def test_the_kernels_measured_are_those_of_today(results: decode.Results) -> None:
    for kernel in ("flash-decoding", "standard"):
        assert results["source"][kernel] == Source.read(KERNELS[kernel].cuda_source).hash, "measure anew"


def test_every_length_has_every_case(results: decode.Results) -> None:
    splits = sorted({row["splits"] for row in results["lesson"]})
    assert splits[0] == 1
    assert {4, 8, 16, 32, 64, 128} <= set(splits)
    assert [(row["keys"], row["splits"]) for row in results["lesson"]] == [(keys, n) for keys in LENGTHS for n in splits]
    assert [row["keys"] for row in results["standard"]] == LENGTHS == decode.lengths(results)
    labels = {decode.torch_label(row) for row in results["pytorch"]}
    assert len(results["pytorch"]) == len(labels) * len(LENGTHS)
    assert {"PyTorch FlashAttention-2 (fp16)", "PyTorch cuDNN (bf16)", "PyTorch math (unfused) (fp32)"} <= labels
    for name in ("driver", "cuda", "cupy", "pytorch", "date"):
        assert results["device"][name]


def test_every_output_was_right(results: decode.Results) -> None:
    """Against float64. A NaN, an output never written, compares false."""
    allowed = {"float32": 2e-5, "float16": 1e-3, "bfloat16": 5e-3}
    for row in (*results["lesson"], *results["standard"], *results["pytorch"]):
        assert row["relative_error"] < allowed[row.get("dtype", "float32")], row
        assert row["max_error"] < 0.01


def test_blocks_and_sms_are_what_a_grid_allows(results: decode.Results) -> None:
    sms, heads = results["device"]["sms"], results["problem"]["heads"]
    for row in results["lesson"]:
        launch = row["launches"]["split"]
        assert launch["blocks"] == heads * row["splits"]
        assert launch["sms"] == min(launch["blocks"], sms)
        assert 0 < launch["busy"] <= launch["sms"] / sms
        assert [kernel["name"] for kernel in row["kernels"]] == ["split", "combine"]
        assert row["kernels"][0]["grid"] == [row["splits"], heads, 1]


def test_timings_agree_with_each_other(results: decode.Results) -> None:
    """Graph against CUPTI, and the whole against its parts: two ways of measuring that share nothing but the clock."""
    for row in results["lesson"]:
        own = sum(kernel["us"] for kernel in row["kernels"])
        assert row["us"] == pytest.approx(own, rel=0.1, abs=3), row
        assert row["split_us"] < row["us"] * 1.02
    for keys in decode.lengths(results):
        assert decode.read_floor(results, keys) < decode.best(results, keys)["us"]


def test_the_readmes_tell_the_figures_measured(results: decode.Results) -> None:
    """The tables of benchmarks/results/README.md and README.md, rounded as there."""
    curves, told = decode.curves(results), (ROOT / "benchmarks" / "results" / "README.md").read_text("utf-8")
    columns = (
        "lesson kernels, standard (fp32)",
        "PyTorch math (unfused) (fp32)",
        "PyTorch FlashAttention-2 (fp16)",
        "PyTorch cuDNN (fp16)",
    )
    for keys in decode.lengths(results):
        best = decode.best(results, keys)
        assert best["splits"] == 24
        times = [decode.unsplit(results, keys)["us"], best["us"], *(curves[label][keys] for label in columns)]
        cells = [f"{time:,.0f}" if time >= 100 else f"{time:.1f}" for time in times]
        combine = f"{decode.own_time(best, 'combine'):.1f} ({100 * decode.combine_share(best):.1f} %)"
        assert "| " + " | ".join([f"{keys:,}", *cells[:2], combine, *cells[2:]]) + " |" in told
    for claim in results["claims"]:
        assert f"| {claim['claim'].rstrip('.')} | {claim['verdict']} |" in told
    for row in decode.table(results):
        assert f"| {row['bytes']:,} bytes | {row['us'] / 1000:.2f} ms |" in told
    unsplit, split = decode.unsplit(results, 65_536)["us"], decode.best(results, 65_536)["us"]
    assert f"{unsplit / 1000:.1f} ms; {split / 1000:.2f} ms" in (ROOT / "README.md").read_text("utf-8")


# Closed forms and derived figures


@pytest.mark.parametrize(("heads", "keys", "head_dim", "splits", "batch"), [(2, 9, 4, 3, 1), (3, 8, 2, 1, 2)])
def test_intermediate_bytes_are_the_ledgers(heads: int, keys: int, head_dim: int, splits: int, batch: int) -> None:
    sizes: dict[str, Any] = {"batch": batch, "heads": heads, "kv_heads": heads, "seqlen_q": 1, "seqlen_k": keys}
    sizes["head_dim"] = head_dim
    ledger = fs.record("standard", **sizes, block_rows=1).trace.ledger()
    stored = sum(ledger[name]["stores"]["bytes"] for name in ("S", "P"))
    assert decode.intermediate_bytes("standard", heads, keys, head_dim, batch=batch) == stored
    ledger = fs.record("flash-decoding", **sizes, splits=splits).trace.ledger()
    stored = sum(ledger[f"{name}_partial"]["stores"]["bytes"] for name in ("O", "m", "l"))
    assert decode.intermediate_bytes("flash-decoding", heads, keys, head_dim, splits, batch) == stored


def test_the_table_is_of_the_rows(results: decode.Results) -> None:
    standard, unsplit, split = decode.table(results)
    assert standard["bytes"] == 2 * 32 * 65_536 * 4
    assert unsplit["bytes"] == 32 * 130 * 4
    assert split["bytes"] == split["splits"] * unsplit["bytes"]
    assert unsplit["us"] == decode.unsplit(results, 65_536)["us"]
    assert list(standard["launches"]) == ["scores", "softmax", "values"]
    assert decode.table(results, 512)[0]["us"] < standard["us"]


def test_the_best_count_is_the_least_within_a_percent(changed: decode.Results) -> None:
    rows = {row["splits"]: row for row in changed["lesson"] if row["keys"] == 512}
    for row in rows.values():
        row["us"] = 100.0
    rows[64]["us"], rows[16]["us"], rows[8]["us"] = 50.0, 50.4, 50.6
    assert decode.best(changed, 512)["splits"] == 16
    rows[1]["us"] = 1.0  # the unsplit kernel is no count of splits
    assert decode.best(changed, 512)["splits"] == 16


def test_curves_have_every_length(results: decode.Results) -> None:
    for label, curve in decode.curves(results).items():
        assert list(curve) == LENGTHS, label
        assert all(time > 0 for time in curve.values())
    assert decode.read_floor(results, 65_536) == pytest.approx(2**31 / results["ceilings"]["read_tb_s"] / 1e6)


# Claims


def verdicts(results: decode.Results) -> list[str]:
    return [claim["verdict"] for claim in decode.claims(results)]


def test_the_claims_in_the_file_are_those_the_rows_bear_out(results: decode.Results) -> None:
    assert results["claims"] == decode.claims(results), "run python benchmarks/decode.py FILE --judge"
    assert len(results["claims"]) == 5


def test_a_speed_up_of_eight_or_less_makes_the_first_claim_hold(changed: decode.Results) -> None:
    assert verdicts(changed)[0] == "does not hold"
    decode.unsplit(changed, 65_536)["us"] = 7.5 * decode.best(changed, 65_536)["us"]
    claim = decode.claims(changed)[0]
    assert claim["verdict"] == "holds"
    assert ": 7.5 times as fast" in claim["measured"]


def test_a_short_combine_makes_the_second_claim_hold(changed: decode.Results) -> None:
    assert verdicts(changed)[1] == "half true"
    for row in changed["lesson"]:
        row["kernels"][1]["us"] = 0.1
    assert verdicts(changed)[1] == "holds"
    for row in changed["lesson"]:
        row["kernels"][1]["us"] = row["kernels"][0]["us"]
    assert verdicts(changed)[1] == "does not hold"


def test_a_share_under_a_percent_must_last(changed: decode.Results) -> None:
    row = decode.best(changed, 131_072)
    row["kernels"][1]["us"] = row["kernels"][0]["us"]
    assert "under 1 % at none of the longest" in decode.claims(changed)[1]["words"]


def test_busy_sms_are_judged_by_their_time(changed: decode.Results) -> None:
    assert verdicts(changed)[2] == "half true"
    decode.best(changed, 65_536)["launches"]["split"]["busy"] = 1.0
    assert verdicts(changed)[2] == "holds"
    for row in changed["lesson"]:
        row["launches"]["split"]["sms"] = 131
    assert verdicts(changed)[2] == "does not hold"


def test_curves_are_judged_each(changed: decode.Results) -> None:
    assert verdicts(changed)[3:] == ["does not hold", "does not hold"]
    times = {(row["keys"], row["splits"]): row for row in changed["lesson"]}
    times[65_536, 1]["us"] = 10 * times[2048, 1]["us"]
    times[512, 1]["us"] = times[65_536, 1]["us"]
    ten, flat = decode.claims(changed)[3:]
    assert (ten["verdict"], flat["verdict"]) == ("half true", "half true")
    assert "About 10 is true of lesson kernel, unsplit (fp32)." in ten["words"]
    for claim in (ten, flat):
        for label in decode.curves(changed):
            assert label in claim["measured"]


# The benchmark's own parts, as far as they run without a GPU


def test_the_grids_are_the_plans() -> None:
    for kernel, splits in (("flash-decoding", 2), ("standard", 1)):
        for launch in decode_lesson.small(kernel).launches():
            assert decode_lesson.grid(launch.function.name, 2 * decode_lesson.BLOCK_COLS, splits) == launch.grid


def test_arguments_are_bound_by_name_in_the_kernels_types() -> None:
    split, combine = decode_lesson.small("flash-decoding").launches()
    sizes = {"heads": 32, "kv_heads": 32, "seqlen_k": 64, "splits": 2, "scale": 0.5}
    given = {**sizes, "Q": 1, "K": 2, "V": 3, "O_partial": 4, "m_partial": 5, "l_partial": 6, "O": 7}
    bound = decode_lesson.bound(split, given)
    assert bound == (1, 2, 3, 0, 4, 5, 6, 32, 32, 64, 0.5)  # the 0 is the key mask that there is none of
    types: list[type] = [type(value) for value in bound]
    assert types == [np.uint64] * 7 + [np.int32] * 3 + [np.float32]
    assert decode_lesson.bound(combine, given) == (4, 5, 6, 7, 32, 2)


def test_the_build_that_notes_sms_probes_nothing() -> None:
    plan = decode_lesson.small("flash-decoding", decode_lesson.Unprobed)
    text = plan.source.probing(plan.slots, plan.shapes)
    assert "FS_PROBE" not in text
    assert text.count("FS_ENTER") == text.count("FS_EXIT") == 2


def test_busy_counts_an_sm_once_however_many_blocks_it_holds() -> None:
    times = np.array([[0, 10, 3], [5, 20, 3], [0, 15, 4], [18, 20, 4]], np.uint64)
    assert decode_lesson.busy(times, 2) == (2, (20 + 15 + 2) / 40)
    assert decode_lesson.busy(times, 4) == (2, (20 + 15 + 2) / 80)
    assert decode_lesson.busy(np.array([[7, 7, 0]], np.uint64), 2) == (1, 0.0)


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("void split<32, 128>(float const*, int)", "split"),
        ("combine<128>(float const*)", "combine"),
        ("void pytorch_flash::flash_fwd_splitkv_kernel<A<B<1>>, true>(C)", "pytorch_flash::flash_fwd_splitkv_kernel"),
        ("void (anonymous namespace)::softmax_warp_forward<float>(float*)", "softmax_warp_forward"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(D)", "internal::gemvx::kernel"),
        ("cudnn_generated_fort_native_sdpa", "cudnn_generated_fort_native_sdpa"),
    ],
)
def test_a_kernels_name_is_short(signature: str, name: str) -> None:
    assert decode_timing.kernel_name(signature) == name


def test_judging_anew_needs_no_gpu(changed: decode.Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[Any] = changed.pop("claims")
    path = tmp_path / "decode.json"
    path.write_text(json.dumps(changed), "utf-8")
    monkeypatch.setattr(sys, "argv", ["decode.py", str(path), "--judge"])
    benchmark.main()
    assert json.loads(path.read_text("utf-8"))["claims"] == wanted
