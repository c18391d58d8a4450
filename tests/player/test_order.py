"""order.js: one block after another, and side by side as a plain simulation of the SMs runs them."""

from __future__ import annotations

from typing import Any

import pytest
import runs

import flashstep as fs

SMS = [1, 2, 3, 5, 132]


def blocks_of(run: fs.Run) -> list[list[range]]:
    """The steps of every block of every launch."""
    found: list[list[range]] = [[] for _ in run.trace.meta.launches]
    previous = None
    for step in list(run.trace.steps)[1:]:
        place = (step.launch, step.block)
        if place == previous:
            found[step.launch][-1] = range(found[step.launch][-1].start, step.index + 1)
        else:
            found[step.launch].append(range(step.index, step.index + 1))
        previous = place
    return found


def simulated(run: fs.Run, sms: int) -> list[tuple[int, dict[int, int]]]:
    """Tick by tick: the launch, and the step that each block at work has just done."""
    ticks: list[tuple[int, dict[int, int]]] = [(-1, {})]
    for launch, blocks in enumerate(blocks_of(run)):
        waiting = list(enumerate(blocks))
        running: dict[int, list[int]] = {}
        while waiting or running:
            while waiting and len(running) < sms:
                block, steps = waiting.pop(0)
                running[block] = list(steps)
            ticks.append((launch, {block: steps.pop(0) for block, steps in sorted(running.items())}))
            running = {block: steps for block, steps in running.items() if steps}
    return ticks


@pytest.mark.parametrize("sms", SMS)
@pytest.mark.parametrize("name", [name for name in runs.NAMES if "ragged" in name or "textbook" in name])
def test_every_running_block_takes_a_step_a_tick(player: Any, name: str, sms: int) -> None:
    run = runs.run(name)
    player.add(name, run)
    found = player("schedule", name=name, sms=sms)
    expected = simulated(run, sms)
    blocks = blocks_of(run)
    assert found["length"] == len(expected)
    done: dict[tuple[int, int], int] = {}
    for position, (launch, steps) in enumerate(expected):
        at = found["at"][position]
        assert at["launch"] == launch
        assert at["active"] == [{"launch": launch, "block": block, "step": step} for block, step in steps.items()]
        assert at["step"] == (next(iter(steps.values())) if steps else 0)
        done |= {(launch, block): step for block, step in steps.items()}
        if launch >= 0:
            progress = [done.get((launch, block), -1) for block in range(len(blocks[launch]))]
            states = ["running" if b in steps else "waiting" if p < 0 else "done" for b, p in enumerate(progress)]
            assert at["blocks"] == [[p, state] for p, state in zip(progress, states, strict=True)]
    where = {0: 0} | {step: position for position, (_, steps) in enumerate(expected) for step in steps.values()}
    assert found["positions"] == [where[step] for step in range(len(where))]
    assert found["kept"] == list(range(len(where)))  # to the other order and back is no move


@pytest.mark.parametrize("name", runs.NAMES)
def test_in_serial_order_a_position_is_a_step(player: Any, name: str) -> None:
    run = runs.run(name)
    player.add(name, run)
    found = player("schedule", name=name, sms=None)
    steps = list(run.trace.steps)
    assert found["length"] == len(steps)
    assert found["positions"] == found["kept"] == list(range(len(steps)))
    for step, at in zip(steps, found["at"], strict=True):
        assert at["launch"] == step.launch
        assert at["active"] == ([] if step.launch < 0 else [{"launch": step.launch, "block": step.block, "step": step.index}])
