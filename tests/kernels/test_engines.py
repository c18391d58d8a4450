"""The cpu and recorded engines: the CUDA kernels agree with the twins at every step, and nothing runs away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flashstep as fs
from flashstep.kernels.engines import child, cpu, gpu, hostbuild, recorded
from flashstep.kernels.engines.capture import load, paths, problems
from flashstep.kernels.engines.compare import judge
from flashstep.kernels.engines.plan import Plan
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS

ATTENTION = ("standard", "flash-attention-1", "flash-attention-2", "flash-decoding")

compiled = pytest.mark.skipif(cpu.unavailable() is not None, reason=str(cpu.unavailable()))

# Template instances (Br, Bc, D): few, so that builds are made once. Shapes, masks and splits are drawn freely.
INSTANCES = ((4, 4, 4), (2, 3, 5), (1, 2, 1), (3, 2, 8))


WITH_SOURCE = tuple(name for name, kernel in KERNELS.items() if kernel.cuda_source.exists())
"""A kernel may begin with its twin: no engine can run it yet."""


def source_of(kernel: str) -> Source:
    return Source.read(KERNELS[kernel].cuda_source)


@pytest.fixture(autouse=True, scope="module")
def one_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Builds are shared by this module's tests, and a person's own cache is left alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLASHSTEP_CACHE", str(tmp_path_factory.getbasetemp() / "builds"))
        yield


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("kernel", WITH_SOURCE)
@settings(max_examples=25)
@given(data=st.data())
def test_the_kernel_agrees_with_the_twin_at_every_step(kernel: str, data: st.DataObject) -> None:
    Br, Bc, d = data.draw(st.sampled_from(INSTANCES))
    n_q, n_k = data.draw(st.integers(1, 9)), data.draw(st.integers(0, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    size = data.draw(st.sampled_from([1e-3, 1.0, 5.0, 40.0]))
    if kernel == "online-softmax":
        x = (rng.standard_normal((n_q, n_k)) * size).astype(np.float32)
        x[rng.random(x.shape) < data.draw(st.sampled_from([0.0, 0.5, 1.0]))] = -np.inf
        run = fs.record(kernel, x, block_rows=Br, block_cols=Bc)
    else:
        n_q = 1 if kernel == "flash-decoding" else n_q
        batch, kv_heads, group = (data.draw(st.integers(1, 2)) for _ in range(3))
        q, k, v = (
            (rng.standard_normal((batch, heads, n, d)) * size).astype(np.float32)
            for heads, n in ((kv_heads * group, n_q), (kv_heads, n_k), (kv_heads, n_k))
        )
        mask = rng.random((batch, n_k)) < 0.6 if data.draw(st.booleans()) else None
        if mask is not None:  # what the mask hides may be anything
            for b in range(batch):
                k[b, :, ~mask[b]] = v[b, :, ~mask[b]] = np.nan
        run = fs.record(
            kernel, q, k, v, key_mask=mask, causal=data.draw(st.booleans()), scale=data.draw(st.sampled_from([None, 1.0])),
            block_rows=Br, block_cols=Bc, splits=data.draw(st.integers(1, n_k + 2)),
        )  # fmt: skip
    verdict = fs.compare(run, "cpu")
    assert verdict.ok, str(verdict.first_divergence)
    assert len(verdict.steps) == len({probe.step for probe in Plan(run.trace, source_of(kernel)).probes})


@compiled
@pytest.mark.parametrize("kernel", ATTENTION)
def test_cases_on_the_kernels(kernel: str) -> None:
    """The applicable rows of the project's list of cases, on the CUDA kernel itself."""
    one, keys = np.ones((1, 1), np.float32), np.array([[1], [2], [3], [4]], np.float32)
    scores, values = np.array([[0], [1], [4], [2], [3]], np.float32), np.array([[1], [2], [3], [5], [4]], np.float32)
    fives = np.ones((5, 1), np.float32)
    nan = np.array([[1], [2], [np.nan], [np.nan]], np.float32)
    tiles: dict[str, Any] = {"block_rows": 1, "block_cols": 2}
    rows: list[tuple[Any, float, float | None]] = [
        (fs.record(kernel, one, scores, values, scale=1.0, splits=2, **tiles), 3.351381, 4.451914),
        (fs.record(kernel, one, scores, values, scale=1.0, splits=8, **tiles), 3.351381, None),
        (fs.record(kernel, -one, fives, fives, **tiles), 1.0, None),
        (fs.record(kernel, one, keys, keys, scale=1.0, key_mask=[False, False, True, True], **tiles), 3.731059, None),
        (fs.record(kernel, one, keys, keys, scale=1.0, key_mask=[False] * 4, **tiles), 0.0, -np.inf),
        (fs.record(kernel, one, -524288 * one, one, scale=1.0, **tiles), 1.0, -524288.0),
        (fs.record(kernel, 2000 * one, one, one, scale=1.0, **tiles), 1.0, 2000.0),
        (fs.record(kernel, one, nan, nan, scale=1.0, key_mask=[True, True, False, False], **tiles), 1.731059, None),
        (fs.record(kernel, one, keys[:0], keys[:0], **tiles), 0.0, -np.inf),
    ]
    for run, out, lse in rows:
        plan = Plan(run.trace, source_of(kernel))
        result = cpu.run(plan)
        assert judge(run, plan, result, "cpu").ok
        assert float(result.arrays["O"].reshape(-1)[0]) == pytest.approx(out, abs=2e-6)
        if lse is not None and "lse" in result.arrays:
            assert float(result.arrays["lse"].reshape(-1)[0]) == pytest.approx(lse, abs=2e-6)


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("kernel", WITH_SOURCE)
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_the_host_build_is_clean(kernel: str, sanitizer: str) -> None:
    """On problems that together reach every branch: ragged, causal, masked, grouped, empty, without keys."""
    masked = {"causal-more-queries", "first-tile-masked", "fully-masked-row"}
    names = masked | {"ragged", "grouped-heads", "zero-keys", "empty-splits", "batched", "no-columns"}
    known = KERNELS[kernel].parameters  # one tiling, one build
    tiled: dict[str, Any] = {name: 4 for name in ("block_rows", "block_cols", "head_dim") if name in known}
    for name, asked in problems(KERNELS[kernel]).items():
        if name in names:
            plan = Plan(fs.record(kernel, **{**asked, **tiled}).trace, source_of(kernel))
            cpu.run(plan, probing=False, sanitizer=sanitizer, threads=4)
            cpu.run(plan, probing=True, sanitizer=sanitizer, threads=4)


