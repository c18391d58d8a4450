"""What is wrong with a command as it was typed, in the words that the page has for its form."""

from __future__ import annotations

from typing import Any

import typer

from ..kernels.problem import Problem, Tiling

EXAMPLES = {**vars(Problem()), **vars(Tiling()), "scale": 0.5}


def sentence(error: typer.TyperException) -> str:
    """One sentence that names the option and says what would be right."""
    param: Any = getattr(error, "param", None)
    faults = getattr(error.__cause__, "errors", None)
    if param is not None and faults is not None:
        return _bad_value(param, faults()[0])
    if param is not None and type(error).__name__ == "MissingParameter":
        return f"{_what(param)} is missing; say {_said(param)}."
    option, possible = getattr(error, "option_name", None), getattr(error, "possibilities", None)
    if option is not None and hasattr(error, "possibilities"):
        meant = f"did you mean {' or '.join(possible)}?" if possible else "see flashstep --help for those there are."
        return f"There is no option {option}; {meant}"
    return f"{error.format_message().rstrip('.')}; see flashstep --help."


def _bad_value(param: Any, fault: dict[str, Any]) -> str:
    """A value that is no number, or is out of range. fault: as pydantic tells it."""
    from .parameters import number_fault  # more than a command that is typed well needs

    text, bounds = str(fault["input"]), fault.get("ctx", {})
    example = next((one for one in (EXAMPLES.get(param.name), param.default) if one is not None), 1)
    if "le" in bounds or "ge" in bounds:
        wanted = f"at most {bounds['le']:,}" if "le" in bounds else f"at least {bounds['ge']:,}"
        return f"{_what(param)}: “{text}” is out of range; write {wanted}."
    kind = "number" if fault["type"].startswith("float") else "whole number"
    return f"{_what(param)}: {number_fault(fault['input'], text, kind)}; write one such as {example}."


def _what(param: Any) -> str:
    """An option by its long name, an argument by its word."""
    return str(max(param.opts, key=len)) if param.param_type_name == "option" else f"The {param.name}"


def _said(param: Any) -> str:
    if param.param_type_name == "option":
        return f"{min(param.opts, key=len)} and a value, such as {min(param.opts, key=len)} run.safetensors"
    if param.name == "source":
        return "a saved run or the name of a kernel"
    return "which, as in flashstep record standard -o run.safetensors"
