"""The gpu engine's handling of kernels that fail or do not end, against a stand-in for CuPy; a GPU runs the last ones."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flashstep as fs
from flashstep.kernels.engines import child, gpu, gpuchild
from flashstep.kernels.engines.compare import sanitized
from flashstep.kernels.engines.plan import Plan
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS

# A CuPy whose device does nothing but leave marks: FAKE_CUPY says how a launch ends.
FAKE = '''
import os, sys, types
import numpy as np
HOW = os.environ.get("FAKE_CUPY", "")

class _Data:
    def __init__(self, ptr): self.ptr = ptr
class Array:
    def __init__(self, host): self.host, self.data = np.array(host), _Data(4096)
class ndarray:
    def __init__(self, shape, dtype, memptr): self.name = memptr
    def __setitem__(self, at, value): POINTERS[self.name] = value
POINTERS = {}
asarray = Array
full = lambda n, value, dtype: Array(np.full(n, value, dtype))
zeros = lambda shape, dtype: Array(np.zeros(shape, dtype))
asnumpy = lambda array: array.host

class Pinned(np.ndarray): pass
def alloc_pinned_memory(size):
    global SEEN
    SEEN = bytearray(size)
    class Memory(bytearray): ptr = 8192
    SEEN = Memory(size)
    return SEEN
class CUDADriverError(RuntimeError): pass
class CUDARuntimeError(RuntimeError): pass
class CompileException(Exception): pass

class RawModule:
    def __init__(self, code, options, name_expressions): self.code = code
    def compile(self):
        if HOW == "uncompiled": raise CompileException("my.cu(3): error: no such thing")
    def get_global(self, name):
        assert f"* {name};" in self.code, name
        return name
    def get_function(self, name):
        def launch(grid, block, arguments):
            if "fs_seen" in POINTERS:
                seen = np.frombuffer(SEEN, np.int64)
                seen[0] = -3
                if len(seen) > 1: seen[1] = 2
            if HOW == "refused": raise CUDADriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")
        return launch
def synchronize():
    if HOW == "wild": raise CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")
    if HOW == "trap": raise CUDARuntimeError("cudaErrorLaunchFailure: unspecified launch failure")
    if HOW == "other": raise CUDARuntimeError("cudaErrorUnknown: unknown error")
    if HOW == "dies": os.abort()
class Event:
    ptr = 1
    def __init__(self, disable_timing=False): pass
    def record(self): pass
class Device: id = 0
runtime = types.SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError, deviceSynchronize=synchronize, getDeviceCount=lambda: 1,
    eventQuery=lambda event: 600 if HOW == "loop" else 0,
    getDeviceProperties=lambda n: {"name": b"a stand-in", "multiProcessorCount": 1},
    driverGetVersion=lambda: 13000, runtimeGetVersion=lambda: 13000,
)
cuda = types.SimpleNamespace(
    runtime=runtime, driver=types.SimpleNamespace(CUDADriverError=CUDADriverError),
    compiler=types.SimpleNamespace(CompileException=CompileException),
    Event=Event, Device=Device, alloc_pinned_memory=alloc_pinned_memory, nvrtc=types.SimpleNamespace(getVersion=lambda: (13, 0)),
)
__version__ = "0"
'''


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    (tmp_path / "cupy.py").write_text(FAKE, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    real = sys.modules.pop("cupy", None)
    yield monkeypatch
    sys.modules.pop("cupy", None)
    if real is not None:
        sys.modules["cupy"] = real


def plan_of(kernel: str = "flash-attention-2") -> Plan:
    return Plan(fs.record(kernel).trace, Source(Source.read(KERNELS[kernel].cuda_source).text, "my.cu"))


SEEN = " It was last seen in flash_attention_2, after the step 'load K, V' of block 1."
OUTSIDE = "it read or wrote outside its arrays (cudaErrorIllegalAddress)"
ENDS = {
    "wild": f"flash_attention_2<4, 4, 4> failed on the GPU: {OUTSIDE}.{SEEN}",
    "trap": r"failed on the GPU: it stopped itself, as a trap does, .*cudaErrorLaunchFailure\)\." + SEEN,
    "other": r"failed on the GPU: unknown error \(cudaErrorUnknown\)\." + SEEN,
    "refused": r"failed on the GPU: invalid argument \(CUDA_ERROR_INVALID_VALUE\)\.",
    "loop": r"flash_attention_2<4, 4, 4> ran for 0\.2 seconds on the GPU and was stopped: does it end\?" + SEEN,
    "uncompiled": r"does not compile: my\.cu\(3\): error",
}


@pytest.mark.parametrize("how", ENDS)
def test_a_kernel_that_fails_in_its_process_is_told_in_a_sentence(how: str, fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_CUPY", how)
    with pytest.raises(fs.EngineError) as raised:
        gpuchild.run(plan_of(), seconds=0.2)
    said = str(raised.value)
    assert re.search(re.escape(ENDS[how]) if how == "wild" else ENDS[how], said), said
    assert "\n" not in said


def test_the_shipped_kernels_fail_in_a_sentence_too(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_CUPY", "wild")
    with pytest.raises(fs.EngineError) as raised:
        gpu.run(plan_of())
    assert str(raised.value) == f"flash_attention_2<4, 4, 4> failed on the GPU: {OUTSIDE}."


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_process_that_dies_is_told(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_CUPY", "dies")
    with pytest.raises(fs.EngineError, match=r"^The kernel's process on the GPU ended without an answer: the C library "):
        gpuchild.run(plan_of(), seconds=0.2)


def test_what_came_back_is_the_result(fake: pytest.MonkeyPatch) -> None:
    plan = plan_of("flash-decoding")
    result = gpuchild.run(plan, seconds=5)
    for name, array in plan.buffers.items():
        assert np.array_equal(result.arrays[name], array, equal_nan=True)
    assert result.probes is not None
    assert result.probes.shape == (plan.probe_size,)
    assert [clock.shape for clock in result.times] == [(len(launch.base) - 1, 3) for launch in plan.launches()]
    assert result.device["device"] == "a stand-in"


def test_a_source_of_ones_own_runs_in_a_process_of_its_own(fake: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = fs.record("online-softmax")
    own = tmp_path / "my.cu"
    own.write_text(Source.read(KERNELS["online-softmax"].cuda_source).text, "utf-8")
    began: list[Any] = []
    ran = child.run

    def watched(*given: Any, **options: Any) -> child.Ended:
        began.append(given[0])
        return ran(*given, **options)

    fake.setattr(child, "run", watched)
    for source, processes in ((None, 0), (own, 1)):
        with pytest.raises(fs.EngineError, match="did not take the twin's steps"):  # the stand-in takes none
            fs.compare(run, "gpu", source=source)
        assert len(began) == processes


def test_it_can_be_cancelled(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_CUPY", "loop")

    def cancel() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        gpuchild.run(plan_of(), waiting=cancel, seconds=60)


def test_how_to_get_cupy_names_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """No index is asked for a package of our name, which is not ours there."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    why = gpu.unavailable()
    assert why is not None
    assert "pip install '.[gpu-cuda13]' in Flashstep's checkout" in why
    for path in Path(__file__).resolve().parents[2].glob("**/*.md"):
        if ".venv" not in path.parts and "vendor" not in path.parts:
            assert not re.search(r"pip install '?flashstep", path.read_text("utf-8")), path