@compiled
def test_every_number_of_threads_gives_the_same_answer() -> None:
    run = fs.record("flash-attention-1", seqlen_q=7, seqlen_k=9)
    plan = Plan(run.trace, source_of("flash-attention-1"))
    first = cpu.run(plan, threads=1)
    for threads in (2, 5, 32):
        again = cpu.run(plan, threads=threads)
        for name, array in first.arrays.items():
            assert np.array_equal(array, again.arrays[name], equal_nan=True)


def changed(kernel: str, was: str, becomes: str) -> Source:
    """The source with one place changed."""
    text = source_of(kernel).text
    assert was in text
    return Source(text.replace(was, becomes, 1))


@compiled
def test_a_kernel_that_crashes_says_how_and_where() -> None:
    wild = "*(volatile int*)0 = 1;"
    plans = {
        "in split, after the step 'load K, V' of block 0: it read or wrote outside its arrays": (
            "flash-decoding", "// step: fill Sij", f"// step: fill Sij\n    {wild}",
        ),
        "in combine, before any probed step ended: it read or wrote outside its arrays": (
            "flash-decoding", "// step: global m", f"// step: global m\n  {wild}",
        ),
        "it divided an integer by zero": (
            "online-softmax", "// step: write Y", "// step: write Y\n  { volatile int z = 0; z = 3 / z; }",
        ),
    }  # fmt: skip
    for said, (kernel, was, becomes) in plans.items():
        plan = Plan(fs.record(kernel).trace, changed(kernel, was, becomes))
        with pytest.raises(fs.EngineError, match=r"^The kernel crashed on the host ") as raised:
            cpu.run(plan)
        assert said in str(raised.value)
        assert "exit -" not in str(raised.value)


@pytest.mark.parametrize("number", [4, 5, 6, 7, 8, 9, 11, 24, 63])
def test_every_signal_has_its_words(number: int) -> None:
    words = child.signal_words(number)
    assert words.startswith(("it ", "the C library "))
    assert len(words) > 15


@compiled
def test_a_kernel_that_does_not_end_is_stopped() -> None:
    source = Source(source_of("online-softmax").text.replace("for (int j = 0; j < Tc; j++)", "for (int j = 0; j < Tc; j += 0)"))
    plan = Plan(fs.record("online-softmax").trace, source)
    with pytest.raises(fs.EngineError, match="was stopped: does it end"):
        cpu.run(plan, probing=False, seconds=2)
    waited: list[int] = []
    seen = r"It was last seen in online_softmax, after the step '(load X|update m, l)' of block 0"
    with pytest.raises(fs.EngineError, match=seen):
        cpu.run(plan, seconds=1, waiting=lambda: waited.append(1))
    assert len(waited) > 2

    def cancel() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        cpu.run(plan, seconds=60, waiting=cancel)


