"""What the cpu engine finds besides numbers that differ: writes beyond an array, what was never set, races, barriers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flashstep as fs
from flashstep.kernels.engines import cpu, hostbuild, sanitize
from flashstep.kernels.engines.child import Ended
from flashstep.kernels.engines.compare import judge
from flashstep.kernels.engines.plan import Plan
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS

pytestmark = pytest.mark.skipif(cpu.unavailable() is not None, reason=str(cpu.unavailable()))
RAGGED: dict[str, Any] = {"seqlen_q": 6, "seqlen_k": 9}
LSE = "for (int r = tid; r < rows; r += threads) lse["
SUM = "float sum = 0.0f;"
STORE = "// step: divide and store O, lse\n"
FILL = "// step: fill Sij\n"


@pytest.fixture(autouse=True, scope="module")
def one_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLASHSTEP_CACHE", str(tmp_path_factory.getbasetemp() / "builds"))
        yield


def changed(kernel: str, *changes: tuple[str, str]) -> Source:
    """The kernel's source with places changed, under a name of its own."""
    text = Source.read(KERNELS[kernel].cuda_source).text
    for was, becomes in changes:
        assert was in text
        text = text.replace(was, becomes, 1)
    return Source(text, "my.cu")


def without_barrier(kernel: str, step: str) -> Source:
    text = Source.read(KERNELS[kernel].cuda_source).text
    at = text.index("__syncthreads();", text.index(f"// step: {step}\n"))
    return Source(text[:at] + text[at + len("__syncthreads();") :], "my.cu")


def compared(kernel: str, source: Source, folder: Path, asked: dict[str, Any], **options: Any) -> fs.Agreement:
    path = folder / "my.cu"
    path.write_text(source.text, "utf-8")
    return fs.compare(fs.record(kernel, **asked), "cpu", source=path, **options)


# Beyond an array's end


@pytest.mark.parametrize(
    ("kernel", "changes", "said"),
    [
        (
            "flash-attention-2", [("rows = min(Br, seqlen_q - i * Br)", "rows = Br")],
            ["flash_attention_2 wrote beyond the end of O: at element 24, and it has 24, counted from 0",
             "flash_attention_2 wrote beyond the end of lse: at element 6, and it has 6, counted from 0"],
        ),
        (
            "flash-attention-2", [(LSE, LSE.replace("rows", "Br"))],
            ["flash_attention_2 wrote beyond the end of lse: at element 6, and it has 6, counted from 0"],
        ),
        (
            "flash-attention-2", [(STORE, f"{STORE}  if (tid == 0) O[-1] = 0;\n")],
            ["flash_attention_2 wrote before the beginning of O"],
        ),
        (  # what is copied there is the padding's own NaN, of another place
            "flash-attention-2", [(STORE, f"{STORE}  if (tid == 0) O[30] = Q[24];\n")],
            ["flash_attention_2 wrote beyond the end of O: at element 30, and it has 24, counted from 0"],
        ),
        (
            "flash-attention-2", [(STORE, f"{STORE}  if (tid == 0) lse[16000] = 0;\n")],
            ["flash_attention_2 wrote far outside its arrays in HBM, of which the nearest is lse"],
        ),
        (
            "standard", [("// step: write P", "// step: write P\n    if (tid == 0) P[100] = 1;")],
            ["softmax wrote beyond the end of P: at element 100, and it has 54, counted from 0"],
        ),
    ],
)  # fmt: skip
def test_what_is_written_beyond_an_array_is_found(kernel: str, changes: list[tuple[str, str]], said: list[str]) -> None:
    run = fs.record(kernel, **RAGGED)
    plan = Plan(run.trace, changed(kernel, *changes))
    result = cpu.run(plan)
    assert list(result.findings) == said
    verdict = judge(run, plan, result, "cpu")
    assert verdict.first_divergence is None  # no number that is compared shows it
    assert not verdict.ok
    assert verdict.findings == tuple(said)
    assert list(cpu.run(plan, probing=False).findings) == said
    right = Plan(run.trace, Source.read(KERNELS[kernel].cuda_source))
    assert cpu.run(right).findings == ()


