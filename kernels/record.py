"""Recording: run a kernel's twin on the recorder's machine and bring home outputs and trace."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..trace import VERSION, file
from ..trace.events import EVENT_COLUMNS, STEP_COLUMNS
from ..trace.layout import KEY_MASK, Meta, TraceError
from ..trace.recorder import Machine
from ..trace.tape import Progress
from ..trace.trace import Events, Trace, columns
from . import inputs as named
from .kernel import Floats, Inputs, Kernel
from .limits import MAX_HBM_BYTES, MAX_STEPS, Limits, what_fits
from .problem import ParameterError, Problem, Tiling, TooLarge
from .registry import get
from .source import cuda_lines, step_lines

BUDGET_BYTES = 512 * 2**20
MAX_POOL = 2**31 - 1  # offsets into the pool are 32-bit
CHOICES = ("all", "focus", "none")
FIELDS = {**vars(Problem()), **vars(Tiling())}


@dataclass(frozen=True)
class Estimate:
    """What a recording would take, known before it starts: steps, events, the bytes of kept numbers under each
    policy, the bytes of all arrays in HBM, and the operations. Never too small."""

    steps: int
    events: int
    value_bytes: dict[str, int]
    blocks: tuple[int, ...]
    hbm_bytes: int
    flops: int

    def fits(self, values: str, budget_bytes: int) -> bool:
        return self.value_bytes[values] <= min(budget_bytes, 4 * MAX_POOL)


@dataclass(frozen=True)
class Run:
    """A recorded run: what was asked, what came out (float32), and the trace of how."""

    kernel: str
    problem: Problem
    tiling: Tiling
    outputs: dict[str, Floats]
    trace: Trace

    def __repr__(self) -> str:
        return f"<Run with {self.trace!r}>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to one `.safetensors` file, whole or not at all."""
        file.save(self.trace, path)

    def to_bytes(self) -> bytes:
        """The bytes that `save` writes."""
        return file.to_bytes(self.trace)


