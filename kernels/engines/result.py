"""What comes back from an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


class EngineError(RuntimeError):
    """An engine that cannot run, or a kernel that did not end well: one sentence says why."""


@dataclass(frozen=True)
class Result:
    """The arrays in HBM after the run, by name; the probe buffer (NaN where nothing was written) or None;
    and for each launch the blocks' start and end in nanoseconds and their SM, (blocks, 3). findings: what the engine
    saw go wrong that no number need show, a sentence each without its full stop."""

    arrays: dict[str, NDArray[Any]]
    probes: NDArray[np.float32] | None = None
    times: list[NDArray[np.uint64]] = field(default_factory=list)
    device: dict[str, Any] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
