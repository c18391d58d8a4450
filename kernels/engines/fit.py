"""Whether a kernel.cu is one that a run's twin can be compared with; where it is not, a sentence says what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from ...trace.layout import KEY_MASK
from ...trace.trace import Trace
from .source import Function, Source, SourceError

TEMPLATES = {"Br": "block_rows", "Bc": "block_cols", "D": "head_dim"}
_BYTES = ("unsigned char", "bool", "uint8_t", "char")


def require_fit(trace: Trace, source: Source, probed: dict[str, dict[str, tuple[str, ...]]]) -> None:
    """Raise SourceError where the source lacks what the run's plan needs of it.

    probed: function -> step -> slots. Each probed step must be marked; a step of which nothing is probed need not
    be, but no marker may name a step that the twin does not take: it would be a misspelt one.
    """
    for number, launch in enumerate(trace.meta.launches):
        function = source.functions.get(launch.name)
        if function is None:
            there = f"; it has {_listed(source.functions)}" if source.functions else ""
            raise SourceError(
                f"{source.name} has no function __global__ void {launch.name}(…), which the twin launches{there}."
            )
        _require_steps(source, function, [step.name for step in trace.meta.steps if step.launch == number], probed)
        _require_parameters(trace, source, function)


def _require_steps(source: Source, function: Function, steps: list[str], probed: dict[str, dict[str, tuple[str, ...]]]) -> None:
    marked = [step.name for step in function.steps]
    missing = [step for step in probed.get(function.name, {}) if step not in marked]
    strange = [name for name in marked if name not in steps]
    its = f"The twin's steps are {_listed(steps)}."
    if missing:
        near = get_close_matches(missing[0], strange, 1, 0.5)
        meant = f" it marks {near[0]!r}, which the twin does not take." if near else ""
        wanted = f"{source.name} marks no step {missing[0]!r} in {function.name}"
        raise SourceError(f"{wanted}:{meant} {its}" if meant else f"{wanted}; write // step: {missing[0]} where it begins. {its}")
    if strange:
        near = get_close_matches(strange[0], [step for step in steps if step not in marked] or steps, 1, 0.0)
        raise SourceError(f"{source.name} marks a step {strange[0]!r} in {function.name}, which the twin does not take; the nearest is {near[0]!r}. {its}")


def _require_parameters(trace: Trace, source: Source, function: Function) -> None:
    arrays = [info.name for info in trace.meta.arrays if info.space == "hbm"]
    numbers = [*trace.meta.tiling, *(name for name, value in trace.meta.problem.items() if isinstance(value, int | float))]
    for name in function.templates:
        if name not in TEMPLATES:
            raise SourceError(f"{source.name}: {function.name} has a template parameter {name}, and the run gives {_listed(TEMPLATES)}.")
    for parameter in function.parameters:
        known = [*arrays, KEY_MASK] if parameter.pointer else numbers
        if parameter.name not in known:
            what = "a pointer" if parameter.pointer else "a number"
            raise SourceError(
                f"{source.name}: {function.name} takes {what} {parameter.name}, and the run has none of that name; it has"
                f" {_listed(dict.fromkeys(known))}."
            )
        if parameter.pointer and parameter.base not in (_BYTES if parameter.name == KEY_MASK else ("float",)):
            wanted = "unsigned char" if parameter.name == KEY_MASK else "float"
            raise SourceError(f"{source.name}: {function.name} takes {parameter.name} as {parameter.base}*, and it is handed {wanted}*.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" if " " in name else name for name in names)
