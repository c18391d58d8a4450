"""words.js says what trace/words.py says, character for character."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import pytest
import runs

from flashstep.trace import words

EDGES = [
    0.0, -0.0, 1.0, -1.0, 10.0, 999999.0, 1e6, 1000000.5, 999999.5, 0.5, 0.25, 0.125, 0.00005, 0.0000499, 0.0001,
    0.03125, 1.00005, 2.00015, 0.00015, 0.99995, 9.99995, 1e-7, 9.9995e-7, 9.9996e12, 1.0005e9, 1.2345e38, 5e-324, 1e-45,
    3.4028234663852886e38, 1.7976931348623157e308, math.inf, -math.inf, math.nan, 2.5e-5, 7.5e-5, 0.00005000000000000001,
]  # fmt: skip


def floats(count: int) -> list[float]:
    """Float32 numbers of every size, and doubles half way between two printed ones."""
    rng = random.Random(7)
    found = [struct.unpack("<f", rng.randbytes(4))[0] for _ in range(count)]
    found += [rng.uniform(-10, 10) for _ in range(count)]
    return found + [rng.randrange(-(10**6), 10**6) / 2**k for k in range(20) for _ in range(count // 20)]


@pytest.mark.parametrize("digits", [1, 2, 3, 4, 6])
def test_numbers_are_written_alike(player: Any, digits: int) -> None:
    values = EDGES + [-x for x in EDGES] + floats(400)
    spoken = player("numbers", values=values, digits=digits)
    assert spoken == [words.number(value, digits) for value in values]


def test_a_cell_holds_its_number(player: Any) -> None:
    values = [0.0, 1.0, -1.0, 0.6023, -0.001, 12.345, 99.96, 123.4, -9999.0, 12345.6, 1e-9, math.inf, -math.inf, math.nan]
    assert player("cellNumbers", values=values) == [
        "0", "1", "−1", "0.60", "−0.00", "12.3", "100", "123", "−9999", "1.2e4", "0.00", "∞", "−∞", "NaN",
    ]  # fmt: skip
    assert all(len(text) <= 6 for text in player("cellNumbers", values=[x for x in floats(200) if abs(x) < 9e9]))


@pytest.mark.parametrize("name", runs.NAMES)
def test_labels_captions_and_paths_are_spoken_alike(player: Any, name: str) -> None:
    run = runs.run(name)
    player.add(name, run)
    for step, (label, caption, path, numbers) in zip(run.trace.steps, player("spoken", name=name), strict=True):
        assert (label, caption, tuple(path)) == (step.label, step.caption, step.path)
        assert all(number in caption for number in numbers)