def test_the_time_a_kernel_may_take_grows_with_the_problem() -> None:
    small, large = (
        cpu.most_seconds(Plan(fs.record("standard", seqlen_q=n, seqlen_k=n, head_dim=8).trace, source_of("standard")))
        for n in (8, 256)
    )
    assert 10 <= small < 15
    assert small * 2 < large <= 600


@compiled
def test_a_kernel_that_does_not_compile_says_so() -> None:
    plan = Plan(fs.record("online-softmax").trace, Source(source_of("online-softmax").text.replace("float sum", "floaty sum")))
    with pytest.raises(fs.EngineError, match=r"does not compile for the host: .*floaty"):
        cpu.run(plan)


@compiled
def test_a_kernel_that_takes_other_steps_is_found_out() -> None:
    text = source_of("online-softmax").text.replace("j < Tc", "j < Tc - 1", 1)
    run = fs.record("online-softmax")
    plan = Plan(run.trace, Source(text))
    with pytest.raises(fs.EngineError, match="did not take the twin's steps"):
        judge(run, plan, cpu.run(plan), "cpu")


@compiled
def test_a_kernel_that_takes_more_steps_is_found_out() -> None:
    """One more tile, of no columns, changes no number."""
    plan = Plan(fs.record("flash-attention-2").trace, changed("flash-attention-2", "j < Tc; j++", "j <= Tc; j++"))
    said = r"in flash_attention_2, after the step 'divide and store O, lse' of block 0: it took more steps than the twin's"
    with pytest.raises(fs.EngineError, match=said):
        cpu.run(plan)


@compiled
def test_a_file_of_ones_own_is_checked_on_the_cpu(tmp_path: Path) -> None:
    """Written as a kernel writer does: restrict, const, launch bounds, a default, CUDA headers, braces in comments."""
    run = fs.record("flash-attention-2", seqlen_q=6, seqlen_k=10)
    text = source_of("flash-attention-2").text
    own = text.replace("const float* Q", "const float* __restrict__ Q")
    own = own.replace("float scale, int causal", "const float scale, const int causal")
    own = own.replace("__global__ void", "__global__ void __launch_bounds__(128)").replace("int Bc, int D>", "int Bc, int D = 4>")
    own = own.replace("  const int tid", '  // a brace { in a comment, and "one {"\n  const int tid')
    own = f'#include <cuda_runtime.h>\n#include "cuda_fp16.h"\n{own}'
    path = tmp_path / "my kernel.cu"
    path.write_text(own, "utf-8")
    assert fs.compare(run, "cpu", source=path).ok
    path.write_text(own.replace("float m_new = mi[r];", "float m_new = 0.0f;"), "utf-8")
    verdict = fs.compare(run, "cpu", source=str(path))
    assert verdict.first_divergence is not None
    assert (verdict.first_divergence.slot, run.trace.steps[verdict.first_divergence.step].name) == ("mi", "update m, l, O")
    path.write_text(own.replace("float m_new = mi[r];", "floaty m_new = mi[r];"), "utf-8")
    line = own[: own.index("float m_new")].count("\n") + 1
    with pytest.raises(fs.EngineError, match=rf"does not compile for the host: my kernel\.cu:{line}:.*floaty"):
        fs.compare(run, "cpu", source=path)
    path.write_text(own.replace("Sij[Br][Bc]", "Sij[Br][Bc + 1]"), "utf-8")
    with pytest.raises(fs.EngineError, match="Sij should hold 4 x 4 floats, as the twin's does"):
        fs.compare(run, "cpu", source=path)


def test_a_file_of_ones_own_is_nothing_that_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "my.cu"
    path.write_text(source_of("standard").text, "utf-8")
    with pytest.raises(ValueError, match=r"what the shipped kernel\.cu did; check my\.cu with the cpu or gpu engine"):
        fs.compare(fs.record("standard"), "recorded", source=path)
    with pytest.raises(FileNotFoundError):
        fs.compare(fs.record("standard"), "cpu", source=tmp_path / "none.cu")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(fs.EngineError, match="is not UTF-8 text"):
        fs.compare(fs.record("standard"), "cpu", source=path)


def test_a_capture_of_another_source_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    run = fs.record("standard")
    monkeypatch.setattr(Source, "hash", "another")
    with pytest.raises(fs.EngineError, match=r"another kernel\.cu: .* NVIDIA H200 \(2026-.* check that with the cpu or gpu"):
        fs.compare(run, "recorded")
    assert recorded.stale_file(KERNELS["standard"], "default")


