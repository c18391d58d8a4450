"""From what a person typed, or a link says, to what is recorded: every error belongs to a field.

Nothing is lost on the way: the texts as they came are kept beside what they mean, and each error is one sentence that
says what would be right. Keys that are not a kernel's parameters (step, cell, order, theme, …) are left alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..kernels.inputs import own
from ..kernels.kernel import Kernel
from ..kernels.limits import Limits
from ..kernels.problem import ParameterError
from ..kernels.record import Estimate, choose_values, estimate_within
from .arrays import GONE
from .ownarrays import ATTENTION, Array
from .settings import Settings
from .tables import short

VALUES = ("auto", "all", "focus", "none")
# What the person's own arrays decide: their shapes, and that no preset is drawn.
FROM_ARRAYS = ("batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim", "inputs", "seed")
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Request:
    """One recording, fully said: what `flashstep.record` is called with.

    `parameters` are the kernel's own fields; `arrays` the hash of the person's arrays, and `given` those arrays.
    `values` is what was asked (None: what fits) and `kept` what that comes to.
    """

    kernel: str
    parameters: dict[str, Any]
    values: str | None
    focus: int
    arrays: str | None
    kept: str = "all"
    given: dict[str, Array] = field(default_factory=dict, repr=False, compare=False)

    @property
    def positional(self) -> tuple[Any, ...]:
        """The person's arrays as `flashstep.record` and `flashstep.estimate` take them, after the kernel's name."""
        return _positional(self.given)

    @property
    def named(self) -> dict[str, Any]:
        """The named arguments that both take."""
        return {**self.parameters, "key_mask": self.given.get("key_mask")}

    def policy(self) -> dict[str, Any]:
        """What is kept. The focus decides nothing where all or no numbers are kept, so that one recording serves."""
        return {"values": self.kept, "focus": self.focus if self.kept == "focus" else 0}

    def body(self) -> dict[str, Any]:
        """The JSON that asks for this recording: the body of `POST /api/recordings`."""
        body: dict[str, Any] = {"kernel": self.kernel, **self.parameters, "focus": self.focus}
        if self.values is not None:
            body["values"] = self.values
        if self.arrays is not None:
            body["arrays"] = self.arrays
        return body

    def name(self) -> str:
        """The recording's id: the hash of everything that its bytes depend on."""
        parts = {**self.body(), **self.policy(), "numpy": np.__version__, "code": code_hash()}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Parsed:
    """What came of a form: the request, or the errors by field; and the texts to show again."""

    request: Request | None
    errors: dict[str, str]
    texts: dict[str, str]  # every field of the form: as typed, else its default
    preset: str
    sizes: Estimate | None = None  # of a request that may be recorded


def parse(
    kernel: Kernel,
    raw: Mapping[str, object],
    settings: Settings,
    arrays: Callable[[str], dict[str, Array] | None],
) -> Parsed:
    """Read the fields of `kernel` from a query or a JSON object; `arrays` finds the person's arrays by hash.

    Also estimates the recording, so that one beyond the limits is refused here, before work starts.
    """
    errors: dict[str, str] = {}
    preset = _preset(kernel, raw.get("inputs"), errors)
    given, arrays_name = _arrays(kernel, raw.get("arrays"), arrays, errors)
    defaults = _defaults(kernel, preset, given, errors)
    parameters: dict[str, Any] = {}
    for name in kernel.parameters:
        if arrays_name is not None and name in FROM_ARRAYS:
            continue
        parameters[name] = preset if name == "inputs" else _read(name, raw.get(name), defaults[name], errors)
    values = _values(raw.get("values"), errors)
    focus = _read("focus", raw.get("focus"), 0, errors)
    request = Request(kernel.name, parameters, values, focus, arrays_name, given=given)
    limits = Limits(settings.max_steps, settings.max_hbm_bytes, settings.max_flops)
    sizes = _collect(request, defaults, limits, errors)
    if sizes is not None and "values" not in errors and "focus" not in errors:
        try:
            kept = choose_values(sizes, values, focus, settings.value_bytes)
            request = replace(request, kept=kept)
        except ParameterError as error:
            errors.setdefault(_place(request, error.field), str(error))
    texts = {name: as_text(defaults[name]) for name in kernel.parameters}
    typed = [
        name for name in (*kernel.parameters, "values", "focus", "arrays") if as_text(raw.get(name)).strip()
    ]
    texts |= {name: as_text(raw[name]) for name in typed if not (given and name in FROM_ARRAYS)}
    return Parsed(None if errors else request, errors, texts, preset, sizes)


def _positional(given: dict[str, Array]) -> tuple[Array, ...]:
    """The arrays in the order in which a kernel takes them; the key mask is no argument by place."""
    return tuple(given[name] for name in (*ATTENTION, "x") if name in given)


