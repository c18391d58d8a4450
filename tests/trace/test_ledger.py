"""The ledger is the sum of the events."""

from __future__ import annotations

from collections import defaultdict

import pytest

import flashstep as fs
from flashstep.trace.events import Kind
from flashstep.trace.ledger import total


@pytest.mark.parametrize("kernel", fs.kernels)
def test_the_ledger_is_the_sum_of_the_events(kernel: str) -> None:
    trace = fs.record(kernel, heads=2, seqlen_k=7, block_cols=3).trace
    names = [array.name for array in trace.meta.arrays]
    size = {array.name: 4 for array in trace.meta.arrays}
    running: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for step in trace.steps:
        for event in range(*trace.event_range(step.index)):
            kind = trace.events.kind[event]
            if kind == Kind.LOAD:
                key = (names[trace.events.src[event]], "loads")
            elif kind in (Kind.STORE, Kind.PARTIAL):
                key = (names[trace.events.dst[event]], "stores")
            else:
                assert trace.events.elements[event] == 0
                continue
            elements = int(trace.events.elements[event])
            entry = running[key]
            entry[0], entry[1], entry[2] = entry[0] + 1, entry[1] + elements, entry[2] + elements * size[key[0]]
        for name, entries in trace.ledger(step.index).items():
            for direction, found in entries.items():
                assert list(found.values()) == running[name, direction], (step.index, name, direction)
    assert trace.ledger() == trace.ledger(len(trace.steps) - 1)


def test_more_than_fits_32_bits_is_counted() -> None:
    trace = fs.record("flash-attention-2").trace
    loads = trace.events.kind == Kind.LOAD
    trace.events.elements[loads] = 2**32 - 1
    count = int(loads.sum())
    assert total(trace.ledger(), "loads") == count * (2**32 - 1)
    assert total(trace.ledger(), "loads", "bytes") == 4 * count * (2**32 - 1)
    assert total(trace.ledger(), "loads", "transfers") == count
