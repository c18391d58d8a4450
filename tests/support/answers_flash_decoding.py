"""The answers of the lesson on flash decoding, worked out again with NumPy from the inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

import flashstep as fs
from flashstep.kernels.record import Run


def parts(run: Run) -> list[NDArray[np.float64]]:
    """The scores of the first head's one query, split by split; hidden keys −∞."""
    p, state = run.problem, run.trace.state(0)
    q, k = state["Q"][0, 0, 0].astype(np.float64), state["K"][0, 0].astype(np.float64)
    scores = p.effective_scale * (k @ q)
    if "key_mask" in state:
        scores = np.where(state["key_mask"].reshape(p.batch, -1)[0] != 0, scores, -np.inf)
    size = max(1, -(-p.seqlen_k // run.tiling.splits))
    return [scores[split * size : (split + 1) * size] for split in range(run.tiling.splits)]


def weight(run: Run) -> float:
    """The weight of the split with the lowest maximum."""
    most = [part.max(initial=-np.inf) for part in parts(run)]
    return float(np.exp(min(most) - max(most)))


def share(run: Run) -> float:
    """The share of softmax that falls on the keys of split 0."""
    found = parts(run)
    top = max(part.max(initial=-np.inf) for part in found)
    return float(np.exp(found[0] - top).sum() / sum(np.exp(part - top).sum() for part in found))


def moved(run: Run) -> int:
    """Every element that crossed, in both directions."""
    return sum(entry[way]["elements"] for entry in run.trace.ledger().values() for way in ("loads", "stores"))


def added(run: Run) -> int:
    """Against a run of the same problem with one split; where this is that run, of two against it."""
    asked = {**asdict(run.problem), **asdict(run.tiling)}
    asked.pop("block_rows")
    one, more = (
        moved(fs.record("flash-decoding", values="none", **asked | {"splits": splits}))
        for splits in (1, max(2, run.tiling.splits))
    )
    return more - one


ANSWERS: dict[str, Callable[[Run], float]] = {
    "idle": lambda run: max(0, 132 - run.problem.batch * run.problem.heads),
    "weight": weight,
    "merge": share,
    "added": added,
    "empty": lambda run: 0.0,
}
