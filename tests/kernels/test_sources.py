"""The CUDA sources: the steps they mark, the names they share with the twins, and that they compile for a GPU."""

from __future__ import annotations

import re
from typing import Any

import pytest

import flashstep as fs
from flashstep.kernels.engines.capture import problems
from flashstep.kernels.engines.plan import Plan
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS
from flashstep.kernels.source import step_lines

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
    text = plan.source.probing(plan.slots)
    assert text.count("FS_STEP(") == sum(len(steps) for steps in plan.slots.values())
    assert len(text.splitlines()) > len(plan.source.text.splitlines())
    probed = {(probe.step, probe.slot) for probe in plan.probes}
    for step in trace.steps[1:]:
        if step.name.startswith(("fill", "update")):
            assert any(at == step.index for at, _ in probed), step.label


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
    log = b" " * taken(nvrtc, nvrtc.nvrtcGetProgramLogSize(program))
    taken(nvrtc, nvrtc.nvrtcGetProgramLog(program, log))
    taken(nvrtc, status)
    text = log.decode()
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


def taken(nvrtc: Any, answer: tuple[Any, ...]) -> Any:
    """The answer of an NVRTC call, or its error."""
    assert answer[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS, answer[0]
    return answer[1] if len(answer) > 1 else None
