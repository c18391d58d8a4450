"""Trace files: they come back as they went, and a damaged or hostile one gets one clear sentence."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import re
import unicodedata
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


HOSTILE: tuple[Any, ...] = (
    None, -5, 2**63, "", [], {}, "x" * 100, [[[]]], True, 0.5, float("nan"), float("inf"), 10**400,
    "\x1b[2J", "\ud800", ["\x07"], {"\x9b": 1},
)  # fmt: skip


def parts(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """(tensors, meta) of a trace file, to be damaged: without its digest, which would betray any damage."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    tensors = {name: array.copy() for name, array in load_tensors(data).items()}
    meta = json.loads(header["__metadata__"]["flashstep"])
    del meta["digest"]
    return tensors, meta


def whole(tensors: dict[str, Any], meta: Any) -> bytes:
    return save_tensors(tensors, {"flashstep": json.dumps(meta)})


WITHOUT_DIGEST = whole(*parts(GOOD))


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
    assert "digest      64 hex" in text
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
    damaged = bytearray(WITHOUT_DIGEST)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    read(bytes(damaged))


@settings(max_examples=200)
@given(place=st.integers(8, len(GOOD) - 1), flip=st.integers(1, 255))
def test_any_one_changed_byte_is_seen(place: int, flip: int) -> None:
    """In the numbers, the columns or the description; only how the header's JSON is written may vary."""
    damaged = bytearray(GOOD)
    damaged[place] ^= flip
    with contextlib.suppress(fs.TraceError):
        again = fs.load_bytes(bytes(damaged))
        assert again.to_bytes() == GOOD


