"""The ledger: what a run asked of HBM, array by array.

Traffic is *requested* traffic: every element that a block's loads and stores ask for, once per request,
re-reads included. It is a sum over the events and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .events import CROSSINGS, Kind

if TYPE_CHECKING:
    from .trace import Trace

Entry = dict[str, int]
Ledger = dict[str, dict[str, Entry]]


def ledger(trace: Trace, end: int) -> Ledger:
    """Transfers, elements and bytes per array and direction, over the events before `end`."""
    kind = trace.events.kind[:end]
    crossing = np.isin(kind, CROSSINGS)
    loads = kind == Kind.LOAD
    array = np.where(loads, trace.events.src[:end], trace.events.dst[:end])
    elements = trace.events.elements[:end].astype(np.int64)
    bytes_ = trace.event_bytes[:end]
    result: Ledger = {}
    for node, info in enumerate(trace.meta.arrays):
        if info.space != "hbm":
            continue
        result[info.name] = {}
        for direction, wanted in (("loads", loads), ("stores", crossing & ~loads)):
            chosen = wanted & (array == node)
            result[info.name][direction] = {
                "transfers": int(np.count_nonzero(chosen)),
                "elements": int(elements[chosen].sum()),
                "bytes": int(bytes_[chosen].sum()),
            }
    return result


def total(entries: Ledger, direction: str, unit: str = "elements") -> int:
    """One number over all arrays: `total(ledger, "loads", "bytes")`."""
    return sum(entry[direction][unit] for entry in entries.values())