def test_what_a_gpu_does_not_check_is_said_with_what_does() -> None:
    run = fs.record("online-softmax")
    good = fs.compare(run, "recorded")
    note = sanitized(replace(good, engine="gpu", note="A note."), plan_of("online-softmax")).note
    assert note.startswith("A note. Barriers and steps outside an array are not checked on the gpu engine: the cpu engine")


@pytest.mark.parametrize("name", ["cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorInvalidAddressSpace"])
def test_a_wild_address_is_said_in_words_by_whatever_name(name: str) -> None:
    assert gpu.fault_words(RuntimeError(f"{name}: in CUDA's words")) == f"it read or wrote outside its arrays ({name})"


# On a GPU


on_gpu = [pytest.mark.gpu, pytest.mark.skipif(fs.engines()["gpu"] is not None, reason=str(fs.engines()["gpu"]))]
SUM = "float sum = 0.0f;"
WILD = {
    "wild": (SUM, f"{SUM} if (tid == 0) O[2000000000LL] = 1.0f;", r"it read or wrote outside its arrays"),
    "trap": (SUM, f'{SUM} asm("trap;");', r"failed on the GPU: it "),
    "loop": ("j < Tc; j++", "j < Tc; j += 0", r"was stopped: does it end\? It was last seen in .*, after the step '.*'"),
}


@pytest.mark.parametrize("how", [pytest.param(how, marks=on_gpu) for how in WILD])
def test_a_wild_kernel_on_a_gpu_is_told_and_the_next_one_runs(how: str, tmp_path: Path) -> None:
    was, becomes, said = WILD[how]
    text = Source.read(KERNELS["flash-attention-2"].cuda_source).text
    assert was in text
    own = tmp_path / "my.cu"
    own.write_text(text.replace(was, becomes, 1), "utf-8")
    run = fs.record("flash-attention-2")
    plan = Plan(run.trace, Source.read(own))
    with pytest.raises(fs.EngineError, match=said) as raised:
        gpuchild.run(plan, seconds=3)
    assert "It was last seen in flash_attention_2" in str(raised.value)
    own.write_text(text, "utf-8")
    verdict = fs.compare(run, "gpu", source=own)
    assert verdict.ok
    assert verdict.note.startswith("Barriers and steps outside an array are not checked on the gpu engine")
    assert fs.compare(run, "gpu").ok
