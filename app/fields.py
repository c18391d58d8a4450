"""The fields of the parameter form: what each is called, where it stands and what it holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..kernels.inputs import PRESETS
from ..kernels.kernel import Kernel
from .parameters import FROM_ARRAYS, VALUES, Parsed

# name: (label, what it means, characters it needs)
NUMBERS = {
    "seqlen_q": ("Nq", "queries (seqlen_q)", 4),
    "seqlen_k": ("Nk", "keys (seqlen_k)", 4),
    "head_dim": ("d", "numbers a head (head_dim)", 3),
    "block_rows": ("Br", "query rows a tile (block_rows)", 3),
    "block_cols": ("Bc", "keys a tile (block_cols)", 3),
    "splits": ("splits", "parts of the keys that run side by side", 2),
    "heads": ("heads", "query heads", 2),
    "batch": ("batch", "problems side by side", 2),
    "kv_heads": ("key-value heads", "heads of K and V (kv_heads); query heads share them in groups", 3),
    "scale": ("scale", "multiplies the scores; empty is 1/√d", 6),
    "seed": ("seed", "of the random numbers", 3),
}
MATRIX = {
    "seqlen_q": ("rows", "rows of x (seqlen_q)", 4),
    "seqlen_k": ("columns", "columns of x (seqlen_k)", 4),
}
# On the bar, in this order; the rest stands on the sheet behind "More".
BAR = (
    "seqlen_q",
    "seqlen_k",
    "head_dim",
    "block_rows",
    "block_cols",
    "splits",
    "heads",
    "causal",
    "inputs",
    "seed",
)
SHEET = ("batch", "kv_heads", "scale", "values", "focus")
NAME = re.compile(r"\b[a-z]+_[a-z]+\b")


@dataclass(frozen=True)
class Field:
    """One field as the template draws it. `kind` is number, toggle or choice."""

    name: str
    label: str
    about: str
    kind: str
    text: str
    default: str
    error: str | None
    on_bar: bool
    fixed: bool  # decided by the person's arrays
    characters: int = 3
    choices: tuple[tuple[str, str, str], ...] = ()  # (value, label, about)


def fields(kernel: Kernel, parsed: Parsed) -> list[Field]:
    """The form's fields, those of the bar first."""
    own = bool(parsed.texts.get("arrays")) and "arrays" not in parsed.errors
    bar = [name for name in BAR if not (name == "seqlen_q" and kernel.overrides.get("seqlen_q") == 1)]
    names = [*bar, *(name for name in (*BAR, *SHEET) if name not in bar)]
    names = [name for name in names if name in kernel.parameters or name in ("values", "focus")]
    found = [_field(kernel, parsed, name, own, name in bar) for name in names]
    # A preset and its seed mean nothing beside the person's own arrays, whose chip stands in their place.
    return [field for field in found if not (own and field.name in ("inputs", "seed"))]


def spoken(sentence: str, labels: Mapping[str, str]) -> str:
    """A sentence of the library's in the form's words: "block_cols of 32" is "Bc of 32" where Bc is what the field is called."""
    return NAME.sub(lambda name: labels.get(name[0], name[0]), sentence)


def _field(kernel: Kernel, parsed: Parsed, name: str, own: bool, on_bar: bool) -> Field:
    text = parsed.texts.get(name, "")
    numbers = NUMBERS | (MATRIX if kernel.matrix else {})
    error = parsed.errors.get(name)
    if error is not None:
        error = spoken(error, {each: label for each, (label, _, _) in numbers.items()})
    common: dict[str, Any] = {"text": text, "error": error, "on_bar": on_bar, "fixed": own and name in FROM_ARRAYS}
    if name == "causal":
        return Field(name, "causal", "a query sees no later key; aligned bottom-right", "toggle",
                     default="false", **common)  # fmt: skip
    if name == "inputs":
        choices = tuple((preset, preset.replace("-", " "), PRESETS[preset]) for preset in kernel.presets)
        return Field(name, "inputs", "the numbers that q, k and v hold", "choice", default="random", choices=choices,
                     **common)  # fmt: skip
    if name == "values":
        about = {
            "auto": "as fits",
            "all": "of every block",
            "focus": "of one block",
            "none": "none, structure only",
        }
        choices = tuple((value, about[value], "") for value in VALUES)
        return Field(name, "values kept", "which blocks' numbers are recorded", "choice", default="auto",
                     choices=choices, **(common | {"text": text or "auto"}))  # fmt: skip
    if name == "focus":
        return Field(name, "focus block", "the block whose numbers are kept when not all fit", "number", default="0",
                     **(common | {"text": text or "0"}))  # fmt: skip
    label, about_it, characters = numbers[name]
    characters = max(characters, min(len(text), 9))
    default = (
        "" if kernel.defaults(parsed.preset)[name] is None else str(kernel.defaults(parsed.preset)[name])
    )
    return Field(name, label, about_it, "number", default=default, characters=characters, **common)
