"""Trace files: they come back as they went, and a damaged or hostile one gets one clear sentence."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

import flashstep as fs
from flashstep.trace import file
from flashstep.trace.bounds import Exact
from flashstep.trace.events import EVENT_COLUMNS, STEP_COLUMNS

GOOD = fs.record("flash-decoding", seqlen_k=7, splits=3, heads=2).to_bytes()


HOSTILE: tuple[Any, ...] = (None, -5, 2**63, "", [], {}, "x" * 100, [[[]]], True)


def parts(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """(tensors, meta) of a trace file, to be damaged."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    tensors = {name: array.copy() for name, array in load_tensors(data).items()}
    return tensors, json.loads(header["__metadata__"]["flashstep"])


def whole(tensors: dict[str, Any], meta: Any) -> bytes:
    return save_tensors(tensors, {"flashstep": json.dumps(meta)})


@pytest.mark.parametrize("kernel", fs.kernels)
def test_a_trace_comes_back_as_it_went(kernel: str) -> None:
    trace = fs.record(kernel).trace
    data = file.to_bytes(trace)
    again = file.from_bytes(data)
    assert file.to_bytes(again) == data
    assert again.meta == trace.meta
    for name in EVENT_COLUMNS:
        assert np.array_equal(getattr(again.events, name), getattr(trace.events, name))
    assert [step.caption for step in again.steps] == [step.caption for step in trace.steps]


def test_every_tensor_and_field_stands_in_the_contract(root: Path) -> None:
    text = (root / "trace" / "FORMAT.md").read_text("utf-8")
    tensors, meta = parts(GOOD)
    for name in tensors:
        assert f"`{name}`" in text or name.startswith("outputs."), name
    for field in (*meta, *meta["problem"], *meta["tiling"], *meta["arrays"][0], *meta["launches"][0], *meta["steps"][0]):
        assert field in text, field
    for slot_field in meta["launches"][0]["slots"][0]:
        assert slot_field in text


def test_an_event_costs_at_most_48_bytes_besides_values() -> None:
    run = fs.record("flash-attention-2", seqlen_q=1024, seqlen_k=1024, head_dim=16, block_rows=32, block_cols=32)
    extra = len(run.to_bytes()) - run.trace.values.nbytes - sum(output.nbytes for output in run.outputs.values())
    assert extra / len(run.trace.events) <= 48


@given(cut=st.integers(0, len(GOOD) - 1))
def test_a_file_cut_short(cut: int) -> None:
    with pytest.raises(fs.TraceError):
        fs.load_bytes(GOOD[:cut])


@settings(max_examples=300)
@given(data=st.data())
def test_flipped_bytes_are_read_or_refused(data: st.DataObject) -> None:
    """Never another error, a hang, or a number outside the pool."""
    damaged = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(GOOD) - 1))] = data.draw(st.integers(0, 255))
    read(bytes(damaged))


def test_every_column_of_noise_is_read_or_refused() -> None:
    rng = np.random.default_rng(0)
    refused = 0
    for name in (*(f"events.{n}" for n in EVENT_COLUMNS), *(f"steps.{n}" for n in STEP_COLUMNS)):
        tensors, meta = parts(GOOD)
        kind = tensors[name].dtype
        tensors[name] = rng.integers(0, np.iinfo(kind).max, tensors[name].shape, kind)
        refused += not read(whole(tensors, meta))
        tensors, meta = parts(GOOD)
        tensors[name] = tensors[name][:-1]
        assert not read(whole(tensors, meta)), name
        tensors, meta = parts(GOOD)
        tensors[name] = tensors[name].astype(np.float32)
        assert not read(whole(tensors, meta)), name
        tensors, meta = parts(GOOD)
        del tensors[name]
        assert not read(whole(tensors, meta)), name
    assert refused >= 12


def test_every_field_of_the_header_is_read_or_refused() -> None:
    """Each value of the header replaced by a few hostile ones."""
    _, meta = parts(GOOD)
    places = list(walk(meta, ()))
    random.Random(0).shuffle(places)
    for place in places[:120]:
        for hostile in HOSTILE:
            tensors, meta = parts(GOOD)
            target = meta
            for key in place[:-1]:
                target = target[key]
            target[place[-1]] = hostile
            read(whole(tensors, meta))