def test_whoever_reads_beyond_an_array_reads_nan() -> None:
    run = fs.record("flash-attention-2", **RAGGED)
    for place in ("24", "-1", "9000", "-9000"):
        plan = Plan(run.trace, changed("flash-attention-2", (SUM, f"float sum = 0.0f * Q[{place}];")))
        first = judge(run, plan, cpu.run(plan), "cpu").first_divergence
        assert first is not None
        assert (first.slot, np.isnan(first.element.got)) == ("li", True), place


# What was never set


@pytest.mark.parametrize(
    ("kernel", "was", "step", "slot"),
    [
        ("flash-attention-2", "    li[r] = 0.0f;\n", "load Q, initialise", "li"),
        ("flash-decoding", "    Oi[d] = 0.0f;\n", "load Q, initialise", "Oi"),
        ("online-softmax", "    li[r] = 0.0f;\n", "block appears", "li"),
        ("flash-decoding", "m[0] = -INFINITY;", "global m", "m"),
    ],
)
def test_shared_memory_that_was_never_set_is_nan(kernel: str, was: str, step: str, slot: str) -> None:
    run = fs.record(kernel)
    plan = Plan(run.trace, changed(kernel, (was, "")))
    first = judge(run, plan, cpu.run(plan), "cpu").first_divergence
    assert first is not None
    assert (run.trace.steps[first.step].name, first.slot) == (step, slot)
    assert np.isnan(first.element.got)


def test_every_block_begins_with_shared_memory_undefined() -> None:
    """The second block would find what the first left."""
    run = fs.record("flash-attention-2")
    plan = Plan(run.trace, changed("flash-attention-2", ("    li[r] = 0.0f;\n", "    if (i == 0) li[r] = 0.0f;\n")))
    first = judge(run, plan, cpu.run(plan), "cpu").first_divergence
    assert first is not None
    assert (run.trace.steps[first.step].block, first.slot, np.isnan(first.element.got)) == (1, "li", True)


def test_shared_memory_that_is_no_slot_of_the_twin_is_undefined_too() -> None:
    mask = "__shared__ unsigned char maskj[Bc];"
    own = (mask, f"{mask}\n  __shared__ __align__(16) float mine[Br][Bc + 1], other;")
    run = fs.record("flash-attention-2")
    for name in ("mine[1][Bc]", "other"):
        plan = Plan(run.trace, changed("flash-attention-2", own, (SUM, f"float sum = {name};")))
        first = judge(run, plan, cpu.run(plan), "cpu").first_divergence
        assert first is not None
        assert np.isnan(first.element.got)


@pytest.mark.skipif(not hostbuild.takes(hostbuild.UNDEFINED_LOCALS), reason="an older compiler")
def test_a_variable_that_was_never_set_is_none_that_could_be_right() -> None:
    run = fs.record("flash-attention-2")
    plan = Plan(run.trace, changed("flash-attention-2", ("float s = 0.0f;", "float s;")))
    first = judge(run, plan, cpu.run(plan), "cpu").first_divergence
    assert first is not None
    assert first.slot == "Sij"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("__shared__ float a[4], b[2][D + 1], c;", ["a, b, c"]),
        ("__shared__ unsigned long long int a;", ["a"]),
        ("__shared__ alignas(16) std::pair<int, float> a[2];", ["a"]),
        ("extern __shared__ float a[];", []),
        ("__shared__ float (*a)[4];", []),
        ("// __shared__ float a;\n/* __shared__ int b; */", []),
        ("__shared__ float a; // of Br, Bc;\n__shared__ int b;", ["a", "b"]),
    ],
)
def test_declarations_of_shared_memory_are_read(text: str, calls: list[str]) -> None:
    made = Source(text).undefining()
    assert re.findall(r"static Undefined fs_undefined_\d+\((.*?)\);", made) == calls
    assert made.count("\n") == text.count("\n")
    assert re.sub(r" static Undefined fs_undefined_\d+\(.*?\);", "", made) == text


# Barriers


