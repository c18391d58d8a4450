"""Named inputs, each with a point, and the person's own arrays brought into shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .kernel import Floats, Inputs, Kernel, Mask
from .presets import PRESETS
from .problem import PROBLEM_FIELDS, TILING_FIELDS, ParameterError, Problem, Tiling

HAND_SCORES = (0.0, 1.0, 4.0, 2.0, 3.0)
HAND_VALUES = (1.0, 2.0, 3.0, 5.0, 4.0)
LARGE_SCORE = 2000.0


def make(kernel: Kernel, problem: Problem, tiling: Tiling) -> Inputs:
    """The arrays of a named input for this problem. Same problem, same arrays. Raises ParameterError."""
    p, preset = problem, problem.inputs
    rng = np.random.default_rng(p.seed)
    if kernel.matrix:
        return Inputs(x=_matrix(p, tiling, preset, rng))

    def normal(heads: int, length: int) -> Floats:
        return rng.standard_normal((p.batch, heads, length, p.head_dim), np.float32)

    q, k, v = normal(p.heads, p.seqlen_q), normal(p.kv_heads, p.seqlen_k), normal(p.kv_heads, p.seqlen_k)
    mask: Mask | None = None
    if preset == "hand":
        q, k, v = np.ones_like(q), np.empty_like(k), np.empty_like(v)
        k[..., 0], v[..., 0] = HAND_SCORES, HAND_VALUES
    elif preset == "equal":
        k[...] = k[:, :, :1]
    elif preset == "large":
        # Each key near one direction and each query along it: scores near 2,000 with a spread of a few ones.
        size = np.float32(np.sqrt(LARGE_SCORE / abs(p.effective_scale or 1.0) / p.head_dim))
        q, k = size + q / (4 * size), size + k / (4 * size)
    elif preset == "first-tile-masked":
        mask = np.ones((p.batch, p.seqlen_k), bool)
        mask[:, : tiling.block_cols] = False
    elif is_masked(kernel, p):
        mask = np.ones((p.batch, p.seqlen_k), bool)
        mask[-1] = False  # every query of the last sequence
    return Inputs(q, k, v, key_mask=mask)


def is_masked(kernel: Kernel, problem: Problem) -> bool:
    """Whether a named input comes with a key mask."""
    if kernel.matrix:
        return False
    by_causal = problem.causal and problem.seqlen_q > problem.seqlen_k
    return problem.inputs == "first-tile-masked" or (problem.inputs == "fully-masked-row" and not by_causal)


def _matrix(p: Problem, tiling: Tiling, preset: str, rng: np.random.Generator) -> Floats:
    x = rng.standard_normal((p.batch, p.heads, p.seqlen_q, p.seqlen_k), np.float32)
    if preset == "hand":
        x[...] = HAND_SCORES
    elif preset == "equal":
        x[...] = x[..., :1]
    elif preset == "large":
        x += np.float32(LARGE_SCORE)
    elif preset == "first-tile-masked":
        x[..., : tiling.block_cols] = -np.inf
    elif preset == "fully-masked-row":
        x[..., 0, :] = -np.inf
    return x


def own(
    kernel: Kernel, arrays: tuple[ArrayLike, ...], key_mask: ArrayLike | None, parameters: dict[str, Any]
) -> tuple[Problem, Tiling, Inputs]:
    """The person's arrays as float32 inputs, and the problem that their shapes describe.

    Attention: q (batch, heads, seqlen_q, head_dim), k and v (batch, kv_heads, seqlen_k, head_dim); or without
    batch and heads. A matrix kernel: x (rows, columns) or (batch, heads, rows, columns). Raises ParameterError.
    """
    wanted = ("x",) if kernel.matrix else ("q", "k", "v")
    if len(arrays) != len(wanted):
        takes = "one matrix, x" if kernel.matrix else "three arrays, q, k and v"
        raise ParameterError("arrays", f"{kernel.title} takes {takes}, not {len(arrays)}.")
    if parameters.get("inputs", "arrays") != "arrays":
        raise ParameterError("inputs", f"Your own arrays are the inputs: leave out inputs={parameters['inputs']!r}, or the arrays.")
    given = [_four(name, array) for name, array in zip(wanted, arrays, strict=True)]
    if kernel.matrix:
        batch, heads, rows, cols = given[0].shape
        sizes = {"batch": batch, "heads": heads, "kv_heads": 1, "seqlen_q": rows, "seqlen_k": cols, "head_dim": 1}
    else:
        q, k, v = given
        if k.shape != v.shape:
            raise ParameterError("arrays", f"k is {k.shape} and v is {v.shape}: they should have the same shape.")
        if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
            raise ParameterError(
                "arrays", f"q is {q.shape} and k is {k.shape}: batch (first) and head dimension (last) should agree."
            )
        sizes = {
            "batch": q.shape[0], "heads": q.shape[1], "kv_heads": k.shape[1],
            "seqlen_q": q.shape[2], "seqlen_k": k.shape[2], "head_dim": q.shape[3],
        }  # fmt: skip
    for name, size in sizes.items():
        if name in parameters and parameters[name] is not None and parameters[name] != size:
            raise ParameterError(name, f"{name} is {parameters[name]}, but the arrays say {size}: leave it out, or make them agree.")
    defaults = {**kernel.defaults(), **_tile_defaults(kernel, sizes)}
    problem, tiling = build(kernel, {**defaults, **parameters, **sizes, "inputs": "arrays", "seed": 0})
    inputs = Inputs(x=given[0]) if kernel.matrix else Inputs(q=given[0], k=given[1], v=given[2])
    return problem, tiling, with_mask(kernel, problem, inputs, key_mask)


def _tile_defaults(kernel: Kernel, sizes: dict[str, int]) -> dict[str, int]:
    """The textbook's tiles for textbook sizes, and larger ones for larger arrays."""
    longest = max(sizes["seqlen_q"], sizes["seqlen_k"])
    if longest <= 64:
        return {}
    tile = 16 if longest <= 512 else 64
    return {"block_rows": tile, "block_cols": tile}


