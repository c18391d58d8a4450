"""Each thing that a reader checks of a file, broken alone: it is refused, and the sentence says which it was."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

import flashstep as fs
from flashstep.trace.events import NONE, Kind

RUN = fs.record("flash-decoding", seqlen_k=7, splits=3, heads=2, key_mask=[[True] * 7])
DATA = RUN.to_bytes()
META = RUN.trace.meta
NODES, ARRAYS = len(META.nodes), len(META.arrays)
Columns = dict[str, np.ndarray]


def event(*kinds: Kind, launch: int = 0, tiles: int = 1) -> int:
    """The first event of one of these kinds in a launch."""
    events = RUN.trace.events
    of = np.array([RUN.trace.step_info(int(t)).launch for t in RUN.trace.event_step])
    return int(np.flatnonzero(np.isin(events.kind, kinds) & (of == launch) & (events.tiles >= tiles))[0])


def put(name: str, place: int | tuple[int, int], value: int) -> Callable[[Columns], Any]:
    return lambda columns: columns[name].__setitem__(place, value)


LOAD, STORE, FILL = event(Kind.LOAD), event(Kind.STORE, Kind.PARTIAL), event(Kind.FILL)
GATHER = event(Kind.LOAD, launch=1, tiles=3)  # of all partials of a head
ONE = next(n for n in range(FILL) if RUN.trace.events.kind[n] == Kind.INIT and RUN.trace.events.cols[n] == 1)
J = next(step.index for step in RUN.trace.steps if step.loops)
DEEP = functools.reduce(lambda inner, _: ["call", "exp", inner], range(33), ["num", 1])
TOTAL = len(RUN.trace.values)


def beyond_the_head(columns: Columns) -> None:
    """Three tiles from the second on, of which only two are this head's, and two are what is said to have come."""
    columns["events.tile"][GATHER], columns["events.rows"][GATHER] = 1, 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda columns: columns.update({"events.flops": columns["events.flops"][1:]}), "columns differ in length"),
        (lambda columns: columns.update({"steps.args": columns["steps.args"][1:]}), "columns differ in length"),
        (lambda columns: columns.update({n: c[:0] for n, c in columns.items() if "steps." in n}), "the start is missing"),
        (put("steps.kind", 0, 1), "the start is missing"),
        (put("steps.events", 0, 1), "the start is missing"),
        (put("steps.kind", -1, len(META.steps)), "a step is of a kind that is not there"),
        (put("steps.caption", 3, len(META.captions)), "a step has a caption that is not there"),
        (put("steps.events", -1, len(RUN.trace.events) - 1), "the steps' events do not add up"),
        (put("steps.events", -1, len(RUN.trace.events) + 1), "the steps' events do not add up"),
        (put("steps.events", 3, len(RUN.trace.events)), "the steps' events do not add up"),
        (put("steps.args", -1, len(RUN.trace.args) + 1), "the steps' args do not add up"),
        (put("steps.kind", -1, 0), "there is a second start"),
        (put("steps.block", 1, 1), "steps are out of order"),
        (put("steps.block", -1, 2), "a step belongs to a block that is not there"),
        (put("steps.loop", (J, 0), NONE), "a step's loops are not those of its kind"),
        (put("steps.loop", (J, 1), 0), "a step's loops are not those of its kind"),
        (put("events.kind", 0, 7), "an event is of an unknown kind"),
        (put("events.src", LOAD, NODES), "an event touches something that is not there"),
        (put("events.dst", LOAD, NODES), "an event touches something that is not there"),
        (put("events.src", LOAD, ARRAYS), "a load does not go from an array to a slot"),
        (put("events.dst", LOAD, 0), "a load does not go from an array to a slot"),
        (put("events.src", STORE, 0), "a store does not go from a slot to an array"),
        (put("events.dst", STORE, ARRAYS), "a store does not go from a slot to an array"),
        (put("events.dst", FILL, NONE), "an event writes to something that is no slot"),
        (put("events.src", FILL, ARRAYS), "a slot stands for something that is no array"),
        (put("events.tile", LOAD, 2), "an event touches a tile that is not there"),
        (put("events.tile", LOAD, 2**32 - 1), "an event touches a tile that is not there"),
        (put("events.tiles", LOAD, 3), "an event touches a tile that is not there"),
        (put("events.tiles", LOAD, 0), "a transfer touches no tile"),
        (put("events.tiles", STORE, 0), "a transfer touches no tile"),
        (put("events.rows", FILL, 2), "an event is larger than its slot"),
        (put("events.cols", FILL, 5), "an event is larger than its slot"),
        (put("events.dst", ONE, META.launches[1].first_node), "an event touches a slot of another launch"),
        (put("events.dst", FILL, NODES - 1), "an event touches a slot of another launch"),
        (put("events.value", FILL, TOTAL), "an event's numbers lie outside the pool"),
        (put("events.value", FILL, -2), "an event's numbers lie outside the pool"),
        (put("events.rows", LOAD, 0), "a transfer is not of its tile's size"),
        (put("events.cols", STORE, 3), "a transfer is not of its tile's size"),
        (put("events.tile", GATHER, 1), "a transfer is not of its tile's size"),  # it would reach into the next head
        (beyond_the_head, "a transfer is not of its tile's size"),
        (put("events.tiles", GATHER, 2), "a transfer is not of its tile's size"),
        (lambda columns: columns.update({"outputs.O": columns["outputs.O"].astype(np.float64)}), "an output is not of float32"),
    ],
)
def test_columns(change: Callable[[Columns], Any], said: str) -> None:
    columns = {name: array.copy() for name, array in load_tensors(DATA).items()}
    change(columns)
    refused(columns, plain_meta(), f"The trace is damaged: {said}.")


