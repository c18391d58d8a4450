"""The answers of the lesson on FlashAttention 2, worked out again from Q, K and V with NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attention_rows import first_rise, mean_of_values, row_scores, sum_of_values

import flashstep as fs
from flashstep.kernels.record import Run


def carry(run: Run) -> float:
    """Where a maximum first rises: the unnormalised output of that row over all keys up to that tile. Queries outside."""
    plane, row, keys, _ = first_rise(run, keys_outside=False)
    return sum_of_values(run, plane, row, keys)


def log_sum_exp(run: Run) -> float:
    """Of row 0, by NumPy's own pairwise sum of exponentials of logarithms."""
    return float(np.logaddexp.reduce(row_scores(run, 0, 0)))


def blind(run: Run) -> float:
    del run  # the question is about another run
    return log_sum_exp(fs.record("flash-attention-2", inputs="fully-masked-row"))


def decoding(run: Run) -> float:
    del run
    one = fs.record("flash-attention-2", inputs="decode").problem
    assert one.seqlen_q == 1
    return float(one.batch * one.heads)


ANSWERS: dict[str, Callable[[Run], float]] = {
    "carry": carry,
    "divide": lambda run: mean_of_values(run, 0, 0, run.problem.seqlen_k),
    "lse": log_sum_exp,
    "keys": lambda run: float(-(-run.problem.seqlen_q // run.tiling.block_rows)),
    "blind": blind,
    "decoding": decoding,
}