def _defaults(kernel: Kernel, preset: str, given: dict[str, Array], errors: dict[str, str]) -> dict[str, Any]:
    """The value of each field where nothing was typed; the person's arrays decide their own sizes."""
    defaults = kernel.defaults(preset)
    if not given:
        return defaults
    try:
        problem, tiling, _ = own(kernel, _positional(given), given.get("key_mask"), {})
    except ParameterError as error:
        errors["arrays"] = str(error)
        return defaults
    found = {**vars(problem), **vars(tiling)}
    return {name: found[name] for name in defaults}


def _preset(kernel: Kernel, value: object, errors: dict[str, str]) -> str:
    if value is None or value == "":
        return "random"
    if isinstance(value, str) and value.strip() in kernel.presets:
        return value.strip()
    errors["inputs"] = (
        f"There are no inputs called “{_short(value)}”; choose one of {', '.join(kernel.presets)}."
    )
    return "random"


def _arrays(
    kernel: Kernel, value: object, find: Callable[[str], dict[str, Array] | None], errors: dict[str, str]
) -> tuple[dict[str, Array], str | None]:
    """The kept arrays that this kernel takes, and their hash."""
    if value is None or value == "":
        return {}, None
    found = find(value.strip()) if isinstance(value, str) else None
    if found is None:
        errors["arrays"] = GONE
        return {}, None
    names = ("x",) if kernel.matrix else ATTENTION
    missing = [name for name in names if name not in found]
    if missing:
        need = "one matrix x" if kernel.matrix else "q, k and v"
        errors["arrays"] = (
            f"{kernel.title} takes {need}, and these arrays hold {', '.join(sorted(found))}; send {need}."
        )
        return {}, None
    if not kernel.matrix and "key_mask" in found:
        names = (*names, "key_mask")
    return {name: found[name] for name in names}, str(value).strip()


WHOLE = re.compile(r"[+-]?[0-9]{1,15}")
DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
TRUTHS = {"true": True, "on": True, "1": True, "yes": True, "false": False, "off": False, "0": False, "no": False, "": False}


def truth(value: object) -> bool | None:
    """What a text or a JSON value says of a thing that is on or off; None where it says neither."""
    return TRUTHS.get(as_text(value).strip().lower())


def _read(name: str, value: object, default: Any, errors: dict[str, str]) -> Any:
    """One field from its text or JSON value; the default (and an error) where it cannot be read."""
    if value is None or (isinstance(value, str) and not value.strip() and name != "causal"):
        return default
    text = as_text(value).strip().replace("−", "-")
    if name == "causal":
        said = truth(value)
        if said is not None:
            return said
        errors[name] = f"“{_short(text)}” is neither on nor off; write true or false."
    elif name == "scale":
        if DECIMAL.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        errors[name] = f"{number_fault(value, text, 'number')}; write one such as 0.5, or leave it empty for 1/\u2060√d."
    else:
        if WHOLE.fullmatch(text):
            return int(text)
        example = default if isinstance(default, int) else 1
        errors[name] = f"{number_fault(value, text, 'whole number')}; write one such as {example}."
    return default


def number_fault(value: object, text: str, kind: str) -> str:
    """Why `text` cannot be read as a number: JSON's 1e400 is an infinity by now."""
    if isinstance(value, float) and math.isinf(value):
        return "The number that was sent is too large"
    large = DECIMAL.fullmatch(text) and (kind == "number" or text.lstrip("+-").isdecimal())
    return f"“{_short(text)}” is too large" if large else f"“{_short(text)}” is not a {kind}"


def _values(value: object, errors: dict[str, str]) -> str | None:
    if value is None or value in ("", "auto"):
        return None
    if isinstance(value, str) and value in VALUES:
        return value
    errors["values"] = f"“{_short(value)}” is not a choice of values; choose auto, all, focus or none."
    return None


def _collect(request: Request, defaults: dict[str, Any], limits: Limits, errors: dict[str, str]) -> Estimate | None:
    """The estimate of `request`, which is within `limits`; or every fault that the numerical core finds, one field after another.

    The core stops at the first fault, so a faulty field is put right and the rest is asked again.
    """
    if "arrays" in errors:
        return None
    parameters = dict(request.parameters)
    for _ in range(len(parameters) + 1):
        trial = replace(request, parameters=parameters)
        try:
            sizes = estimate_within(limits, trial.kernel, *trial.positional, **trial.named)
        except ParameterError as error:
            where = _place(request, error.field)
            errors.setdefault(where, str(error))
            if where not in parameters or parameters[where] == defaults[where]:
                return None
            parameters = {**parameters, where: defaults[where]}
        else:
            return sizes if parameters == request.parameters else None
    return None


def _place(request: Request, name: str) -> str:
    """The field of the form that an error is shown beside."""
    if name in request.parameters or name in ("values", "focus"):
        return name
    return "arrays" if request.arrays else next(iter(request.parameters))


def as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _short(value: object) -> str:
    return short(as_text(value))


@cache
def code_hash() -> str:
    """The hash of the code that makes recordings: a recording kept by an older version is never taken for its own.

    The CUDA sources too: a trace holds their text, and the lines of its steps in them.
    """
    digest = hashlib.sha256()
    for folder in ("trace", "kernels"):
        for path in sorted([*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.cu")]):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
