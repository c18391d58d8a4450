"""Compare a run with the CUDA kernel on an engine, or any arrays with the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...trace.agreement import Agreement, Progress, agree
from ..kernel import Kernel
from ..record import Run, record
from ..registry import get
from . import cpu, gpu, recorded
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


def compare(run: Run, engine: str = "gpu", fmad: bool = True, progress: Progress | None = None) -> Agreement:
    """Run the CUDA kernel on the run's inputs and compare every slot after every step, and the arrays at the end.

    engine: "gpu" (CuPy), "cpu" (the host's compiler) or "recorded" (a capture made on a GPU). fmad: allow fused
    multiply-adds (gpu only). progress(done, total) is called while steps are compared and may raise to cancel.
    Raises ValueError for an unknown engine or a run without numbers, EngineError where the engine cannot run.
    """
    plan, result, note = execute(run, engine, fmad)
    return judge(run, plan, result, engine, note, progress)


def execute(run: Run, engine: str, fmad: bool = True) -> tuple[Plan, Result, str]:
    """The work of a run, what the engine brought back, and a note on it ("" if there is nothing to say). Raises as `compare`."""
    if engine not in ENGINES:
        raise ValueError(f"There is no engine {engine!r}: choose one of {', '.join(ENGINES)}.")
    kernel = get(run.kernel)
    if why := unready(kernel):
        raise EngineError(why)
    plan = Plan(run.trace, Source.read(kernel.cuda_source))
    if engine == "gpu":
        return plan, gpu.run(plan, fmad=fmad), ""
    if engine == "cpu":
        return plan, cpu.run(plan), ""
    capture = recorded.find(run)
    old = recorded.stale(capture, kernel)
    note = "The kernel's source has changed since this capture was made: it shows the old kernel." if old else ""
    return plan, capture.result, note


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


def to_host(array: ArrayLike | Any) -> NDArray[Any]:
    """An array from anywhere (NumPy, CuPy, PyTorch) as NumPy."""
    if hasattr(array, "detach"):  # PyTorch
        array = array.detach().cpu().float().numpy()
    elif hasattr(array, "get") and hasattr(array, "data"):  # CuPy
        array = array.get()
    return np.asarray(array)


def check(
    o: ArrayLike | Any,
    q: ArrayLike | Any,
    k: ArrayLike | Any,
    v: ArrayLike | Any,
    *,
    causal: bool = False,
    key_mask: ArrayLike | Any | None = None,
    scale: float | None = None,
    lse: ArrayLike | Any | None = None,
) -> Agreement:
    """Check attention's output from anywhere (NumPy, CuPy, PyTorch) against exact arithmetic, for a person's own tests.

    o and q are (batch, heads, seqlen_q, head_dim), k and v (batch, kv_heads, seqlen_k, head_dim), or all without
    batch and heads; lse, the natural logarithm, (batch, heads, seqlen_q). Inputs are taken as float32. The bound
    is that of a right float32 kernel in any order of summation. Raises ValueError where shapes do not fit.

        assert fs.check(my_kernel(q, k, v), q, k, v, causal=True).ok
    """
    arrays = [to_host(array) for array in (q, k, v)]
    mask = None if key_mask is None else to_host(key_mask)
    rows, keys = (max(1, min(256, array.shape[-2] if array.ndim > 1 else 1)) for array in arrays[:2])
    run = record(
        "flash-attention-2", *arrays, key_mask=mask, causal=causal, scale=scale, values="focus",
        block_rows=rows, block_cols=keys, budget_bytes=2**33,
    )  # fmt: skip
    outputs = {"O": to_host(o)} | ({"lse": to_host(lse)} if lse is not None else {})
    for name, array in outputs.items():
        wanted = run.outputs[name].shape
        if array.shape not in (wanted, wanted[2:]):
            raise ValueError(f"{name} is {array.shape}: for these inputs it should be {wanted}.")
    shaped = {name: np.asarray(array, np.float32).reshape(run.outputs[name].shape) for name, array in outputs.items()}
    return agree(run.trace, (), shaped, engine="your own")
