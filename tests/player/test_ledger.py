"""ledger.js counts what trace/ledger.py counts, at every step and in both orders."""

from __future__ import annotations

from typing import Any

import pytest
import runs

import flashstep as fs


@pytest.mark.parametrize("name", runs.NAMES)
def test_every_step_has_asked_for_what_python_says(player: Any, name: str) -> None:
    run = runs.run(name)
    player.add(name, run)
    found = player("ledgers", name=name)
    assert found["total"] == run.trace.ledger()
    assert found["soFar"] == [run.trace.ledger(t) for t in range(len(run.trace.steps))]


@pytest.mark.parametrize("name", [name for name in runs.NAMES if "ragged" in name])
def test_side_by_side_the_traffic_is_that_of_the_steps_done(player: Any, name: str) -> None:
    run = runs.run(name)
    player.add(name, run)
    found = player("ledgers", name=name, order="together", sms=3)["soFar"]
    positions = player("schedule", name=name, sms=3)["positions"]
    alone = [step_traffic(run, t) for t in range(len(positions))]
    for position, ledger in enumerate(found):
        expected: dict[tuple[str, str, str], int] = {}
        for t, at in enumerate(positions):
            if at <= position:
                for key, value in alone[t].items():
                    expected[key] = expected.get(key, 0) + value
        assert flat(ledger) == expected
    assert found[-1] == run.trace.ledger()


def flat(ledger: Any) -> dict[tuple[str, str, str], int]:
    return {
        (array, way, unit): entry[way][unit]
        for array, entry in ledger.items()
        for way in ("loads", "stores")
        for unit in ("transfers", "elements", "bytes")
    }


def step_traffic(run: fs.Run, t: int) -> dict[tuple[str, str, str], int]:
    """What step t alone adds."""
    after = flat(run.trace.ledger(t))
    return after if t == 0 else {key: value - flat(run.trace.ledger(t - 1))[key] for key, value in after.items()}
