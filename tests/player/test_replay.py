"""replay.js finds the state that trace/replay.py finds, at every step and in both orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import runs
from numpy.typing import NDArray

import flashstep as fs


def same(found: NDArray[np.float32], expected: NDArray[Any]) -> None:
    np.testing.assert_array_equal(found, expected.ravel())


def assembled(array: dict[str, Any], shape: tuple[int, int, int]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """An array of the page from its tiles: numbers, NaN where nothing was written, and what was."""
    planes, written = np.full(shape, np.nan, np.float32), np.zeros(shape, np.bool_)
    for n, tile in enumerate(array["tiles"]):
        assert tile["found"] == n
        assert tile["event"] == array["stored"][n]
        place = tile["plane"], slice(tile["row"], tile["row"] + tile["rows"]), slice(tile["col"], tile["col"] + tile["cols"])
        if tile["values"] is not None:
            planes[place] = tile["values"].reshape(tile["rows"], tile["cols"])
        written[place] = tile["origin"] != "unwritten"
    return planes, written


def check_arrays(run: fs.Run, found: dict[str, Any], state: Any) -> None:
    for array in found["arrays"]:
        info = run.trace.meta.array(array["name"])
        numbers, written = assembled(array, (info.planes, info.rows, info.cols))
        np.testing.assert_array_equal(numbers, state[info.name].reshape(numbers.shape))
        np.testing.assert_array_equal(written, state.written(info.name).reshape(numbers.shape))


@pytest.mark.parametrize("name", runs.NAMES)
def test_every_step_holds_what_python_says(player: Any, name: str) -> None:
    run = runs.run(name)
    player.add(name, run)
    states = player("states", name=name)
    assert len(states) == len(run.trace.steps)
    for t, found in enumerate(states):
        state = run.trace.state(t)
        check_arrays(run, found, state)
        slots = [slot for block in found["blocks"] for slot in block["slots"]]
        arrays = {array.name for array in run.trace.meta.arrays if array.space == "hbm"}
        names = {slot["name"] for slot in slots}
        assert names | arrays == set(state) | arrays  # a slot may share an array's name: it then stands in its place
        for slot in slots:
            if slot["name"] not in arrays:
                same(slot["values"], state[slot["name"]])


@pytest.mark.parametrize("name", [name for name in runs.NAMES if "ragged" in name])
def test_blocks_side_by_side_hold_what_they_hold_alone(player: Any, name: str) -> None:
    """Together, each block's slots are those of its own step; and every array ends as it does in serial order."""
    run = runs.run(name)
    player.add(name, run)
    alone = {block["step"]: block["slots"] for found in player("states", name=name) for block in found["blocks"]}
    side_by_side = player("states", name=name, order="together", sms=3)
    for found in side_by_side:
        for block in found["blocks"]:
            assert repr(block["slots"]) == repr(alone[block["step"]])  # NaN is NaN here
    check_arrays(run, side_by_side[-1], run.trace.state(-1))


def test_slots_are_relabelled_and_go_stale(player: Any) -> None:
    name = "flash-attention-2 textbook"
    player.add(name, runs.run(name))
    told = [
        {slot["name"]: (slot["label"], slot["stale"]) for block in found["blocks"] for slot in block["slots"]}
        for found in player("states", name=name)
    ]
    assert told[4]["Sij"] == ("Sij", False)
    assert told[5]["Sij"] == ("Pij", False)
    assert told[6]["Sij"] == ("Pij", True)  # K1 and V1 have come; P is still that of tile 0
    assert told[6]["Kj"] == ("Kj", False)
    assert told[7]["Sij"] == ("Sij", False)
    assert told[9]["Kj"] == ("Kj", True)  # past the loop
    assert told[9]["Qi"] == ("Qi", False)


def test_only_the_focus_block_is_known_and_every_array_is(player: Any) -> None:
    run = fs.record("flash-attention-2", values="focus", focus=1)
    player.add("focus", run)
    states = player("states", name="focus")
    for t, found in enumerate(states):
        check_arrays(run, found, run.trace.state(t))
    (first,), (last,) = states[5]["blocks"], states[-1]["blocks"]
    assert {slot["name"] for slot in first["slots"] if slot["values"] is None} >= {"Sij", "mi", "li", "Oi", "alpha"}
    assert all(slot["values"] is not None for slot in last["slots"])


def test_without_values_only_the_structure_is_known(player: Any) -> None:
    player.add("structure", fs.record("flash-attention-1", values="none"))
    last = player("states", name="structure")[-1]
    assert all(slot["values"] is None for slot in last["blocks"][0]["slots"])
    origins = {array["name"]: {tile["origin"] for tile in array["tiles"]} for array in last["arrays"]}
    assert origins == {name: {"unkept"} for name in ("Q", "K", "V", "O", "m", "l")}
