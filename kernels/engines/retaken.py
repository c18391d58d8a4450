"""Whether a saved run is one that its kernel's twin takes: a file may come from anywhere, and say anything of itself.

A comparison follows the trace into a kernel's shared memory and through every formula, so it asks for more than a
file that can be looked at. The twin runs again on the run's own inputs, without keeping a number, and what both say of
arrays, launches, slots, steps, formulas and events must be the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...trace.layout import Meta, TraceError
from ...trace.trace import Trace
from ..kernel import Kernel
from ..problem import ParameterError
from ..record import Run, record
from ..registry import get
from .capture import inputs_of

EVENTS = ("kind", "src", "dst", "tile", "tiles", "rows", "cols")
STEPS = ("kind", "block", "loop", "events")


def require_twins(run: Run) -> None:
    """Raise TraceError, with one sentence, where the twin of the run's kernel would not leave the run's trace.

    A run that kept no numbers is let through: there is nothing to run the twin on, and no engine takes it.
    Raises ParameterError for a kernel that there is not.
    """
    kernel = get(run.kernel)
    if run.trace.meta.values == "none":
        return
    try:
        again = _again(kernel, run)
    except (ParameterError, KeyError, ValueError) as error:
        raise _refusal(run, "its inputs or its sizes") from error
    if what := _differs(kernel, run.trace, again.trace):
        raise _refusal(run, what)


def _refusal(run: Run, what: str) -> TraceError:
    return TraceError(f"This run is not what the twin of {run.kernel} leaves, so nothing can be compared with it: {what} differ; record it again.")


def _again(kernel: Kernel, run: Run) -> Run:
    """The run taken again without numbers, in no more steps and no more memory than the trace says."""
    meta = run.trace.meta
    inputs = inputs_of(run).given()
    mask = inputs.pop("key_mask", None)
    asked = {**meta.tiling, "causal": run.problem.causal, "scale": meta.problem["scale"]}
    return record(
        kernel.name, *inputs.values(), key_mask=mask, values="none", max_steps=len(run.trace.steps_kind),
        max_hbm_bytes=4 * sum(array.size for array in meta.arrays if array.space == "hbm"),
        **{name: value for name, value in asked.items() if name in kernel.parameters},
    )  # fmt: skip


def _differs(kernel: Kernel, trace: Trace, again: Trace) -> str | None:
    """What of the trace is not the twin's, in words, or None."""
    for what, of in (("its sizes", _sizes), ("its arrays", _arrays), ("its launches and slots", _launches), ("its steps", _kinds)):
        if of(trace.meta, kernel) != of(again.meta, kernel):
            return what
    for name in STEPS:
        if not np.array_equal(getattr(trace, f"steps_{name}"), getattr(again, f"steps_{name}")):
            return "its steps"
    for name in EVENTS:
        if not np.array_equal(getattr(trace.events, name), getattr(again.events, name)):
            return "its events"
    return None


def _sizes(meta: Meta, kernel: Kernel) -> object:
    told = {**meta.tiling, **meta.problem}
    return [told.get(name) for name in kernel.parameters if name not in ("inputs", "seed")]


def _arrays(meta: Meta, _: Kernel) -> object:
    return [replace(array, initial=-1, filled=None) for array in meta.arrays]


def _launches(meta: Meta, _: Kernel) -> object:
    return [replace(launch, title="") for launch in meta.launches]


def _kinds(meta: Meta, _: Kernel) -> object:
    return [(step.name, step.launch, step.loops, step.formulas) for step in meta.steps]
