"""The recorder's verbs: what they move, what they keep, and the shape of what a twin may declare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flashstep.trace.events import NONE, Kind
from flashstep.trace.recorder import Machine, Step, edges
from flashstep.trace.tape import EVENT_ROW, STEP_ROW


def test_edges() -> None:
    assert edges(8, 4) == (0, 4, 8)
    assert edges(10, 4) == (0, 4, 8, 10)
    assert edges(3, 4) == (0, 3)
    assert edges(0, 4) == (0,)


def machine_with_one_block(values: str = "all") -> tuple[Machine, list[tuple[int, ...]]]:
    machine = Machine(values=values, capacity=8)
    X = machine.array("X", np.arange(6, dtype=np.float32).reshape(1, 1, 3, 2), role="input", row_edges=(0, 2, 3))
    Y = machine.array("Y", None, shape=(1, 1, 3, 2), role="output", row_edges=(0, 2, 3))
    launch = machine.launch("double", "double", {"i": 2}, 32, (Step("double", "double {i}"),))
    slot = launch.shared("Xi", 2, 2)
    for block in launch.blocks():
        with block.step("double"):
            slot.load(X, 0, block.at[0])
            slot.update(slot.now * 2, slot.now.size)
            block.barrier()
            slot.store(Y, 0, block.at[0])
    assert machine.tape
    rows = list(EVENT_ROW.iter_unpack(machine.tape.rows))
    assert Y.data.tolist() == [[[0, 2], [4, 6], [8, 10]]]
    return machine, rows


def test_verbs_become_rows() -> None:
    machine, rows = machine_with_one_block()
    assert rows == [
        # kind, src, dst, tile, tiles, rows, cols, elements, flops, value
        (Kind.LOAD, 0, 2, 0, 1, 2, 2, 4, 0, 0),  # X0 stands in the pool already
        (Kind.UPDATE, NONE, 2, 0, 0, 2, 2, 0, 4, 6),
        (Kind.BARRIER, NONE, NONE, 0, 0, 0, 0, 0, 0, -1),
        (Kind.STORE, 2, 1, 0, 1, 2, 2, 4, 0, 6),  # what was kept at the update is not kept again
        (Kind.LOAD, 0, 2, 1, 1, 1, 2, 2, 0, 4),  # the ragged tail: one row
        (Kind.UPDATE, NONE, 2, 0, 0, 1, 2, 0, 2, 10),
        (Kind.BARRIER, NONE, NONE, 0, 0, 0, 0, 0, 0, -1),
        (Kind.STORE, 2, 1, 1, 1, 1, 2, 2, 0, 10),
    ]
    assert machine.tape
    assert machine.tape.pool[:12].tolist() == [0, 1, 2, 3, 4, 5, 0, 2, 4, 6, 8, 10]  # the pool grew past its estimate


def test_without_values_only_structure_is_kept() -> None:
    machine, rows = machine_with_one_block("none")
    assert {row[-1] for row in rows} == {-1}
    assert machine.tape
    assert machine.tape.used == 0


def test_what_stands_in_the_pool_is_not_kept_again() -> None:
    """Also at the pool's first place, and as several tiles at once after each alone, until one of them is stored anew."""
    machine = Machine(capacity=64)
    X = machine.array("X", np.arange(4, dtype=np.float32).reshape(1, 1, 4, 1), role="input", row_edges=(0, 2, 4))
    launch = machine.launch("x", "x", {"i": 1}, 1, (Step("s", "s"),))
    slot = launch.shared("Xi", 4, 1)
    (block,) = launch.blocks()
    with block.step("s"):
        slot.load(X, 0, 1)
        slot.load(X, 0, 0, tiles=2)
        slot.load(X, 0, 0)
        slot.store(X, 0, 1)
        slot.load(X, 0, 0, tiles=2)
    assert machine.tape
    assert [row[-1] for row in EVENT_ROW.iter_unpack(machine.tape.rows)] == [2, 0, 0, 0, 4]
    assert machine.tape.pool[: machine.tape.used].tolist() == [0, 1, 2, 3, 0, 1, 0, 1]

    empty = Machine(capacity=64)
    Y = empty.array("Y", None, shape=(1, 1, 2, 1), role="output", row_edges=(0, 2))
    launch = empty.launch("y", "y", {"i": 1}, 1, (Step("s", "s"),))
    slot = launch.shared("Yi", 2, 1)
    (block,) = launch.blocks()
    with block.step("s"):
        slot.init(7, 2)
        slot.store(Y, 0, 0)
    assert empty.tape
    assert [row[-1] for row in EVENT_ROW.iter_unpack(empty.tape.rows)] == [0, 0]
    assert empty.tape.used == 2


def test_an_array_without_columns_has_no_column_tile() -> None:
    array = Machine().array("X", np.zeros((1, 1, 2, 0), np.float32), role="input", row_edges=(0, 2))
    assert (array.info.col_edges, array.info.tiles) == ((0,), 0)


def test_an_array_declared_late_is_refused() -> None:
    machine = Machine()
    machine.launch("x", "x", {"i": 1}, 1, ())
    with pytest.raises(ValueError, match="before the first launch"):
        machine.array("X", np.zeros((1, 1, 1), np.float32), role="input", row_edges=(0, 1))


def test_a_slot_too_large_for_the_columns_is_refused() -> None:
    launch = Machine().launch("x", "x", {"i": 1}, 1, ())
    with pytest.raises(ValueError, match="at most 65534"):
        launch.shared("X", 65535, 1)


def test_a_step_that_fails_is_not_remembered() -> None:
    machine = Machine()
    launch = machine.launch("x", "x", {"i": 1}, 1, (Step("s", "s"),))
    for block in launch.blocks():
        with pytest.raises(RuntimeError), block.step("s"):
            raise RuntimeError
    assert machine.tape
    assert len(machine.tape.step_rows) == STEP_ROW.size  # the start alone


def test_shared_memory_is_laid_out_in_order() -> None:
    launch = Machine().launch("x", "x", {"i": 1}, 1, ())
    launch.shared("A", 2, 3)
    launch.register("R", 4, 4)
    launch.shared("B", 1, 1)
    assert [(slot.info.name, slot.info.offset) for slot in launch.slots] == [("A", 0), ("R", 0), ("B", 24)]
    assert replace(launch.info, slots=tuple(slot.info for slot in launch.slots)).shared_bytes == 28  # registers take none of it
