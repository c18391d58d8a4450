"""Check attention's output from anywhere against exact arithmetic, for a person's own tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...trace.agreement import Agreement, Divergence, Rounding, agree
from ...trace.bounds import HALF
from ..record import record


@dataclass(frozen=True)
class Precision:
    """A type of float: u is its unit roundoff, `tiny` half the distance between its subnormal numbers."""

    digits: int  # of the significand, the leading one included
    least: int  # exponent of the smallest normal number

    @property
    def rounding(self) -> Rounding:
        return 2.0**-self.digits, 2.0 ** (self.least - self.digits)


PRECISIONS = {"float16": Precision(11, -14), "bfloat16": Precision(8, -126), "float32": Precision(24, -126), "float64": Precision(53, -1022)}


def dtype_of(array: ArrayLike | Any) -> str:
    """The name of an array's type of number, wherever it lives: "float16" for torch.float16 too."""
    kind = getattr(array, "dtype", None)
    return (str(kind) if kind is not None else str(np.asarray(array).dtype)).removeprefix("torch.")


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
    batch and heads; lse, the natural logarithm, (batch, heads, seqlen_q). Inputs are taken as float32, which holds
    float16 and bfloat16 exactly. The bound is that of a right float32 kernel in any order of summation, tile by tile or
    with P divided first, with subnormal numbers kept: one that flushes them to zero differs where there are any. An output in
    float16 or bfloat16 may besides be rounded once to that type, by u |O| (u = 2^-11, 2^-8), and the verdict's `note` says
    so; a kernel that also keeps P or its sums in half precision lies outside. A float64 output is rounded to float32
    first, and the note says that. Raises ValueError where shapes do not fit, and for outputs of other types.

        verdict = fs.check(my_kernel(q, k, v), q, k, v, causal=True)
        assert verdict.ok, verdict.first_divergence
    """
    given = {"O": o} | ({"lse": lse} if lse is not None else {})
    types = {name: dtype_of(array) for name, array in given.items()}
    for name, kind in types.items():
        if kind not in PRECISIONS:
            raise ValueError(f"{name} is {kind}: check takes outputs in {', '.join(PRECISIONS)}.")
    arrays = [to_host(array) for array in (q, k, v)]
    mask = None if key_mask is None else to_host(key_mask)
    rows, keys = (max(1, min(256, array.shape[-2] if array.ndim > 1 else 1)) for array in arrays[:2])
    run = record(
        "flash-attention-2", *arrays, key_mask=mask, causal=causal, scale=scale, values="focus",
        block_rows=rows, block_cols=keys, budget_bytes=2**33,
    )  # fmt: skip
    outputs = {name: to_host(array) for name, array in given.items()}
    for name, array in outputs.items():
        wanted = run.outputs[name].shape
        if array.shape not in (wanted, wanted[2:]):
            raise ValueError(f"{name} is {array.shape}: for these inputs it should be {wanted}.")
    with np.errstate(all="ignore"):  # beyond float32 is an infinity, and a signalling NaN a NaN
        shaped = {name: np.asarray(array, np.float32).reshape(run.outputs[name].shape) for name, array in outputs.items()}
    rounding = {name: _rounding(name, kind, run.problem.seqlen_k) for name, kind in types.items()}
    note = " ".join(_type_note(name, kind) for name, kind in types.items() if kind != "float32")
    verdict = agree(run.trace, (), shaped, engine="your own", note=note, rounding=rounding)
    found = verdict.first_divergence
    if found is None:
        return verdict
    return replace(verdict, first_divergence=_placed(found, outputs[found.slot].shape, run.outputs[found.slot].shape))


def _rounding(name: str, kind: str, keys: int) -> Rounding:
    """What may be lost of an output besides the bound of FlashAttention 2, of which the check's own trace is.

    A kernel in other tiles, or one that divides P first, rounds O elsewhere: not by more of O's size, but with numbers
    so small that they are subnormal in the product with each key, and in a rescale and a division for each tile.
    """
    unit, least = PRECISIONS[kind].rounding if kind in ("float16", "bfloat16") else (0.0, 0.0)
    return unit, least + ((2 * keys + 1) * HALF if name == "O" else 0.0)


def _type_note(name: str, kind: str) -> str:
    if kind == "float64":
        return f"{name} is float64: it was rounded to float32 and held to the bound of float32."
    return f"{name} is {kind}: rounding it once to that type, by 2^-{PRECISIONS[kind].digits} of each value, is allowed besides what float32 is."


def _placed(found: Divergence, given: tuple[int, ...], shape: tuple[int, ...]) -> Divergence:
    """The divergence where it stands in the array that was given; there are no steps."""
    element = found.element
    plane, query = divmod(element.row, shape[2])
    batch, head = divmod(plane, shape[1])
    place = [f"query {query}"]
    if given == shape:
        place = [f"batch {batch}", f"head {head}", *place]
    if len(shape) == 4:
        place.append(f"feature {element.col}")
    return replace(found, label="", place=", ".join(place))