def test_a_changed_number_is_seen_and_said() -> None:
    values = fs.load_bytes(GOOD).trace.values
    place = GOOD.index(values.tobytes()) + 4 * (len(values) // 2)
    with pytest.raises(fs.TraceError, match="something in it has changed since it was written"):
        fs.load_bytes(GOOD[:place] + b"\0\0\x80?"[::-1] + GOOD[place + 4 :])
    changed = GOOD.replace(b'\\"seed\\": 0', b'\\"seed\\": 7')
    assert changed != GOOD
    with pytest.raises(fs.TraceError, match="something in it has changed since it was written"):
        fs.load_bytes(changed)


def test_the_digest_is_as_the_contract_says() -> None:
    size = int.from_bytes(GOOD[:8], "little")
    header = json.loads(GOOD[8 : 8 + size])
    text = header.pop("__metadata__")["flashstep"]
    digest = json.loads(text)["digest"]
    content = hashlib.sha256(text.replace(f'"digest": "{digest}", ', "").encode())
    codes = {"F32": "<f4", "I32": "<i4", "U32": "<u4", "U16": "<u2", "U8": "|u1"}
    for name, entry in sorted(header.items()):
        content.update(f"\n{name} {codes[entry['dtype']]} {entry['shape']}\n".encode())
        content.update(GOOD[8 + size :][slice(*entry["data_offsets"])])
    assert content.hexdigest() == digest


def test_a_file_from_before_there_were_digests_is_read() -> None:
    assert fs.load_bytes(WITHOUT_DIGEST).to_bytes() == GOOD


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
    assert plain("".join(run.trace.walk()))
    assert plain("".join(run.trace.ledger()))
    again = run.to_bytes()
    assert fs.load_bytes(again).to_bytes() == again
    for t in {0, len(run.trace.steps) // 2, len(run.trace.steps) - 1}:
        for numbers in run.trace.state(t).values():
            assert isinstance(numbers, np.ndarray)
    run.trace.ledger()
    if run.trace.meta.values == "all":
        with contextlib.suppress(ValueError):  # a sound file may describe formulas that do not fit its slots
            for _ in Exact(run.trace).walk():
                pass
    return True


def plain(text: str) -> bool:
    """Whether a terminal takes the text as text."""
    text.encode()
    return all(unicodedata.category(c) not in ("Cc", "Cs") for c in text)


NESTED = ("arrays", "launches", "steps", "captions", "problem")
STRANGE = ("\x1b[2J", "\r", "\n", "\0", "\x7f", "\x9b31m", "\u202a", "\u202e", "\u2066", "\ud800", "\udfff")


def test_text_that_is_not_plain_is_refused_wherever_it_stands() -> None:
    """As it would steer the terminal that `show` writes to, or could not be written at all."""
    tensors, meta = parts(GOOD)
    places = [place for place in walk(meta, ()) if isinstance(follow(meta, place), str) and place[0] != "sources"]
    assert {place[0] for place in places} == {"kernel", "title", "generator", "values", *NESTED}
    for n, place in enumerate(places):
        _, meta = parts(GOOD)
        strange = STRANGE[n % len(STRANGE)]
        follow(meta, place[:-1])[place[-1]] += strange
        with pytest.raises(fs.TraceError, match=rf"^The trace is damaged: \S+ holds the character U\+{ord(strange[0]):04X}, "):
            fs.load_bytes(whole(tensors, meta))
    for strange in STRANGE:
        _, meta = parts(GOOD)
        meta["problem"]["x" + strange] = 1
        with pytest.raises(fs.TraceError, match="damaged: a name holds the character U"):
            fs.load_bytes(whole(tensors, meta))
    _, meta = parts(GOOD)
    with pytest.raises(fs.TraceError, match=r"damaged: a name holds the character U\+001B"):
        fs.load_bytes(whole({**tensors, "outputs.\x1b": tensors["outputs.O"]}, meta))


def test_sources_have_lines_and_nothing_else_that_is_not_plain() -> None:
    tensors, meta = parts(GOOD)
    meta["sources"]["twin"] = "def f():\r\n\treturn 1\n\f\n"
    assert fs.load_bytes(whole(tensors, meta)).trace.meta.sources["twin"] == meta["sources"]["twin"]
    for strange in ("\x1b", "\0", "\x0b", "\x9b", "\ud800"):
        meta["sources"]["twin"] = f"def f():\n{strange}"
        with pytest.raises(fs.TraceError, match=r"sources\.twin holds the character"):
            fs.load_bytes(whole(tensors, meta))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_a_number_that_could_not_be_written_again_is_refused(number: str) -> None:
    tensors, meta = parts(GOOD)
    text = json.dumps(meta).replace(f'"scale": {meta["problem"]["scale"]}', f'"scale": {number}')
    assert number in text
    with pytest.raises(fs.TraceError, match="its header is not JSON"):
        fs.load_bytes(save_tensors(tensors, {"flashstep": text}))


@pytest.mark.parametrize("depth", [70, 900, 20_000])
def test_a_header_nested_too_deeply_is_refused(depth: int) -> None:
    tensors, meta = parts(GOOD)
    text = json.dumps(meta).replace('"seed": 0', f'"x": {"[" * depth}{"]" * depth}')
    with pytest.raises(fs.TraceError, match=r"nested too deeply|not JSON"):
        fs.load_bytes(save_tensors(tensors, {"flashstep": text}))


def follow(node: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        node = node[key]
    return node


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
        (GOOD[:-1], r"cut short: [\d,]+ bytes of data are left of"),
        (GOOD + b"\0\0", "2 bytes stand beyond its end"),
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


def test_a_file_too_large_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(GOOD)
    monkeypatch.setattr(file, "MAX_FILE_BYTES", len(GOOD))
    assert fs.load(path).to_bytes() == GOOD
    monkeypatch.setattr(file, "MAX_FILE_BYTES", len(GOOD) - 1)
    with pytest.raises(fs.TraceError, match=rf"^x\.safetensors is {len(GOOD)} bytes long; a trace file may have"):
        fs.load(path)


def test_what_safetensors_would_say_is_never_heard() -> None:
    """Columns that overlap, leave a gap, or are of a type that there is not."""
    size = int.from_bytes(GOOD[:8], "little")
    changes: tuple[Any, ...] = (
        lambda entry: entry.update(dtype="F33"),
        lambda entry: entry.update(data_offsets=[0, entry["data_offsets"][1]]),
        lambda entry: entry.update(data_offsets="everywhere"),
        lambda entry: entry.update(data_offsets=[0, 1e400]),
        lambda entry: entry.update(shape=[2**70]),
        lambda entry: entry.clear(),
    )
    for change in changes:
        header = json.loads(GOOD[8 : 8 + size])
        change(header["values"])
        text = json.dumps(header).encode()
        with pytest.raises(fs.TraceError) as caught:
            fs.load_bytes(len(text).to_bytes(8, "little") + text + GOOD[8 + size :])
        assert not re.search(r"[Ss]erializ|metadata|Error|NaN|int", str(caught.value)), caught.value
