"""The CUDA sources: the steps they mark, the names they share with the twins, and that they compile for a GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import flashstep as fs
from flashstep.kernels.engines import gpu
from flashstep.kernels.engines.capture import problems
from flashstep.kernels.engines.plan import Plan
from flashstep.kernels.engines.source import MOST_BYTES, Source
from flashstep.kernels.registry import KERNELS
from flashstep.kernels.source import cuda_lines, step_lines

WITH_SOURCE = tuple(name for name, kernel in KERNELS.items() if kernel.cuda_source.exists())
"""A kernel may begin with its twin: it has nothing to say here yet."""


def source_of(kernel: str) -> Source:
    return Source.read(KERNELS[kernel].cuda_source)


@pytest.mark.parametrize("kernel", WITH_SOURCE)
def test_twin_and_source_name_the_same_steps_in_the_same_order(kernel: str) -> None:
    meta = fs.record(kernel).trace.meta
    functions = source_of(kernel).functions
    assert [launch.name for launch in meta.launches] == list(functions)
    for number, launch in enumerate(meta.launches):
        twin = [step.name for step in meta.steps if step.launch == number]
        assert [step.name for step in functions[launch.name].steps] == twin


@pytest.mark.parametrize("kernel", WITH_SOURCE)
def test_every_step_has_its_lines_in_both_sources(kernel: str) -> None:
    meta = fs.record(kernel).trace.meta
    for step in meta.steps[1:]:
        for name, marker in (("twin", f'block.step("{step.name}"'), ("cuda", f"// step: {step.name}")):
            first, last = step.lines[name]
            text = meta.sources[name].splitlines()
            assert marker in text[first - 1]
            assert first < last <= len(text)
    assert len(step_lines(KERNELS[kernel].source)) == len(meta.steps) - 1


@pytest.mark.parametrize("kernel", WITH_SOURCE)
def test_the_hash_is_over_the_code_and_not_the_comments(kernel: str) -> None:
    source = source_of(kernel)
    reworded = Source(re.sub(r"//(?! step).*", "// other words", source.text) + "\n\n// the end\n")
    assert reworded.hash == source.hash
    assert Source(source.text.replace("0.0f", "1.0f", 1)).hash != source.hash


@pytest.mark.parametrize("kernel", WITH_SOURCE)
def test_probes_are_put_where_each_step_ends(kernel: str) -> None:
    trace = fs.record(kernel).trace
    plan = Plan(trace, source_of(kernel))
    text = plan.source.probing(plan.slots, plan.shapes)
    assert text.count("FS_STEP(") == sum(len(steps) for steps in plan.slots.values())
    assert len(text.splitlines()) > len(plan.source.text.splitlines())
    probed = {(probe.step, probe.slot) for probe in plan.probes}
    for step in trace.steps[1:]:
        if step.name.startswith(("fill", "update")):
            assert any(at == step.index for at, _ in probed), step.label


@pytest.mark.parametrize("kernel", WITH_SOURCE)
def test_a_step_that_is_not_marked_is_named_with_those_of_the_twin(kernel: str) -> None:
    trace, text = fs.record(kernel).trace, source_of(kernel).text
    probed = {step for steps in Plan(trace, source_of(kernel)).slots.values() for step in steps}
    assert len(probed) > 2
    for step in {step.name for step in trace.meta.steps[1:]}:
        marker = f"// step: {step}\n"
        misspelt = text.replace(marker, f"// step: {step[1:]}\n")
        refused(trace, misspelt, repr(step), repr(step[1:]), "The twin's steps are 'block appears', ")
        if step in probed:
            unmarked = text.replace(marker, "\n")
            refused(trace, unmarked, f"kernel.cu marks no step {step!r} in ", f"write // step: {step} where it begins")
        else:
            Plan(trace, Source(text.replace(marker, "\n")))  # nothing is looked for there


def refused(trace: fs.Trace, text: str, *words: str) -> None:
    with pytest.raises(fs.EngineError) as raised:
        Plan(trace, Source(text))
    for word in words:
        assert word in str(raised.value)


@pytest.mark.parametrize(
    ("was", "becomes", "words"),
    [
        ("void flash_attention_2(", "void attention(", "(…), which the twin launches; it has attention"),
        ("float scale,", "float factor,", "takes a number factor, and the run has none of that name; it has"),
        ("const float* Q", "const float* query", "a pointer query, and the run has none of that name; it has Q, K, V, O, lse"),
        ("const float* Q", "const __half* Q", "takes Q as __half*, and it is handed float*"),
        ("int Bc, int D>", "int Bc, int Dim>", "has a template parameter Dim, and the run gives Br, Bc, D"),
        ("  // step: fill Sij", "  { // step: fill Sij", "has a brace that is never closed: it opens in line 16"),
        ("float* O, float* lse", "float* O, float *, float* lse", "has a parameter that cannot be read: 'float *'"),
    ],
)  # fmt: skip
def test_a_source_that_is_not_the_twins_says_what_would_be(was: str, becomes: str, words: str) -> None:
    text = source_of("flash-attention-2").text
    assert was in text
    refused(fs.record("flash-attention-2").trace, text.replace(was, becomes, 1), words)


def test_a_source_that_is_half_written_hinders_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(source_of("standard").text.rstrip().removesuffix("}"), "utf-8")
    assert cuda_lines(path, ["scores", "softmax", "values"]) == {}


@pytest.mark.parametrize("kernel", WITH_SOURCE)
@pytest.mark.parametrize("brace", ["}", "{", "}}}", '"{"'])
def test_braces_in_comments_and_literals_are_no_code(kernel: str, brace: str) -> None:
    """Each step ends where it did, whatever a comment within it, or on its marker's next line, holds."""
    source = source_of(kernel)
    wanted = {name: function.steps for name, function in source.functions.items()}
    lines = source.text.split("\n")
    for number, line in enumerate(lines):
        if line.strip() and not line.strip().startswith(("//", "#")) and not line.endswith("\\") and "//" not in line:
            commented = [*lines[:number], f"{line}  // {brace}", *lines[number + 1 :]]
            found = Source("\n".join(commented)).functions
            assert {name: function.steps for name, function in found.items()} == wanted, line


