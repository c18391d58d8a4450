"""Recording as a person calls it: estimates, refusals, progress, determinism, errors that say what would be right."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import flashstep as fs
from flashstep.kernels.inputs import PRESETS
from flashstep.kernels.limits import MAX_HBM_BYTES, MAX_STEPS, Limits
from flashstep.kernels.record import estimate_within, prepare, run_twin
from flashstep.kernels.registry import KERNELS
from flashstep.trace.recorder import Machine

SIZES: list[dict[str, Any]] = [
    {},
    {"batch": 2, "heads": 4, "kv_heads": 2, "seqlen_q": 7, "seqlen_k": 11, "head_dim": 5, "block_rows": 3, "block_cols": 4},
    {"seqlen_k": 0},
    {"seqlen_k": 3, "splits": 7, "key_mask": [True, False, True]},
    {"inputs": "first-tile-masked"},
    {"inputs": "fully-masked-row"},
]


def fitted(kernel: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What of `asked` the kernel has a use for."""
    known = {*KERNELS[kernel].parameters, "key_mask"}
    fit = {name: value for name, value in asked.items() if name in known}
    if kernel == "flash-decoding":
        fit.pop("seqlen_q", None)
    if KERNELS[kernel].matrix:
        fit.pop("key_mask", None)
    return fit


@pytest.mark.parametrize("kernel", fs.kernels)
@pytest.mark.parametrize("asked", SIZES)
def test_the_estimate_is_what_comes(kernel: str, asked: dict[str, Any]) -> None:
    fit = fitted(kernel, asked)
    expected = fs.estimate(kernel, **fit)
    for values in ("all", "focus", "none"):
        trace = fs.record(kernel, values=values, **fit).trace
        assert len(trace.steps) == expected.steps
        assert len(trace.events) == expected.events
        assert trace.values.nbytes <= expected.value_bytes[values]
        assert int(trace.events.flops.sum(dtype=np.int64)) == expected.flops
        arrays = [array for array in trace.meta.arrays if array.space == "hbm"]
        assert expected.hbm_bytes == 4 * sum(array.size for array in arrays)
    if kernel != "flash-decoding":  # where one split is the whole, its partial is not kept twice
        assert fs.record(kernel, values="all", **fit).trace.values.nbytes == expected.value_bytes["all"]


@pytest.mark.parametrize("kernel", fs.kernels)
@pytest.mark.parametrize("asked", SIZES)
def test_same_run_same_bytes_and_recording_changes_nothing(kernel: str, asked: dict[str, Any]) -> None:
    fit = fitted(kernel, asked)
    run = fs.record(kernel, **fit)
    assert run.to_bytes() == fs.record(kernel, **fit).to_bytes()
    mask = fit.pop("key_mask", None)
    chosen, problem, tiling, inputs = prepare(kernel, (), mask, fit)
    silent = run_twin(chosen, Machine(record=False), problem, tiling, inputs)
    for name, output in run.outputs.items():
        assert np.array_equal(silent[name], output, equal_nan=True)
        assert output.dtype == np.float32
    assert set(run.outputs) == set(chosen.outputs)


@pytest.mark.parametrize("kernel", fs.kernels)
def test_policies_keep_what_they_say(kernel: str) -> None:
    sizes = fitted(kernel, {"heads": 2, "seqlen_q": 8, "splits": 3})
    everything = fs.record(kernel, values="all", **sizes).trace
    focused = fs.record(kernel, values="focus", focus=1, **sizes).trace
    bare = fs.record(kernel, values="none", **sizes).trace
    assert bare.values.size == 0
    for step in everything.steps:
        full, some = everything.state(step.index), focused.state(step.index)
        for name in some:
            assert np.array_equal(full[name], some[name], equal_nan=True), (step, name)
        if step.block == 1 or step.launch < 0:
            assert set(full) == set(some)
        assert everything.ledger(step.index) == bare.ledger(step.index) == focused.ledger(step.index)
        assert bare.steps[step.index].label == step.label
    # No array on screen goes blank.
    for array in everything.meta.arrays:
        if array.space == "hbm":
            assert np.array_equal(everything.state(-1)[array.name], focused.state(-1)[array.name], equal_nan=True)


