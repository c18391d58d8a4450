"""Compare a run with the CUDA kernel on an engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...trace.agreement import Agreement, Progress, agree
from ..kernel import Kernel
from ..record import Run
from ..registry import get
from . import cpu, gpu, recorded
from .child import Waiting
from .plan import Plan
from .result import EngineError, Result
from .source import Source

ENGINES = ("gpu", "cpu", "recorded")
Floats = NDArray[np.float32]


def engines() -> dict[str, str | None]:
    """Each engine, and why it is unavailable here, or None."""
    return {"gpu": gpu.unavailable(), "cpu": cpu.unavailable(), "recorded": recorded.unavailable()}


def unready(kernel: Kernel) -> str | None:
    """Why there is nothing to compare a kernel's twin with, or None."""
    return None if kernel.cuda_source.exists() else f"{kernel.title} has no kernel.cu yet, so there is nothing to compare with its twin."


def compare(
    run: Run, engine: str = "gpu", fmad: bool = True, progress: Progress | None = None,
    source: str | os.PathLike[str] | None = None,
) -> Agreement:
    """Run the CUDA kernel on the run's inputs and compare every slot after every step, and the arrays at the end.

    engine: "gpu" (CuPy), "cpu" (the host's compiler) or "recorded" (a capture made on a GPU). fmad: allow fused
    multiply-adds (gpu only). progress(done, total) is called while the kernel runs on the host and while steps are
    compared, and may raise to cancel. source: a .cu file of your own to check in place of the kernel.cu that ships,
    on "gpu" or "cpu": the same functions, parameters, shared arrays and `// step:` comments, in one file.
    Raises ValueError for an unknown engine or a run without numbers, EngineError where the engine cannot run, and
    where the source is not the twin's or a capture was made of another one.
    """
    last = len(run.trace.steps_kind)
    waiting = None if progress is None else lambda: progress(0, last)
    plan, result, note = execute(run, engine, fmad, source, waiting)
    return judge(run, plan, result, engine, note, progress)


def execute(
    run: Run, engine: str, fmad: bool = True, source: str | os.PathLike[str] | None = None, waiting: Waiting | None = None
) -> tuple[Plan, Result, str]:
    """The work of a run, what the engine brought back, and a note on it ("" if there is nothing to say). Raises as `compare`."""
    if engine not in ENGINES:
        raise ValueError(f"There is no engine {engine!r}: choose one of {', '.join(ENGINES)}.")
    kernel = get(run.kernel)
    if source is not None and engine == "recorded":
        raise ValueError(f"The recorded engine holds what the shipped kernel.cu did; check {Path(source).name} with the cpu or gpu engine.")
    if source is None and (why := unready(kernel)):
        raise EngineError(why)
    plan = Plan(run.trace, Source.read(kernel.cuda_source if source is None else Path(source)))
    if engine == "gpu":
        return plan, gpu.run(plan, fmad=fmad), ""
    if engine == "cpu":
        return plan, cpu.run(plan, waiting=waiting), gpu.too_much_shared(plan.trace) or ""
    capture = recorded.find(run)
    if why := recorded.outdated(capture, kernel):
        raise EngineError(why)
    return plan, capture.result, ""


def judge(
    run: Run, plan: Plan, result: Result, engine: str, note: str = "", progress: Progress | None = None
) -> Agreement:
    """The verdict on what an engine brought back. Raises EngineError if the kernel took other steps."""
    assert result.probes is not None
    where, which = plan.marks
    if not np.array_equal(result.probes[where], which):
        wrong = int(np.flatnonzero(result.probes[where] != which)[0])
        raise EngineError(
            f"The kernel did not take the twin's steps: at the {wrong + 1}th probed step it was elsewhere. Does each"
            " marked step run as often as the twin's?"
        )
    return agree(
        run.trace, _observed(plan, result.probes), result.arrays, engine=engine, device=result.device, note=note, progress=progress
    )


def _observed(plan: Plan, probes: Floats) -> Iterator[tuple[int, str, Floats]]:
    for probe in plan.probes:
        yield probe.step, probe.slot, probe.of(probes)