def record(
    kernel: str,
    *arrays: ArrayLike,
    key_mask: ArrayLike | None = None,
    values: str | None = None,
    focus: int = 0,
    budget_bytes: int | None = None,
    max_steps: int | None = None,
    max_hbm_bytes: int | None = None,
    max_flops: int | None = None,
    progress: Progress | None = None,
    **parameters: Any,
) -> Run:
    """Run a kernel's twin and record every step.

    kernel: one of `flashstep.kernels`. arrays: q, k, v of shape (batch, heads, seqlen, head_dim) or
    (seqlen, head_dim); for online-softmax one matrix x; without them, `inputs` names some ("random", with
    `seed`) and the sizes are parameters. key_mask: boolean, (batch, seqlen_k) or (seqlen_k,), True = visible.
    values: keep the numbers of "all" blocks, of the "focus" block of each launch, or "none"; by default the
    most that fits budget_bytes (512 MiB). max_steps (1,000,000), max_hbm_bytes (8 GiB of arrays in the model's HBM)
    and max_flops (any number) bound the run. progress(done, total) is called several times a second, between steps,
    and may raise to cancel. Raises ParameterError (a ValueError) in one sentence for whatever is asked wrongly, before any work.
    """
    limits = Limits(
        MAX_STEPS if max_steps is None else max_steps,
        MAX_HBM_BYTES if max_hbm_bytes is None else max_hbm_bytes,
        max_flops,
    )
    chosen, problem, tiling, own, expected = _sized(kernel, arrays, key_mask, parameters, limits)
    refuse_too_large(chosen, problem, tiling, _masked(chosen, problem, own, key_mask), expected, limits)
    kept = choose_values(expected, values, focus, BUDGET_BYTES if budget_bytes is None else budget_bytes)
    if progress is not None:
        progress(0, expected.steps)
    machine = Machine(
        values=kept, focus=focus, capacity=-(-expected.value_bytes[kept] // 4), total_steps=expected.steps, progress=progress
    )
    given = _given(chosen, problem, tiling, own, key_mask)
    outputs = run_twin(chosen, machine, problem, tiling, given)
    outputs = {name: np.ascontiguousarray(array, np.float32) for name, array in outputs.items()}
    if progress is not None:
        progress(expected.steps, expected.steps)
    digest = _digest(given) if problem.inputs == "arrays" or key_mask is not None else None
    return Run(chosen.name, problem, tiling, outputs, trace_of(chosen, machine, problem, tiling, digest, outputs))


def estimate(
    kernel: str, *arrays: ArrayLike, key_mask: ArrayLike | None = None, **parameters: Any
) -> Estimate:
    """What `record` with the same arguments would leave behind. Raises ParameterError as it does."""
    return _sized(kernel, arrays, key_mask, parameters, Limits())[-1]


def estimate_within(
    limits: Limits, kernel: str, *arrays: ArrayLike, key_mask: ArrayLike | None = None, **parameters: Any
) -> Estimate:
    """As `estimate`, and refuses as `record` under these limits does what is beyond them. Raises ParameterError."""
    chosen, problem, tiling, own, expected = _sized(kernel, arrays, key_mask, parameters, limits)
    refuse_too_large(chosen, problem, tiling, _masked(chosen, problem, own, key_mask), expected, limits)
    return expected


def run_twin(kernel: Kernel, machine: Machine, problem: Problem, tiling: Tiling, given: Inputs) -> dict[str, Floats]:
    """The twin's outputs; the machine's tape, if it has one, remembers how."""
    # Infinities and NaN are met on purpose: -inf maxima, exp that underflows, a person's own NaN.
    with np.errstate(all="ignore"):
        return kernel.twin(machine, problem, tiling, given)


def prepare(
    name: str, arrays: tuple[ArrayLike, ...], key_mask: ArrayLike | None, parameters: dict[str, Any]
) -> tuple[Kernel, Problem, Tiling, Inputs]:
    """Kernel, problem, tiling and inputs from what was asked. Raises ParameterError."""
    kernel, problem, tiling, own = _ask(name, arrays, key_mask, parameters)
    return kernel, problem, tiling, _given(kernel, problem, tiling, own, key_mask)


def _ask(
    name: str, arrays: tuple[ArrayLike, ...], key_mask: ArrayLike | None, parameters: dict[str, Any]
) -> tuple[Kernel, Problem, Tiling, Inputs | None]:
    """What was asked, checked, with the person's own arrays if there are any. Named arrays are not made yet:
    sizes are known from the words alone, and a refusal must cost nothing."""
    kernel, asked = get(name), _asked(parameters)
    if arrays:
        return kernel, *named.own(kernel, arrays, key_mask, asked)
    problem, tiling = named.build(kernel, {**kernel.defaults(asked.get("inputs", "random")), **asked})
    return kernel, problem, tiling, None


def _sized(
    name: str, arrays: tuple[ArrayLike, ...], key_mask: ArrayLike | None, parameters: dict[str, Any], limits: Limits
) -> tuple[Kernel, Problem, Tiling, Inputs | None, Estimate]:
    """What was asked, and its estimate. A refusal of what no trace can number names sizes that fit `limits`."""
    kernel, asked = get(name), _asked(parameters)
    words: dict[str, Any] | None = None
    try:
        if not arrays:
            words = {**FIELDS, **kernel.defaults(asked.get("inputs", "random")), **asked}
        _, problem, tiling, own = _ask(name, arrays, key_mask, parameters)
        words = {**vars(problem), **vars(tiling)}
        return kernel, problem, tiling, own, size_of(kernel, problem, tiling, _masked(kernel, problem, own, key_mask))
    except TooLarge as error:
        if words is None:
            raise
        raise TooLarge(error.field, f"{error}{_what_fits(kernel, words, key_mask is not None, _within(limits))}") from None


def _masked(kernel: Kernel, problem: Problem, own: Inputs | None, key_mask: ArrayLike | None) -> bool:
    """Whether the run will have a key mask."""
    return key_mask is not None or (own is None and named.is_masked(kernel, problem))


def _given(kernel: Kernel, problem: Problem, tiling: Tiling, own: Inputs | None, key_mask: ArrayLike | None) -> Inputs:
    """The inputs: the person's own, or the named ones, made now."""
    return own or named.with_mask(kernel, problem, named.make(kernel, problem, tiling), key_mask)


def _asked(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters that were really given: None stands for a default. NumPy's numbers are taken as Python's."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}


def size_of(kernel: Kernel, problem: Problem, tiling: Tiling, key_mask: bool) -> Estimate:
    """The estimate from each launch's foretold size."""
    launches = kernel.sizes(problem, tiling, key_mask)
    standing = kernel.standing(problem, key_mask)
    return Estimate(
        steps=1 + sum(launch.steps for launch in launches),
        events=sum(launch.events for launch in launches),
        value_bytes={
            "all": 4 * (standing + sum(launch.kept for launch in launches)),
            "focus": 4 * (standing + sum(launch.kept_most + launch.stored for launch in launches)),
            "none": 0,
        },
        blocks=tuple(launch.blocks for launch in launches),
        hbm_bytes=4 * (standing + sum(launch.made for launch in launches)),
        flops=sum(launch.flops for launch in launches),
    )


def refuse_too_large(
    kernel: Kernel, problem: Problem, tiling: Tiling, key_mask: bool, expected: Estimate, limits: Limits
) -> None:
    """Raise ParameterError, with the estimate and sizes that would fit, for a run beyond any of the limits."""
    beyond = excess(expected, limits)
    if beyond:
        raise ParameterError("seqlen_k", beyond + _what_fits(kernel, {**vars(problem), **vars(tiling)}, key_mask, _within(limits)))


def excess(expected: Estimate, limits: Limits) -> str | None:
    """The first limit that a run would go beyond, in a sentence."""
    if expected.steps > limits.steps:
        return (
            f"This run would take {expected.steps:,} steps and {expected.events:,} events; at most {limits.steps:,} steps"
            " are recorded."
        )
    if expected.hbm_bytes > limits.hbm_bytes:
        return (
            f"The arrays of this run would take {mebibytes(expected.hbm_bytes)}, and {mebibytes(limits.hbm_bytes)} are"
            " allowed."
        )
    if limits.flops is not None and expected.flops > limits.flops:
        return f"This run would take {expected.flops:.2g} operations, and {limits.flops:.2g} are allowed."
    return None


def _within(limits: Limits) -> Callable[[Estimate], bool]:
    return lambda expected: excess(expected, limits) is None


def what_would_fit(
    holds: Callable[[Estimate], bool], kernel: str, *arrays: ArrayLike, key_mask: ArrayLike | None = None, **parameters: Any
) -> str:
    """Sizes near those asked for whose estimate `holds`: " It would fit with …." as `limits.what_fits` says it, or nothing.

    The rest as `estimate` takes it. Raises ParameterError as it does.
    """
    chosen, problem, tiling, own = _ask(kernel, arrays, key_mask, parameters)
    masked = _masked(chosen, problem, own, key_mask)
    return _what_fits(chosen, {**vars(problem), **vars(tiling)}, masked, holds)


def _what_fits(kernel: Kernel, words: dict[str, Any], key_mask: bool, holds: Callable[[Estimate], bool]) -> str:
    """Sizes that would fit, as `what_fits` says them, each tried by the estimate."""

    def fits(sizes: dict[str, int]) -> bool:
        try:
            problem, tiling = named.build(kernel, {**words, **sizes})
            expected = size_of(kernel, problem, tiling, key_mask or named.is_masked(kernel, problem))
        except ParameterError:
            return False
        return holds(expected)

    return what_fits(kernel, words, fits)


def choose_values(expected: Estimate, values: str | None, focus: int, budget_bytes: int) -> str:
    """The values policy to record with. Raises ParameterError, with the estimate and what would fit."""
    if values is not None and values not in CHOICES:
        raise ParameterError("values", f"values should be one of {', '.join(CHOICES)}, not {values!r}.")
    if isinstance(focus, bool) or not isinstance(focus, int | np.integer) or not 0 <= focus < max(1, *expected.blocks):
        raise ParameterError("focus", f"The focus should be a block from 0 to {max(1, *expected.blocks) - 1}, not {focus!r}.")
    if budget_bytes < 0:
        raise ParameterError("values", f"The budget should be 0 bytes or more, not {budget_bytes:,}.")
    fitting = [choice for choice in CHOICES if expected.fits(choice, budget_bytes)]
    if values is None:
        return fitting[0]
    if values not in fitting:
        raise ParameterError(
            "values",
            f"Keeping {values} values would take {mebibytes(expected.value_bytes[values])} of at most"
            f" {mebibytes(budget_bytes)}; values={fitting[0]!r} ({mebibytes(expected.value_bytes[fitting[0]])}) would fit.",
        )
    return values


def mebibytes(count: int) -> str:
    """A number of bytes as people read it: "12.3 MiB"."""
    return f"{count / 2**20:,.1f} MiB" if count else "0 MiB"


def _digest(given: Inputs) -> str:
    """The content of the person's arrays, as a hash."""
    content = hashlib.sha256()
    for name, array in given.given().items():
        content.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()


def trace_of(kernel: Kernel, machine: Machine, problem: Problem, tiling: Tiling, digest: str | None,
             outputs: dict[str, Floats]) -> Trace:  # fmt: skip
    """The machine's tape as columns, with all that the run's header says."""
    tape = machine.tape
    assert tape is not None
    twin, cuda = step_lines(kernel.source), cuda_lines(kernel.cuda_source, [launch.info.name for launch in machine.launches])
    steps = tuple(
        replace(
            step,
            lines={
                name: lines[step.launch, step.name]
                for name, lines in (("twin", twin), ("cuda", cuda))
                if (step.launch, step.name) in lines
            },
        )
        for step in machine.steps
    )
    launches = tuple(
        replace(launch.info, slots=tuple(slot.info for slot in launch.slots)) for launch in machine.launches
    )
    meta = Meta(
        kernel=kernel.name,
        title=kernel.title,
        generator=f"flashstep {VERSION} numpy {np.__version__}",
        problem={
            **asdict(problem),
            "scale": problem.effective_scale,
            "key_mask": any(array.info.name == KEY_MASK for array in machine.arrays),
            "arrays": digest,
        },
        tiling=asdict(tiling),
        values=tape.values,
        focus=tape.focus,
        arrays=tuple(array.info for array in machine.arrays),
        launches=launches,
        steps=steps,
        captions=tuple(tape.captions),
        sources={
            name: path.read_text("utf-8")
            for name, path in (("twin", kernel.source), ("cuda", kernel.cuda_source))
            if path.exists()
        },
    )
    table = columns(tape.step_rows, {
        "kind": np.uint16, "block": np.uint32, "loop0": np.uint16, "loop1": np.uint16,
        "events": np.uint32, "caption": np.uint16, "args": np.uint32,
    })  # fmt: skip
    table["loop"] = np.stack([table.pop("loop0"), table.pop("loop1")], axis=1)
    tape.close()
    return Trace(
        meta,
        Events(**columns(tape.rows, EVENT_COLUMNS)),
        {name: table[name] for name in STEP_COLUMNS},
        np.frombuffer(tape.args, np.float32) if tape.args else np.empty(0, np.float32),
        tape.pool[: tape.used],
        outputs,
    )


def load(path: str | os.PathLike[str]) -> Run:
    """Read a saved run. Raises TraceError (a ValueError) with one sentence if the file is not a sound trace."""
    return _run(file.load(path))


def load_bytes(data: bytes) -> Run:
    """As `load`, from the bytes of a file."""
    return _run(file.from_bytes(data))


def _run(trace: Trace) -> Run:
    asked = {k: v for k, v in trace.meta.problem.items() if k in Problem.__dataclass_fields__}
    try:
        problem, tiling = Problem(**asked), Tiling(**trace.meta.tiling)
    except (TypeError, ParameterError) as error:
        raise TraceError(f"The trace is damaged: it describes a problem that cannot be. {error}") from error
    return Run(trace.meta.kernel, problem, tiling, trace.outputs, trace)


__all__ = ["BUDGET_BYTES", "MAX_STEPS", "VERSION", "Estimate", "Run", "estimate", "load", "load_bytes", "record"]