def test_the_most_that_fits_is_kept_and_the_rest_refused() -> None:
    sizes: dict[str, Any] = {"seqlen_q": 256, "seqlen_k": 256, "head_dim": 16, "block_rows": 16, "block_cols": 16}
    expected = fs.estimate("flash-attention-2", **sizes)
    kept = {b: fs.record("flash-attention-2", budget_bytes=b, **sizes).trace.meta.values for b in expected.value_bytes.values()}
    assert kept == {expected.value_bytes["all"]: "all", expected.value_bytes["focus"]: "focus", 0: "none"}
    with pytest.raises(fs.ParameterError, match=r"Keeping all values would take .* values='focus' \(.*\) would fit"):
        fs.record("flash-attention-2", values="all", budget_bytes=expected.value_bytes["focus"], **sizes)
    with pytest.raises(fs.ParameterError, match=r"would take 817 steps.*at most 100") as refused:
        fs.record("flash-attention-2", max_steps=100, **sizes)
    assert refused.value.field == "seqlen_k"


def test_progress_is_told_and_can_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashstep.trace.tape.PROGRESS_EVERY", 0.0)  # a fast machine would be done before it is due
    told: list[tuple[int, int]] = []
    sizes: dict[str, Any] = {"seqlen_q": 64, "seqlen_k": 256}
    fs.record("flash-attention-2", values="none", progress=lambda done, total: told.append((done, total)), **sizes)
    assert told == sorted(told)
    assert len(told) > 2
    assert told[-1][0] == told[-1][1] == fs.estimate("flash-attention-2", **sizes).steps

    class Enough(Exception):
        pass

    reached: list[int] = []

    def stop(done: int, total: int) -> None:
        reached.append(done)
        if done:
            raise Enough

    large: dict[str, Any] = {"seqlen_q": 2048, "seqlen_k": 2048, "head_dim": 256, "block_rows": 512, "block_cols": 512}
    with pytest.raises(Enough):
        fs.record("flash-attention-2", values="none", progress=stop, **large)
    assert reached[0] == 0
    assert 0 < reached[-1] < fs.estimate("flash-attention-2", **large).steps // 2  # in the middle, not at the end


def test_a_run_too_large_is_refused_before_work() -> None:
    with pytest.raises(fs.ParameterError, match=r"arrays of this run would take 27,\d+\.\d MiB, and 8,192\.0 MiB are allowed"):
        fs.record("standard", seqlen_q=60000, seqlen_k=60000, head_dim=1, block_rows=1024, block_cols=1024, values="none")
    with pytest.raises(fs.ParameterError, match=r"8\.6e\+10 operations, and 1e\+09 are allowed\. It would fit with seq"):
        fs.record("flash-attention-2", seqlen_q=8192, seqlen_k=8192, head_dim=319, max_flops=10**9, block_rows=64, block_cols=64)


