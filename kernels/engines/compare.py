"""Compare a run with the CUDA kernel on an engine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...trace import words
from ...trace.agreement import Agreement, Progress, agree
from ..kernel import Kernel
from ..record import Run
from ..registry import get
from . import cpu, gpu, gpuchild, recorded
from . import sanitize as sanitizers
from .child import Waiting
from .plan import Mark, Plan
from .result import EngineError, Result
from .retaken import require_twins
from .source import Source

ENGINES = ("gpu", "cpu", "recorded")
Floats = NDArray[np.float32]
UNSEEN = "Barriers are not checked in a run with probes, which bring their own: the sanitizers that look for missing ones were left out."
UNSEEN_GPU = (
    "Barriers and steps outside an array are not checked on the gpu engine: the cpu engine checks both, and so do"
    " compute-sanitizer's racecheck and memcheck."
)
LEFT = "{} has a return: a thread that has left copies nothing at a later probe, so its part of a slot reads NaN there."
_FAST = re.compile(r"\b__(?:expf|exp10f|logf|log2f|log10f|powf|sinf|cosf|tanf|fdividef)\b")


def engines() -> dict[str, str | None]:
    """Each engine, and why it is unavailable here, or None."""
    return {"gpu": gpu.unavailable(), "cpu": cpu.unavailable(), "recorded": recorded.unavailable()}


def unready(kernel: Kernel) -> str | None:
    """Why there is nothing to compare a kernel's twin with, or None."""
    return None if kernel.cuda_source.exists() else f"{kernel.title} has no kernel.cu yet, so there is nothing to compare with its twin."


def compare(
    run: Run, engine: str = "gpu", fmad: bool = True, progress: Progress | None = None,
    source: str | os.PathLike[str] | None = None, sanitize: bool = True,
) -> Agreement:
    """Run the CUDA kernel on the run's inputs and compare every slot after every step, and the arrays at the end.

    engine: "gpu" (CuPy), "cpu" (the host's compiler) or "recorded" (a capture made on a GPU). fmad: allow fused
    multiply-adds (gpu only). progress(done, total) is called while the kernel runs on the host and while steps are
    compared, and may raise to cancel. source: a .cu file of your own to check in place of the kernel.cu that ships,
    on "gpu" or "cpu": the same functions, parameters, shared arrays and `// step:` comments, in one file.
    sanitize: where your own source agrees on "cpu", run it again without probes under the compiler's sanitizers, which
    find missing barriers and steps outside an array; what they find is in the verdict's `findings`.
    Raises ValueError for an unknown engine, a run without numbers or one that its twin does not leave, EngineError where the engine cannot run, and
    where the source is not the twin's or a capture was made of another one.
    """
    last = len(run.trace.steps_kind)
    more = len(sanitizers.SANITIZERS) if source is not None and engine == "cpu" and sanitize else 0
    at = 0  # each sanitizer counts as a step more

    def told(done: int, total: int) -> None:
        nonlocal at
        at = done
        if progress is not None:
            progress(done, last + more)

    def waiting() -> None:
        told(at, last)

    plan, result, note = execute(run, engine, fmad, source, waiting)
    verdict = judge(run, plan, result, engine, note, told)
    if source is None:
        return verdict
    return sanitized(verdict, plan, sanitize, waiting, lambda done, _: told(last + done, last))


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
    require_twins(run)
    plan = Plan(run.trace, Source.read(kernel.cuda_source if source is None else Path(source)))
    if engine == "gpu":
        return plan, gpu.run(plan, fmad=fmad) if source is None else gpuchild.run(plan, fmad, waiting), ""
    if engine == "cpu":
        notes = [gpu.too_much_shared(plan.trace) or "", _fast(plan.source)]
        return plan, cpu.run(plan, waiting=waiting), " ".join(filter(None, notes))
    capture = recorded.find(run)
    if why := recorded.outdated(capture, kernel):
        raise EngineError(why)
    return plan, capture.result, ""


def judge(
    run: Run, plan: Plan, result: Result, engine: str, note: str = "", progress: Progress | None = None
) -> Agreement:
    """The verdict on what an engine brought back. Raises EngineError if the kernel took other steps."""
    assert result.probes is not None
    for mark in plan.marks:
        left = float(result.probes[mark.place])
        if left != mark.function.number(run.trace.step_info(mark.step).name):
            raise EngineError(_elsewhere(run, mark, left))
    verdict = agree(
        run.trace, _observed(plan, result.probes), result.arrays, engine=engine, device=result.device, note=note, progress=progress
    )
    return replace(verdict, findings=result.findings)


def sanitized(
    verdict: Agreement, plan: Plan, wanted: bool = True, waiting: Waiting | None = None, step: sanitizers.Step | None = None
) -> Agreement:
    """The verdict on a person's own source with what the sanitizers found, or with a note that says why they did not look.

    step(done, total) is called before each of them. Where numbers differ already they are not asked.
    """
    found = verdict.first_divergence
    if found is not None and found.element.got != found.element.got and re.search(r"\breturn\s*;", plan.source.code):
        verdict = _noted(verdict, LEFT.format(plan.source.name))
    if verdict.engine != "cpu":
        return _noted(verdict, UNSEEN_GPU)
    if not wanted:
        return _noted(verdict, UNSEEN)
    if found is not None:
        return verdict
    more = sanitizers.sanitize(plan, waiting, step)
    return _noted(replace(verdict, findings=verdict.findings + more.findings), more.note)


def _noted(verdict: Agreement, note: str) -> Agreement:
    return replace(verdict, note=" ".join(filter(None, (verdict.note, note))))


def _fast(source: Source) -> str:
    """That the host takes the exact functions for a GPU's fast ones, or ""."""
    used = sorted(set(_FAST.findall(source.code)))
    return f"For {words.listed(used)} the host takes the exact function: how far a GPU's lies from it is not seen here." if used else ""


def _elsewhere(run: Run, mark: Mark, left: float) -> str:
    """That a kernel took another step than the twin, which and where. left: the number that it left where the step's should stand."""
    trace = run.trace
    steps = mark.function.steps
    took = f"took {steps[int(left)].name!r}" if left in range(len(steps)) else "had left the kernel or taken fewer steps"
    where = ", ".join((*words.path(trace, mark.step), words.label(trace, mark.step)))
    return (
        f"The kernel did not take the twin's steps: at step {mark.step} ({where}), {trace.step_info(mark.step).name!r} for"
        f" the twin, it {took}. Does each marked step run as often as the twin's?"
    )


def _observed(plan: Plan, probes: Floats) -> Iterator[tuple[int, str, Floats]]:
    for probe in plan.probes:
        yield probe.step, probe.slot, probe.of(probes)