HUGE = 2**24


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.update(format=2), "The trace has a format that this version cannot read: it should be 1."),
        (lambda m: m.update(format=True), "should have 'format' as int."),
        (lambda m: m["launches"][1].update(first_node=3), "The trace numbers the slots of launch combine wrongly."),
        (lambda m: m["launches"][1]["slots"].extend(m["launches"][1]["slots"][:1] * 1100), "slots; at most 1024 are read."),
        (lambda m: m["problem"].update(heads=-1), "'heads' of the problem is -1, out of range."),
        (lambda m: m["problem"].update(heads=2**31), "'heads' of the problem is 2147483648, out of range."),
        (lambda m: m["problem"].update(scale="1"), "the problem should have a scale."),
        (lambda m: m["problem"].update(key_mask=False), "the problem and the arrays disagree on a key mask."),
        (lambda m: m["problem"].update(causal=1), "the problem should have 'causal' as bool."),
        (lambda m: m["steps"][0].update(launch=0), "The trace has no start among its kinds of step."),
        (lambda m: m.update(steps=[]), "The trace has no start among its kinds of step."),
        (lambda m: m["captions"].append(1), "The trace has a caption that is not text."),
        (lambda m: m["tiling"].update(splits=1.5), "The trace has a tiling that is not made of whole numbers."),
        (lambda m: m.update(values="some"), "'values' of the header should be one of all, focus, none."),
        (lambda m: m.update(launches=[1]), "launches[0] should be an object."),
        (lambda m: m["arrays"][0].update(row_edges=[]), "'row_edges' of arrays[0] should run from 0 to 1."),
        (lambda m: m["arrays"][0].update(row_edges=[0, 2]), "'row_edges' of arrays[0] should run from 0 to 1."),
        (lambda m: m["arrays"][0].update(row_edges=[0, True]), "'row_edges' of arrays[0] should run from 0 to 1."),
        (lambda m: m["arrays"][1].update(row_edges=[0, 3, 3, 7]), "'row_edges' of arrays[1] should ascend."),
        (lambda m: m["arrays"][0].update(rows=HUGE, cols=HUGE, row_edges=[0, HUGE], col_edges=[0, HUGE]), "array Q claims"),
        (lambda m: m["arrays"][0].update(vector=True), "vector Q has 4 columns."),
        (lambda m: m["arrays"][0].update(initial=TOTAL), "Q lies outside the pool."),
        (lambda m: m["arrays"][7].update(rows=HUGE, row_edges=[0, HUGE]), "its arrays claim more than its stores"),
        (lambda m: m["launches"][0].update(grid=[{"axis": "x", "size": 2**30}] * 2), "a grid that no GPU could run."),
        (lambda m: m["launches"][0].update(grid=[]), "launches[0] has a grid that no GPU could run."),
        (lambda m: m["launches"][0].update(grid=[{"axis": "x", "size": 1}] * 9), "launches[0] has a grid that no GPU could run."),
        (lambda m: m["launches"][0].update(threads=0), "'threads' of launches[0] is 0, out of range."),
        (lambda m: m["steps"][1].update(launch=2), "steps[1] belongs to a launch that is not there."),
        (lambda m: m["steps"][1].update(loops=["a", "b", "c"]), "steps[1] should have at most two named loops."),
        (lambda m: m["steps"][1].update(loops=[1]), "steps[1] should have at most two named loops."),
        (lambda m: m["steps"][1].update(relabel={"a": 1}), "steps[1] relabels a slot with something that is no name."),
        (lambda m: m["steps"][1].update(formulas={"a": ["num", "1"]}), "a formula that this version does not know."),
        (lambda m: m["steps"][1].update(formulas={"a": ["ref", "Qi", -1, 0, "new"]}), "a formula that this version does not"),
        (lambda m: m["steps"][1].update(formulas={"a": ["ref", "Qi", 0, True, "new"]}), "a formula that this version does not"),
        (lambda m: m["steps"][1].update(formulas={"a": DEEP}), "a formula that this version does not know."),
        (lambda m: m["steps"][1].update(formulas={"a": ["const", "pi"]}), "a formula that this version does not know."),
        (lambda m: m["steps"][1].update(lines={"twin": [1, 2, 3]}), "steps[1] has lines that are not a first and a last."),
        (lambda m: m["steps"][1].update(lines={"twin": [1, 2.5]}), "steps[1] has lines that are not a first and a last."),
    ],
)
def test_the_header(change: Callable[[Any], Any], said: str) -> None:
    meta = plain_meta()
    change(meta)
    refused(load_tensors(DATA), meta, said)


def plain_meta() -> Any:
    size = int.from_bytes(DATA[:8], "little")
    meta = json.loads(json.loads(DATA[8 : 8 + size])["__metadata__"]["flashstep"])
    del meta["digest"]
    return meta


def refused(columns: Columns, meta: Any, said: str) -> None:
    with pytest.raises(fs.TraceError) as caught:
        fs.load_bytes(save_tensors(columns, {"flashstep": json.dumps(meta)}))
    assert said in str(caught.value)


def test_what_is_not_broken_is_read() -> None:
    assert fs.load_bytes(save_tensors(load_tensors(DATA), {"flashstep": json.dumps(plain_meta())})).to_bytes() == DATA