@pytest.mark.parametrize(
    ("step", "arrays", "steps"),
    [
        ("load K, V", "Kj|Vj|maskj", ("load K, V", "fill Sij")),
        ("fill Sij", "Sij|maskj", ("fill Sij", "update m, l, O")),
        ("update m, l, O", "Kj|Vj|maskj|Sij|mi|li|Oi", ("load K, V", "update m, l, O")),
    ],
)
def test_a_missing_barrier_of_ones_own_is_found(step: str, arrays: str, steps: tuple[str, str], tmp_path: Path) -> None:
    source = without_barrier("flash-attention-2", step)
    verdict = compared("flash-attention-2", source, tmp_path, RAGGED)
    assert verdict.first_divergence is None  # the probes bring barriers of their own
    assert not verdict.ok
    (said,) = verdict.findings
    place = r"(?:reads|writes) it in line (\d+) \(flash_attention_2, step '(.+?)'\)"
    race = r"ThreadSanitizer finds a race for (\w+) in block (\d+)"
    found = re.fullmatch(f"{race}: one thread {place}, another {place}, with no barrier between", said)
    assert found, said
    assert re.fullmatch(arrays, found[1])
    assert int(found[2]) in range(2)
    for line, name in ((found[3], found[4]), (found[5], found[6])):
        assert found[1] in source.text.split("\n")[int(line) - 1]
        assert name in (*steps, "divide and store O, lse", "fill Sij")


def test_a_kernel_that_is_right_is_said_to_have_been_looked_at(tmp_path: Path) -> None:
    source = Source.read(KERNELS["flash-attention-2"].cuda_source)
    verdict = compared("flash-attention-2", source, tmp_path, RAGGED)
    assert verdict.ok
    names = "ThreadSanitizer, AddressSanitizer and UndefinedBehaviorSanitizer"
    assert verdict.note == f"{names} found nothing in a run without probes."
    racing = without_barrier("flash-attention-2", "fill Sij")
    left_out = compared("flash-attention-2", racing, tmp_path, RAGGED, sanitize=False)
    assert left_out.ok
    assert left_out.note.startswith("Barriers are not checked in a run with probes")
    assert left_out.note.endswith("were left out.")


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        (LSE, f"if (i == 1 && tid == 0 && Q[8 * D] == 7.0f) lse[0] = 7.0f;\n  {LSE}",
         r"finds a read outside Q in block 1, in line \d+ \(flash_attention_2, step 'divide and store O, lse'\)"),
        ("Sij[r][c] = p;", "Sij[r][c] = p; if (c == 3 && Sij[r][c + 1] == 7.0f) sum = 1.0f;",
         r"finds what C\+\+ leaves undefined in line \d+ \(flash_attention_2, step 'update m, l, O'\): index 4 out of bounds"),
    ],
)  # fmt: skip
def test_a_read_outside_an_array_is_found_that_no_number_shows(was: str, becomes: str, said: str, tmp_path: Path) -> None:
    verdict = compared("flash-attention-2", changed("flash-attention-2", (was, becomes)), tmp_path, {})
    assert verdict.first_divergence is None
    assert any(re.search(said, found) for found in verdict.findings), verdict.findings


def test_threads_that_wait_at_different_barriers_are_stopped() -> None:
    source = changed("flash-attention-2", (FILL, f"{FILL}    if (tid < 2) __syncthreads();\n"))
    plan = Plan(fs.record("flash-attention-2").trace, source)
    where = "in flash_attention_2, after the step 'load K, V' of block 0"
    with pytest.raises(fs.EngineError, match=rf"{where}: its threads wait at different barriers, in lines \d+ and \d+"):
        cpu.run(plan)


def test_a_thread_that_has_left_is_waited_for_no_more() -> None:
    """As on a GPU since Volta."""
    store = "for (int x = tid; x < rows * D; x += threads) {\n    const float l"
    four = store.replace("threads", "4")
    run = fs.record("flash-attention-2", seqlen_q=20)
    same_end(run, (store, f"if (tid >= 4) return;\n  __syncthreads();\n  {four}"))


def test_blocks_wait_for_each_other() -> None:
    """A block's shared memory is the next one's: a thread that is early must not begin there."""
    wait = "  if (tid == 1) for (volatile int z = 0; z < 30000000; z = z + 1) {}\n"
    same_end(fs.record("flash-attention-2", seqlen_q=12), (STORE, f"{STORE}{wait}"))


def same_end(run: fs.Run, change: tuple[str, str]) -> None:
    """The change changes nothing of what is in HBM at the end."""
    right, other = (
        cpu.run(Plan(run.trace, changed("flash-attention-2", *changes)), probing=False).arrays for changes in ([], [change])
    )
    for name, array in right.items():
        assert np.array_equal(array, other[name]), name


