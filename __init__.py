"""Flashstep: step through attention kernels tile by tile, with every number that moves.

    import flashstep as fs
    run = fs.record("flash-attention-2", q, k, v, block_rows=2, block_cols=2)
    run.trace.steps[12].caption, run.trace.state(12)["Oi"], run.trace.ledger()["K"]["loads"]
"""

from __future__ import annotations

from .kernels.engines.check import check
from .kernels.engines.compare import compare, engines
from .kernels.engines.result import EngineError
from .kernels.problem import ParameterError, Problem, Tiling
from .kernels.record import Estimate, Run, estimate, load, load_bytes, record
from .kernels.registry import KERNELS
from .trace import VERSION as __version__
from .trace.agreement import Agreement
from .trace.layout import TraceError
from .trace.trace import Trace

kernels = tuple(KERNELS)
"""The names of the kernels, in teaching order."""

__all__ = [
    "Agreement", "EngineError", "Estimate", "ParameterError", "Problem", "Run", "Tiling", "Trace", "TraceError",
    "__version__", "check", "compare", "engines", "estimate", "kernels", "load", "load_bytes", "record",
]  # fmt: skip