@pytest.mark.parametrize("kernel", fs.kernels)
@pytest.mark.parametrize(
    "asked",
    [
        {"seqlen_q": 1_000_000, "seqlen_k": 1_000_000, "block_rows": 16, "block_cols": 16, "max_steps": 50_000},
        {"seqlen_q": 4096, "seqlen_k": 4096, "block_rows": 16, "block_cols": 16, "max_steps": 20_000},
        {"batch": 65_535, "heads": 32, "kv_heads": 8},
        {"heads": 64, "kv_heads": 64, "seqlen_k": 64, "max_steps": 200},
        {"batch": 65_535, "heads": 65_535},
        {"seqlen_k": 2**24, "head_dim": 1024},
        {"seqlen_k": 2**24, "block_cols": 1},
        {"seqlen_k": 4096, "max_hbm_bytes": 10_000},
        {"seqlen_k": 1024, "head_dim": 512, "max_flops": 100_000},
        {"seqlen_k": 1024, "inputs": "first-tile-masked", "max_steps": 500},
    ],
)
def test_what_is_said_to_fit_does_and_one_more_does_not(kernel: str, asked: dict[str, Any]) -> None:
    parameters = KERNELS[kernel].parameters
    known = {name: size for name, size in asked.items() if name in parameters or name.startswith("max_")}
    if KERNELS[kernel].one_query:
        known.pop("seqlen_q", None)
    limits = Limits(known.pop("max_steps", MAX_STEPS), known.pop("max_hbm_bytes", MAX_HBM_BYTES), known.pop("max_flops", None))
    try:
        estimate_within(limits, kernel, **known)
    except fs.ParameterError as error:
        said = str(error)
    else:
        return  # this kernel does it with less
    sentence = said.rpartition(" It would fit with ")[2]
    assert sentence != said, said
    for change in sentence.removesuffix(".").split(", or with "):
        sizes: dict[str, int] = {}
        for names, size in re.findall(r"((?:\w+(?:, | and )?)+) of ([\d,]*\d)", change):
            sizes |= dict.fromkeys(re.split(r", | and ", names), int(size.replace(",", "")))
        assert sizes, change
        assert set(sizes) <= set(parameters)
        estimate_within(limits, kernel, **{**known, **sizes})
        if all(size > 1 for size in sizes.values()) and not any(name.startswith("block") for name in sizes):
            double = {name: 2 * size for name, size in sizes.items()}
            with pytest.raises(fs.ParameterError):
                estimate_within(limits, kernel, **{**known, **double})


def test_nothing_is_said_to_fit_where_nothing_does() -> None:
    with pytest.raises(fs.ParameterError, match=r"at most 3 steps are recorded\.$"):
        fs.record("standard", max_steps=3)


def test_tiles_that_fit_own_arrays_are_named() -> None:
    with pytest.raises(fs.ParameterError, match=r"It would fit with block_rows and block_cols of \d+, or with seqlen_q"):
        fs.record("standard", *[np.zeros((256, 1), np.float32)] * 3, block_rows=1, block_cols=1, max_steps=10_000)