def test_without_a_compiler_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    hostbuild.compiler.cache_clear()
    try:
        with pytest.raises(fs.EngineError, match=r"needs a C\+\+17 compiler: install g\+\+"):
            fs.compare(fs.record("standard"), "cpu")
    finally:
        hostbuild.compiler.cache_clear()


@pytest.mark.parametrize("kernel", WITH_SOURCE)
def test_captures_are_of_the_source_that_ships(kernel: str) -> None:
    """A capture whose hash is not the current source's is refused here: re-record it on a GPU."""
    names = {load(path).name for path in paths(KERNELS[kernel])}
    assert names == set(problems(KERNELS[kernel]))
    assert len(names) >= 9
    for path in paths(KERNELS[kernel]):
        capture = load(path)
        assert not recorded.stale(capture, KERNELS[kernel]), f"{path.name} was made of another kernel.cu"
        assert {"device", "driver", "cuda", "cupy", "date"} <= set(capture.device)


@pytest.mark.parametrize("kernel", WITH_SOURCE)
def test_what_the_gpu_did_agrees_at_every_step(kernel: str) -> None:
    for name, asked in problems(KERNELS[kernel]).items():
        run = fs.record(kernel, values="all", **asked)
        verdict = fs.compare(run, "recorded")
        assert verdict.ok, (name, str(verdict.first_divergence))
        assert verdict.note == ""
        assert verdict.device["device"] == "NVIDIA H200"


@pytest.mark.parametrize("kernel", WITH_SOURCE)
@pytest.mark.parametrize("fake", [0.75, 0.0, np.nan])
def test_a_constant_fails_on_every_problem_whose_answer_is_another(kernel: str, fake: float) -> None:
    for name, asked in problems(KERNELS[kernel]).items():
        run = fs.record(kernel, values="all", **asked)
        result = recorded.find(run).result
        plan = Plan(run.trace, source_of(kernel))
        out = "Y" if KERNELS[kernel].matrix else "O"
        right = run.outputs[out]
        arrays = {**result.arrays, out: np.full_like(right, fake)}
        verdict = judge(run, plan, type(result)(arrays, result.probes, result.times, result.device), "recorded")
        assert verdict.ok == np.array_equal(right, arrays[out]), name


def test_a_problem_that_was_not_captured_says_which_were() -> None:
    with pytest.raises(fs.EngineError, match=r"was not captured on a GPU; these were: causal, .*zero-keys"):
        fs.compare(fs.record("standard", seed=77), "recorded")


def test_a_run_without_numbers_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="kept no numbers"):
        fs.compare(fs.record("standard", values="none"), "cpu")
    with pytest.raises(ValueError, match="choose one of gpu, cpu, recorded"):
        fs.compare(fs.record("standard"), "tpu")


@compiled
def test_an_unfocused_block_is_checked_too() -> None:
    run = fs.record("flash-attention-2", values="focus", focus=1)
    verdict = fs.compare(run, "cpu")
    assert verdict.ok
    assert {run.trace.steps[step.step].block for step in verdict.steps} == {0, 1}


def test_too_much_shared_memory_is_said_before_the_launch() -> None:
    run = fs.record("flash-attention-1", seqlen_q=64, seqlen_k=64, head_dim=64, block_rows=64, block_cols=64)
    plan = Plan(run.trace, source_of("flash-attention-1"))
    (launch,) = plan.launches()
    with pytest.raises(fs.EngineError, match=r"82,432 bytes .* 49,152 are available: Kj 16,384.*Tiles of 32 × 32 would fit"):
        gpu.check(plan, launch)


@compiled
def test_what_a_gpu_would_refuse_is_noted_where_it_runs() -> None:
    sizes: dict[str, Any] = {"seqlen_q": 4, "seqlen_k": 4, "head_dim": 64, "block_rows": 64, "block_cols": 64}
    large = fs.compare(fs.record("flash-attention-2", **sizes), "cpu")
    assert large.ok
    assert "has 49,152 bytes of static shared memory, and flash_attention_2 asks for 82,432" in large.note
    assert fs.compare(fs.record("standard"), "cpu").note == ""


def test_a_device_that_is_not_there_says_how_to_get_it() -> None:
    why = fs.engines()["gpu"]
    if why is not None:
        assert "pip install" in why or "driver" in why or "device" in why
        with pytest.raises(fs.EngineError):
            fs.compare(fs.record("standard"), "gpu")