# Where the sanitizers cannot look


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (Ended(66, "FATAL: ThreadSanitizer: unexpected memory mapping 0x1\n"), "exit code 66 (FATAL: ThreadSanitizer: unexp"),
        (Ended(None, ""), "the kernel was stopped after "),
        (Ended(-9, ""), "it ended with exit code -9."),
    ],
)  # fmt: skip
def test_a_sanitizer_that_cannot_look_says_why(ended: Ended, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cpu, "run_sanitized", lambda *_, **__: ended)
    verdict = compared("online-softmax", Source.read(KERNELS["online-softmax"].cuda_source), tmp_path, {})
    assert verdict.ok
    assert "ThreadSanitizer could not look for races, as where a barrier is missing, here: " in verdict.note
    assert said in verdict.note


def test_a_compiler_without_sanitizers_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(*_: object, **__: object) -> Ended:
        raise fs.EngineError("The kernel does not link for the host: cannot find -ltsan.")

    monkeypatch.setattr(cpu, "run_sanitized", lacks)
    run = fs.record("online-softmax")
    found = sanitize.sanitize(Plan(run.trace, Source.read(KERNELS["online-softmax"].cuda_source)))
    assert found.findings == ()
    assert "here: The kernel does not link for the host: cannot find -ltsan." in found.note


def test_progress_counts_the_sanitizers(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    run = fs.record("online-softmax")
    path = tmp_path / "my.cu"
    path.write_text(Source.read(KERNELS["online-softmax"].cuda_source).text, "utf-8")
    fs.compare(run, "cpu", progress=lambda done, total: seen.append((done, total)), source=path)
    steps = len(run.trace.steps)
    assert {total for _, total in seen} == {steps + 2}
    assert {steps, steps + 1} <= {done for done, _ in seen}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)

    def cancel(done: int, total: int) -> None:
        if done == steps:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fs.compare(run, "cpu", progress=cancel, source=path)


# Device functions


def test_the_fast_functions_of_a_gpu_are_taken_for_the_exact_ones(tmp_path: Path) -> None:
    fast = [("expf(mi[r] - m_new)", "__expf(mi[r] - m_new)"), ("Oi[x / D][x % D] / l;", "__fdividef(Oi[x / D][x % D], l);")]
    source = changed("flash-attention-2", *fast)
    verdict = compared("flash-attention-2", source, tmp_path, RAGGED, sanitize=False)
    assert verdict.ok
    assert "For __expf and __fdividef the host takes the exact function" in verdict.note


def test_every_device_function_there_is_compiles() -> None:
    text = (cpu.HERE / "device.h").read_text("utf-8")
    names = re.findall(r"#define (__\w+)\(x\)", text) + re.findall(r"inline float (\w+)\(float x\)", text)
    assert {"__expf", "__logf", "rsqrtf", "__frcp_rn"} <= set(names)
    calls = " + ".join(f"{name}(0.5f)" for name in names)
    calls += " + __powf(2.0f, 2.0f) + __fmaf_rn(1.0f, 2.0f, 3.0f) + fmaf(1.0f, 2.0f, 3.0f)"
    calls += " + __int_as_float(__float_as_int(1.0f)) + __uint_as_float(__float_as_uint(1.0f)) + __ldg(Q) + exp2f(1.0f)"
    run = fs.record("flash-attention-2")
    right = changed("flash-attention-2", (SUM, f"float sum = 0.0f * ({calls});"))
    plan = Plan(run.trace, right)
    assert judge(run, plan, cpu.run(plan), "cpu").ok


@pytest.mark.parametrize("name", ["__shfl_xor_sync", "__no_such_thing"])
def test_a_function_that_the_host_lacks_is_named(name: str) -> None:
    run = fs.record("flash-attention-2")
    use = (SUM, f"float sum = {name}(1);")
    declared = ("// fmaxf", f'extern "C" float {name}(float);\n// fmaxf')
    unknown, nowhere = changed("flash-attention-2", use), changed("flash-attention-2", declared, use)
    for source, how in (
        (unknown, "does not compile for the host: my.cu:"),
        (nowhere, f"does not link for the host: {name} is nowhere defined"),
    ):
        with pytest.raises(hostbuild.BuildError) as raised:
            cpu.run(Plan(run.trace, source))
        assert how in str(raised.value)
        assert f"If {name} is CUDA's, the host has no stand-in for it: check this kernel with the gpu" in str(raised.value)
