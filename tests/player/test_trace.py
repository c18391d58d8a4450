"""trace.js reads what Python wrote, and refuses what is damaged with one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import runs

import flashstep as fs

NAME = "flash-attention-2 textbook"
SENTENCE = re.compile(r"Error: (The trace|This) [^\n]*\.")


@pytest.fixture
def sound(player: Any) -> bytes:
    player.add(NAME, runs.run(NAME))
    return runs.run(NAME).to_bytes()


@pytest.mark.parametrize("name", runs.NAMES)
def test_a_sound_trace_is_read(player: Any, name: str) -> None:
    player.add(name, runs.run(name))
    assert player("refusal", name=name) is None


def test_a_file_cut_anywhere_is_refused(player: Any, sound: bytes) -> None:
    for length in (0, 1, 7, 8, 100, len(sound) // 3, len(sound) // 2, len(sound) - 1):
        assert SENTENCE.fullmatch(player("refusal", name=NAME, length=length)), length


def test_no_damage_breaks_the_page(player: Any, sound: bytes) -> None:
    """Any bytes are either refused in one sentence, or can be stepped, counted and explained from end to end."""
    answers = [answer for answer in player("damages", name=NAME, count=1500) if answer is not None]
    assert len(answers) > 500
    assert [answer for answer in answers if not SENTENCE.fullmatch(answer)] == []


def rewritten(data: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """The file with its description changed."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    meta = json.loads(header["__metadata__"]["flashstep"])
    change(meta)
    header["__metadata__"]["flashstep"] = json.dumps(meta)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "should be 1": lambda meta: meta.update(format=2),
    "list launches": lambda meta: meta.update(launches={}),
    "seqlen_q should be": lambda meta: meta["problem"].update(seqlen_q="8"),
    "do not ascend": lambda meta: meta["arrays"][0].update(row_edges=[0, 6, 6, 8]),
    "do not run from 0 to 9": lambda meta: meta["arrays"][0].update(rows=9),
    "end after the pool": lambda meta: meta["arrays"][0].update(initial=10**6),
    "no known dtype": lambda meta: meta["arrays"][0].update(dtype="float8"),
    "numbers the slots": lambda meta: meta["launches"][0].update(first_node=3),
    "has fewer steps than blocks": lambda meta: meta["launches"][0]["grid"][0].update(size=10**6),
    "a block has no steps": lambda meta: meta["launches"][0]["grid"][0].update(size=3),
    "outside its grid": lambda meta: meta["launches"][0]["grid"][0].update(size=1),
    "Qi of no known dtype": lambda meta: meta["launches"][0]["slots"][0].update(dtype="float8"),
    "without a shape": lambda meta: meta["launches"][0]["slots"][0].update(rows=-1),
    "holds": lambda meta: meta["launches"][0]["slots"][0].update(rows=1),
    "no formula": lambda meta: meta["steps"][-1].update(formulas={"Oi": ["call", "sum", ["op", "^", 1, 2]]}),
    "is of no launch": lambda meta: meta["steps"][1].update(launch=7),
    "caption that is not listed": lambda meta: meta.update(captions=meta["captions"][:2]),
    "loops of its kind": lambda meta: meta["steps"][4].update(loops=[]),
    "more than a page can index": lambda meta: meta["arrays"][0].update(batch=2**20, rows=200, row_edges=list(range(201))),
}


@pytest.mark.parametrize("words", LIES)
def test_a_lie_is_named(player: Any, sound: bytes, words: str) -> None:
    player.traces["lie"] = rewritten(sound, LIES[words])
    answer = player("refusal", name="lie")
    assert answer is not None
    assert SENTENCE.fullmatch(answer)
    assert words in answer


def test_columns_out_of_line_are_still_right(player: Any, sound: bytes) -> None:
    """A writer that aligns nothing is read too, at the cost of copies."""
    size = int.from_bytes(sound[:8], "little")
    header = sound[8 : 8 + size] + b" " * 3
    player.traces["odd"] = len(header).to_bytes(8, "little") + header + sound[8 + size :]
    assert player("refusal", name="odd") is None
    assert player("ledgers", name="odd")["total"] == runs.run(NAME).trace.ledger()


def test_another_safetensors_file_is_no_trace(player: Any) -> None:
    import numpy as np
    from safetensors.numpy import save

    player.traces["weights"] = save({"w": np.zeros((2, 2), np.float32)})
    assert player("refusal", name="weights") == "Error: This file is no Flashstep trace: it has no column events.kind."


@pytest.mark.slow
def test_a_long_trace_opens_at_once_and_jumps_anywhere(player: Any) -> None:
    """Fifty thousand steps, in bounds that leave room for a busy machine; `benchmarks/player.py` measures more."""
    sizes: dict[str, Any] = {"seqlen_q": 4096, "seqlen_k": 4096, "head_dim": 8, "block_rows": 32, "block_cols": 32}
    run = fs.record("flash-attention-2", values="none", **sizes)
    assert len(run.trace.steps) == 1 + 128 * (2 + 3 * 128 + 1)
    player.add("long", run)
    took = player("timings", name="long")
    assert took["opened"] < 500
    assert took["median"] < 2
    assert took["high"] < 20