def walk(node: Any, place: tuple[Any, ...]) -> Any:
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield (*place, key)
            yield from walk(value, (*place, key))


def read(data: bytes) -> bool:
    """Whether the file is read; if so everything of it can be looked at."""
    try:
        run = fs.load_bytes(data)
    except fs.TraceError as error:
        said = str(error)
    else:
        said = ""
    assert "\n" not in said
    assert len(said) < 2000
    if said:
        return False
    for step in run.trace.steps:
        assert isinstance(step.caption, str)
        assert all(isinstance(text, str) for text in step.path)
    for t in {0, len(run.trace.steps) // 2, len(run.trace.steps) - 1}:
        for numbers in run.trace.state(t).values():
            assert isinstance(numbers, np.ndarray)
    run.trace.ledger()
    if run.trace.meta.values == "all":
        with contextlib.suppress(ValueError):  # a sound file may describe formulas that do not fit its slots
            for _ in Exact(run.trace).walk():
                pass
    return True


@pytest.mark.parametrize(
    "damage",
    [
        lambda meta: meta["launches"][0].update(grid=[{"axis": "x", "size": 2**31 - 1}] * 4),
        lambda meta: meta["captions"].append("{²}") or meta["captions"].__setitem__(0, "{²} {9999999999} {" + "9" * 5000 + "}"),
        lambda meta: meta["problem"].update(key_mask=True),
        lambda meta: meta["problem"].clear(),
        lambda meta: meta["steps"][3]["formulas"].update(Sij=["call", "__init__"]),
        lambda meta: meta["steps"][3]["formulas"].update(Sij=["call", "sum", ["ref", "Sij", "x", 0, "new"]]),
        lambda meta: meta["arrays"][3].update(space="hbm", rows=2**31 - 1, row_edges=[0, 2**31 - 1]),
        lambda meta: meta["launches"][0]["slots"].extend([meta["launches"][0]["slots"][0]] * 2000),
    ],
)
def test_a_header_that_lies_is_read_or_refused(damage: Any) -> None:
    tensors, meta = parts(GOOD)
    damage(meta)
    read(whole(tensors, meta))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cut short"),
        (b"\xff" * 8, "cut short"),
        (b"PK\x03\x04 a zip file", "a NumPy file of arrays"),
        (b"\x93NUMPY\x01\x00", "a NumPy file of arrays"),
        ((2**62).to_bytes(8, "little") + b"{}", "cut short"),
        ((2).to_bytes(8, "little") + b"[]", "no object"),
        ((100_000).to_bytes(8, "little") + b"[" * 100_000, "not JSON"),
        (save_tensors({"a": np.zeros(3, np.float32)}), "not a Flashstep trace"),
        (save_tensors({"a": np.zeros(3, np.float32)}, {"flashstep": "{"}), "not JSON"),
        (save_tensors({"a": np.zeros(3, np.float32)}, {"flashstep": '{"format": 2}'}), "format"),
    ],
)
def test_other_files(data: bytes, words: str) -> None:
    with pytest.raises(fs.TraceError, match=words):
        fs.load_bytes(data)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(fs.TraceError, match=r"none\.safetensors cannot be read"):
        fs.load(tmp_path / "none.safetensors")
    with pytest.raises(fs.TraceError, match="cannot be read"):
        fs.load(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.safetensors"
    target.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        file.write_whole(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "x.safetensors"
    code = (
        "import sys; from pathlib import Path; from flashstep.trace.file import write_whole\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1; write_whole(Path(sys.argv[1]), bytes([n % 256]) * 3_000_000); print(n, flush=True)\n"
    )
    for delay in (0.0, 0.004, 0.009):
        child = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)
        assert child.stdout
        child.stdout.readline()
        time.sleep(delay)
        child.kill()
        child.wait()
        child.stdout.close()
        written = target.read_bytes()
        assert len(written) == 3_000_000
        assert len(set(written)) == 1