@pytest.mark.parametrize(
    ("kernel", "asked", "field", "words"),
    [
        ("flash", {}, "kernel", "choose one of standard, online-softmax"),
        ("standard", {"seqlen_q": 0}, "seqlen_q", "from 1 to"),
        ("standard", {"seqlen_k": -1}, "seqlen_k", "from 0 to"),
        ("standard", {"head_dim": 5000}, "head_dim", "from 1 to 1,024"),
        ("standard", {"heads": 6, "kv_heads": 4}, "kv_heads", "take a divisor of 6"),
        ("standard", {"scale": float("nan")}, "scale", "finite"),
        ("standard", {"scale": True}, "scale", "finite"),
        ("standard", {"scale": 1e39}, "scale", "that float32 holds"),
        ("standard", {"scale": -3.4028236e38}, "scale", "that float32 holds"),
        ("standard", {"scale": 10**400}, "scale", "that float32 holds"),
        ("standard", {"scale": 7e-46}, "scale", "that float32 holds"),
        ("standard", {"inputs": ["a"]}, "inputs", "choose one of random"),
        ("standard", {"budget_bytes": -1}, "values", "0 bytes or more"),
        ("standard", {"block_rows": 0}, "block_rows", "from 1 to"),
        ("standard", {"block_cols": 2.5}, "block_cols", "whole number"),
        ("standard", {"causal": 1}, "causal", "true or false"),
        ("standard", {"nonsense": 1}, "nonsense", "There is no parameter 'nonsense'"),
        ("standard", {"inputs": "nice"}, "inputs", "choose one of random"),
        ("standard", {"values": "some"}, "values", "all, focus, none"),
        ("standard", {"focus": 99}, "focus", "from 0 to 3"),
        ("standard", {"seed": -1}, "seed", "from 0"),
        ("standard", {"key_mask": [1, 0]}, "key_mask", "boolean"),
        ("standard", {"key_mask": [True]}, "key_mask", r"\(1, 8\) or \(8,\)"),
        ("online-softmax", {"causal": True}, "causal", "as it is"),
        ("online-softmax", {"key_mask": [True] * 8}, "key_mask", "as it is"),
        ("online-softmax", {"inputs": "decode"}, "inputs", "do not suit"),
        ("flash-decoding", {"seqlen_q": 2}, "seqlen_q", "should be 1"),
        ("flash-decoding", {"splits": 0}, "splits", "from 1 to"),
        ("flash-attention-2", {"seqlen_k": 2**24, "block_cols": 1}, "block_cols", "fit with block_rows and block_cols of 512"),
        ("flash-attention-2", {"inputs": "hand", "seqlen_k": 6}, "seqlen_k", "have seqlen_k = 5"),
    ],
)
def test_refusals_name_the_field_and_what_would_be_right(kernel: str, asked: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        fs.record(kernel, **asked)
    assert isinstance(refused.value, fs.ParameterError)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((8, 4), (8, 4)), "three arrays, q, k and v, not 2"),
        (((8, 4), (8, 4), (7, 4)), "the same shape"),
        (((8, 4), (8, 5), (8, 5)), "should agree"),
        (((8,), (8, 4), (8, 4)), "1 dimensions"),
        (((1, 3, 8, 4), (1, 2, 8, 4), (1, 2, 8, 4)), "take a divisor of 3"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(shapes: tuple[tuple[int, ...], ...], words: str) -> None:
    with pytest.raises(fs.ParameterError, match=words):
        fs.record("standard", *(np.zeros(shape, np.float32) for shape in shapes))


def test_arrays_of_other_kinds() -> None:
    with pytest.raises(fs.ParameterError, match="should hold real numbers"):
        fs.record("standard", *([["a", "b"]] * 3))
    with pytest.raises(fs.ParameterError, match="regular array"):
        fs.record("standard", [[1, 2], [3]], [[1]], [[1]])
    integers = fs.record("standard", [[1, 2]], [[3, 4]], [[5, 6]])
    assert integers.outputs["O"].tolist() == [[[[5, 6]]]]
    with pytest.raises(fs.ParameterError, match="the arrays say 1"):
        fs.record("standard", [[1, 2]], [[3, 4]], [[5, 6]], seqlen_k=4)


@pytest.mark.parametrize("kernel", fs.kernels)
def test_every_preset_of_a_kernel_runs_and_shows_its_point(kernel: str) -> None:
    assert set(KERNELS[kernel].presets) <= set(PRESETS)
    for preset in KERNELS[kernel].presets:
        run = fs.record(kernel, inputs=preset)
        out = run.outputs["Y" if KERNELS[kernel].matrix else "O"]
        assert np.all(np.isfinite(out)), preset
        if preset == "fully-masked-row":
            name = "m" if KERNELS[kernel].matrix else "lse"
            assert np.any(run.outputs[name] == -np.inf)
        if preset == "large":
            scores = run.trace.state(-1)["X"] if KERNELS[kernel].matrix else run.outputs["lse"]
            assert np.all(np.abs(scores) > 1000)


@pytest.mark.parametrize("scale", [0, 0.0, 1, 3.4028234e38, -3.4028235e38, 8e-46, -1e-45])
def test_a_scale_that_float32_holds_is_taken(scale: float) -> None:
    rounded = np.float32(scale)
    assert np.isfinite(rounded)
    assert (rounded == 0) == (scale == 0)
    assert fs.record("standard", scale=scale).problem.scale == scale


def test_own_arrays_and_named_inputs_do_not_go_together() -> None:
    with pytest.raises(fs.ParameterError, match="leave out inputs='hand'") as error:
        fs.record("online-softmax", np.eye(2), inputs="hand")
    assert error.value.field == "inputs"
    with pytest.raises(fs.ParameterError, match="takes three arrays, q, k and v, not 1"):
        fs.record("standard", np.eye(2))


def test_a_run_and_its_trace_say_on_one_line_what_they_are() -> None:
    run = fs.record("flash-attention-2", heads=2, values="none")
    sizes = "batch 1, heads 2, kv_heads 1, seqlen_q 8, seqlen_k 8, head_dim 4"
    said = f"<Trace of flash-attention-2 ({sizes}): 36 steps, {len(run.trace.events)} events, values none>"
    assert (repr(run), repr(run.trace)) == (f"<Run with {said}>", said)


def test_numpys_numbers_are_taken_as_pythons() -> None:
    run = fs.record("standard", block_rows=np.int64(2), scale=np.float32(0.5), causal=np.bool_(True))
    assert run.tiling.block_rows == 2
    assert run.problem.causal is True


def test_a_folder_that_is_not_there_is_said(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="there is no folder"):
        fs.record("standard").save(tmp_path / "none" / "x.safetensors")


@pytest.mark.parametrize(
    ("kernel", "arrays", "asked", "words", "never"),
    [
        ("online-softmax", ([[np.inf, 0, np.inf, 1]],), {"block_cols": 2}, "α is NaN", "α = 1"),
        ("flash-attention-2", (np.full((2, 2), np.inf), np.eye(2) - 0.5, np.eye(2)), {}, "4 scores in shared", "hidden"),
        ("flash-attention-2", (), {"causal": True}, "16 scores, 6 hidden", "the mask hides every pair: each score is NaN"),
        ("flash-attention-2", (), {"heads": 2, "kv_heads": 2}, "Each of 2 blocks reads them", "No other block"),
        ("flash-attention-2", (), {"seqlen_q": 4}, "No other block needs them", "Each of"),
        ("flash-attention-2", (), {"heads": 4, "kv_heads": 2}, "Each of 4 blocks", "No other block"),
        ("flash-decoding", (), {"heads": 4, "kv_heads": 2}, "once for each of the 2 query heads", "reads, once."),
        ("flash-decoding", (), {"splits": 1}, "only this split reads, once.", "Other blocks"),
        ("standard", (), {"seqlen_q": 1100, "seqlen_k": 1100, "block_rows": 1024, "block_cols": 1024}, "1048576 numbers", "e6"),
    ],
)
def test_captions_say_only_what_is_so(
    kernel: str, arrays: tuple[Any, ...], asked: dict[str, Any], words: str, never: str
) -> None:
    trace = fs.record(kernel, *arrays, **asked).trace
    captions = {step.caption for step in trace.steps}
    assert any(words in caption for caption in captions)
    assert not any(never in caption for caption in captions)
    if kernel.startswith("flash"):  # the readers that a caption counts are those of the ledger
        times = trace.ledger()["K"]["loads"]["elements"] / trace.meta.array("K").size
        told = next((int(c.split("Each of ")[1].split()[0]) for c in captions if "Each of " in c and "blocks" in c), 1)
        told = next((int(c.split("for each of the ")[1].split()[0]) for c in captions if "for each of the" in c), told)
        assert told == times


def test_a_saved_run_comes_back(tmp_path: Any) -> None:
    run = fs.record("flash-attention-1", heads=2, values="none")
    run.save(tmp_path / "x.safetensors")
    again = fs.load(tmp_path / "x.safetensors")
    assert again.kernel == "flash-attention-1"
    assert again.problem.heads == 2
    assert set(again.outputs) == {"O", "lse"}
    assert np.array_equal(again.outputs["O"], run.outputs["O"])
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]
