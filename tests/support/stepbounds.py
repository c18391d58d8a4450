"""Whether a trace's own numbers lie within the bound, at every step."""

from __future__ import annotations

import numpy as np

import flashstep as fs
from flashstep.trace.bounds import Exact


def within_bounds(trace: fs.Trace) -> int:
    """How many numbers were held to the bound; each of them lies within it."""
    checked = 0
    for t, written in Exact(trace).walk():
        state = trace.state(t)
        for name, bound in written.items():
            got = state[name].reshape(bound.value.shape).astype(np.float64)
            with np.errstate(invalid="ignore"):
                near = np.abs(got - bound.value) <= bound.error
            assert np.all(near | (got == bound.value)), (trace.steps[t].label, name)
            checked += got.size
    return checked