def test_a_step_may_be_marked_twice() -> None:
    text = source_of("online-softmax").text
    source = Source(text.replace("// step: update m, l\n", "// step: update m, l\n;\n// step: update m, l\n", 1))
    (function,) = source.functions.values()
    numbers = [function.number(step.name) for step in function.steps]
    assert len(set(numbers)) == len(numbers) - 1


@pytest.fixture(scope="module")
def nvrtc() -> Any:
    return pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC comes with cuda-bindings and nvidia-cuda-nvrtc")


@pytest.mark.slow
@pytest.mark.parametrize("kernel", WITH_SOURCE)
def test_every_instance_in_use_compiles_to_machine_code(kernel: str, nvrtc: Any) -> None:
    """Through NVRTC itself, unchanged, to sm_90, with no GPU and no driver; registers and shared memory reported."""
    source = source_of(kernel)
    instances: dict[str, int] = {}
    for asked in problems(KERNELS[kernel]).values():
        trace = fs.record(kernel, **asked).trace
        for launch, info in zip(Plan(trace, source).launches(), (i for i in trace.meta.launches if i.blocks), strict=True):
            instances[launch.instance] = info.shared_bytes
    program = taken(nvrtc, nvrtc.nvrtcCreateProgram(source.text.encode(), b"kernel.cu", 0, [], []))
    for instance in instances:
        taken(nvrtc, nvrtc.nvrtcAddNameExpression(program, instance.encode()))
    options = [b"--gpu-architecture=sm_90", b"--std=c++17", b"-ftz=true", b"--ptxas-options=-v"]
    status = nvrtc.nvrtcCompileProgram(program, len(options), options)
    text = log_of(nvrtc, program)
    taken(nvrtc, status)
    assert taken(nvrtc, nvrtc.nvrtcGetCUBINSize(program)) > 1000
    assert "warning" not in text
    used = dict(re.findall(r"Compiling entry function '(\w+)'.*?Used (\d+ registers[^\n]*)", text, re.S))
    for instance, shared in instances.items():
        name = taken(nvrtc, nvrtc.nvrtcGetLoweredName(program, instance.encode())).decode()
        report = used[name]
        registers = int(report.split()[0])
        smem = re.search(r"(\d+) bytes smem", report)
        print(f"{instance}: {registers} registers, {smem[1] if smem else 0} bytes of shared memory")
        assert registers <= 64  # nothing spills, and 128 threads fit many times
        # what the figure counts, and the mask and alpha that the kernel always has room for
        assert shared <= int(smem[1] if smem else 0) <= shared + 64 + 64


@pytest.mark.slow
@pytest.mark.parametrize("kernel", WITH_SOURCE)
@pytest.mark.parametrize("watched", [False, True])
def test_the_source_with_probes_compiles_for_a_gpu(kernel: str, watched: bool, nvrtc: Any) -> None:
    """As the gpu engine hands it over, without a warning; watched: with what tells where each block is."""
    plan = Plan(fs.record(kernel).trace, source_of(kernel))
    code = gpu.code_of(plan, watched)
    assert ("fs_seen" in code) == watched
    program = taken(nvrtc, nvrtc.nvrtcCreateProgram(code.encode(), b"kernel.cu", 0, [], []))
    for launch in plan.launches():
        taken(nvrtc, nvrtc.nvrtcAddNameExpression(program, launch.instance.encode()))
    options = [b"--gpu-architecture=sm_90", b"--std=c++17"]
    status = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = log_of(nvrtc, program)
    assert status[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS, log
    assert "warning" not in log


def taken(nvrtc: Any, answer: tuple[Any, ...]) -> Any:
    """The answer of an NVRTC call, or its error."""
    assert answer[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS, answer[0]
    return answer[1] if len(answer) > 1 else None


def log_of(nvrtc: Any, program: Any) -> str:
    """What the compiler said. NVRTC writes into the bytes that it is handed: never into those of one character, which the
    whole interpreter shares."""
    size: int = taken(nvrtc, nvrtc.nvrtcGetProgramLogSize(program))
    log = b" " * (size + 1)
    taken(nvrtc, nvrtc.nvrtcGetProgramLog(program, log))
    return log.decode().rstrip(" \0")


def test_a_source_without_an_end_is_refused(tmp_path: Path) -> None:
    endless = tmp_path / "endless.cu"
    endless.write_bytes(b"x" * (MOST_BYTES + 1))
    with pytest.raises(fs.EngineError, match="has more than 1 MiB; name a CUDA source"):
        Source.read(endless)
    endless.write_bytes(b"// \r\n" * 3)
    assert Source.read(endless).text == "// \n" * 3
