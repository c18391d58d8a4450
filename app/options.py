"""The options that every command about a run shares: a kernel's parameters and a person's own arrays.

They are made from the fields of `Problem` and `Tiling`, so that the command line has the same names as Python, with
hyphens, and a new field needs one line of help here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
import typer
from numpy.typing import NDArray

from ..kernels.problem import Problem, Tiling
from .arrayfiles import KINDS, read_file
from .ownarrays import Arrays, ArraysError, settle, settle_mask
from .tables import size

HELP = {
    "batch": "Sequences in the batch.",
    "heads": "Query heads.",
    "kv_heads": "Key-value heads; they divide the query heads among them.",
    "seqlen_q": "Queries (rows of the matrix for online-softmax).",
    "seqlen_k": "Keys (columns of the matrix for online-softmax).",
    "head_dim": "Length of a query, key or value vector.",
    "causal": "Hide later keys from a query; the last query sees them all.",
    "scale": "Factor of the scores; 1/sqrt(head_dim) by default.",
    "inputs": "Named inputs: random, hand, equal, large, first-tile-masked, fully-masked-row or decode.",
    "seed": "Seed of random inputs.",
    "block_rows": "Br, the rows of a query tile.",
    "block_cols": "Bc, the keys of a key-value tile.",
    "splits": "Parts that flash-decoding splits the keys into.",
}
ARRAYS = {"q": "Q", "k": "K", "v": "V", "x": "The matrix of online-softmax", "key_mask": "The mask of visible keys"}
FORMS = {
    "key_mask": "a .npy file, as numpy.save writes it, with 1 for a visible key and 0 for any other, (keys) or (batch, keys)",
    "arrays": "a .npz file, as numpy.savez writes it, or .safetensors",
}
ARRAY_LIMIT = 2**30  # bytes of one file, and that it may unpack to
PROBLEM_PANEL, ARRAYS_PANEL = "The problem and its tiles", "Your own arrays"


@dataclass(frozen=True)
class Asked:
    """What a person asked a kernel to run on: `parameters` as `flashstep.record` takes them, and arrays in its order;
    `notes` say what of the arrays was changed on the way in."""

    parameters: dict[str, Any] = field(default_factory=dict)
    arrays: tuple[NDArray[np.generic], ...] = ()
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.parameters or self.arrays)


def parameter_types() -> dict[str, Any]:
    """The fields of `Problem` and `Tiling` that can be typed on a command line, with their types."""
    hints = {**get_type_hints(Problem), **get_type_hints(Tiling)}
    return {name: hint for name, hint in hints.items() if name in HELP}


def takes_a_problem(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give `command(..., asked: Asked)` an option for each parameter and array, instead of `asked`."""
    options = [
        _option(name, hint | None, HELP[name], PROBLEM_PANEL) for name, hint in parameter_types().items()
    ]
    for name, what in ARRAYS.items():
        options.append(_option(name, Path | None, f"{what}, from a .npy file.", ARRAYS_PANEL))
    options.append(
        _option("arrays", Path | None, "q, k, v (or x) and key_mask from one .npz or .safetensors file.", ARRAYS_PANEL)
    )
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "asked"]

    @functools.wraps(command)
    def wrapper(**given: Any) -> Any:
        shared = {option.name: given.pop(option.name) for option in options}
        files = {name: shared.pop(name) for name in (*ARRAYS, "arrays")}
        read = read_arrays({name: path for name, path in files.items() if path is not None})
        named = dict(read.arrays)
        parameters = {name: value for name, value in shared.items() if value is not None}
        if "key_mask" in named:
            parameters["key_mask"] = named.pop("key_mask")
        return command(**given, asked=Asked(parameters, tuple(named.values()), read.notes))

    # Typer reads both.
    vars(wrapper)["__signature__"] = inspect.Signature([*own, *options])
    wrapper.__annotations__ = {p.name: p.annotation for p in (*own, *options)}
    return wrapper


def _option(name: str, kind: Any, text: str, panel: str) -> inspect.Parameter:
    info = typer.Option(help=text, rich_help_panel=panel, show_default=False)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, info])


def _content(path: Path) -> bytes:
    """A file's bytes; of one that holds no arrays by its name, such as a device without an end, as many as tell what it is.

    Raises `OSError` and `ArraysError`.
    """
    arrays = path.suffix.lower().removeprefix(".") in KINDS
    with path.open("rb") as file:
        data = file.read(ARRAY_LIMIT + 1 if arrays else 64)
    if len(data) > ARRAY_LIMIT:
        raise ArraysError(f"{path} holds more than {size(ARRAY_LIMIT)}; pass smaller arrays.")
    return data


def read_arrays(files: dict[str, Path]) -> Arrays:
    """The arrays of `--q q.npy …` and `--arrays file.npz`, under the names that kernels know, in their order.

    Raises `ArraysError` (a ValueError).
    """
    found: dict[str, NDArray[np.generic]] = {}
    for option, path in files.items():
        try:
            data = _content(path)
        except OSError as error:
            why = "there is no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error)).lower()
            wanted = f"--{option.replace('_', '-')} takes {FORMS.get(option, 'an array in a .npy file, as numpy.save writes it')}"
            raise ArraysError(f"{path} cannot be read: {why}; {wanted}.") from None
        inside = read_file(path.name, data, ARRAY_LIMIT)
        if option != "arrays":
            if len(inside) != 1:
                names = ", ".join(inside)
                raise ArraysError(f"{path} holds {names}; pass it as --arrays, or one array a file.")
            inside = {option: next(iter(inside.values()))}
        if twice := found.keys() & inside.keys():
            raise ArraysError(f"{min(twice)} is given twice; leave it out of one of them.")
        found |= inside
    if not found:
        return Arrays({})
    if found.keys() == {"key_mask"}:  # a mask goes with named inputs too
        return settle_mask(found["key_mask"])
    return settle(found)