def with_mask(kernel: Kernel, problem: Problem, inputs: Inputs, key_mask: ArrayLike | None) -> Inputs:
    """The inputs with a key mask given as (batch, seqlen_k) or (seqlen_k,) booleans, True = visible."""
    if key_mask is None:
        return inputs
    if kernel.matrix:
        raise ParameterError("key_mask", f"{kernel.title} takes its matrix as it is: write −inf where a number should not count.")
    mask = np.asarray(key_mask)
    if mask.dtype != np.bool_:
        raise ParameterError("key_mask", f"The key mask should be boolean, True = visible, not {mask.dtype}.")
    if mask.shape not in ((problem.seqlen_k,), (problem.batch, problem.seqlen_k)):
        raise ParameterError(
            "key_mask",
            f"The key mask has shape {mask.shape}: it should be ({problem.batch}, {problem.seqlen_k}) or ({problem.seqlen_k},).",
        )
    return replace(inputs, key_mask=np.broadcast_to(mask, (problem.batch, problem.seqlen_k)))


def build(kernel: Kernel, parameters: dict[str, Any]) -> tuple[Problem, Tiling]:
    """Problem and Tiling from plain parameters; unknown names are refused. Raises ParameterError."""
    for name in parameters:
        if name not in PROBLEM_FIELDS and name not in TILING_FIELDS:
            raise ParameterError(name, f"There is no parameter {name!r}: there are {', '.join((*PROBLEM_FIELDS, *TILING_FIELDS))}.")
    problem = Problem(**{name: value for name, value in parameters.items() if name in PROBLEM_FIELDS})
    tiling = Tiling(**{name: value for name, value in parameters.items() if name in TILING_FIELDS})
    if kernel.one_query and problem.seqlen_q != 1:
        raise ParameterError("seqlen_q", f"{kernel.title} serves one new query at a time: seqlen_q should be 1.")
    if problem.inputs != "arrays":
        _check_preset(kernel, problem)
    if kernel.matrix and (problem.causal or problem.scale is not None):
        field = "causal" if problem.causal else "scale"
        raise ParameterError(field, f"{kernel.title} takes its matrix as it is: it has no use for {field}.")
    return problem, tiling


def _check_preset(kernel: Kernel, problem: Problem) -> None:
    """Named inputs suit the kernel, and the hand-sized ones keep their sizes. Raises ParameterError."""
    kernel.defaults(problem.inputs)
    if problem.inputs != "hand":
        return
    fixed = {"seqlen_k": 5} if kernel.matrix else {"seqlen_q": 1, "seqlen_k": 5, "head_dim": 1}
    for name, size in fixed.items():
        if getattr(problem, name) != size:
            raise ParameterError(name, f"The hand-sized inputs have {name} = {size}: leave it so, or choose other inputs.")


def _four(name: str, array: ArrayLike) -> Floats:
    try:
        given: NDArray[Any] = np.asarray(array)
    except ValueError as error:
        raise ParameterError("arrays", f"{name} is not a regular array of numbers: {error}.") from error
    if given.dtype.kind not in "fiub" :
        raise ParameterError("arrays", f"{name} holds {given.dtype}, and should hold real numbers.")
    if given.ndim == 2:
        given = given[None, None]
    if given.ndim != 4:
        raise ParameterError(
            "arrays", f"{name} has {given.ndim} dimensions: it should be (batch, heads, rows, columns) or (rows, columns)."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(given, np.float32)


__all__ = ["PRESETS", "build", "is_masked", "make", "own", "with_mask"]
