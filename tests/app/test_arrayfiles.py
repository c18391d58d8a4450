"""Files of arrays: every format is read, and a hostile one is refused in one sentence, at no cost."""

from __future__ import annotations

import io
import os
import struct
import time
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arraybytes import LIMIT, K, Q, V, npy, npy_header, npz, safetensors
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from web import is_sentence

from flashstep.app import arrayfiles
from flashstep.app.arrayfiles import read_file
from flashstep.app.ownarrays import Array, ArraysError, settle


def test_every_format_holds_the_same_arrays() -> None:
    wide: dict[str, Any] = {"q": Q, "k": K, "v": V}
    offsets = [[0, 32], [32, 64], [64, 96]]
    header = {
        n: {"dtype": "F32", "shape": [4, 2], "data_offsets": o} for n, o in zip("qkv", offsets, strict=True)
    }
    text = "\n".join(
        f"{n}\n" + "\n".join(" ".join(map(str, row)) for row in a.tolist()) for n, a in wide.items()
    )
    for name, data in (
        ("a.npz", npz(**wide)),
        ("a.NPZ", npz(True, **wide)),
        ("a.safetensors", safetensors(header, b"".join(a.tobytes() for a in wide.values()))),
        ("a.csv", text.replace(" ", ",").encode()),
    ):
        found = settle(read_file(name, data, LIMIT)).arrays
        assert {n: a.tolist() for n, a in found.items()} == {n: a.tolist() for n, a in wide.items()}
        assert all(a.dtype == np.float32 and a.flags.c_contiguous for a in found.values())


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "i8", "u2", ">f8", ">i4", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_plain_number_type_and_layout_is_read(kind: str, order: Any) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(kind, order=order)
    settled = settle(read_file("x.npy", npy(array), LIMIT)).arrays["x"]
    assert settled.dtype == np.float32
    assert settled.tolist() == [[0, 1, 1], [1, 0, 1]]


def test_infinities_and_nan_are_numbers() -> None:
    array = np.array([[-np.inf, np.inf, np.nan, -0.0]], np.float32)
    settled = settle(read_file("x.npy", npy(array), LIMIT)).arrays["x"]
    assert np.array_equal(settled, array, equal_nan=True)
    assert np.signbit(settled[0, 3])


def test_bfloat16_is_read() -> None:
    data = struct.pack("<3H", 0x3F80, 0xFF80, 0xC040)  # 1, -inf, -3
    header = {"x": {"dtype": "BF16", "shape": [1, 3], "data_offsets": [0, 6]}}
    assert settle(read_file("x.safetensors", safetensors(header, data), LIMIT)).arrays["x"].tolist() == [
        [1, -np.inf, -3]
    ]


class Trap:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("trapped",))


def bomb(entries: int = 1, announced: int | None = None) -> bytes:
    """An archive of zeros that unpacks to a thousand times its size."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for n in range(entries):
            archive.writestr(f"a{n}.npy", npy(np.zeros(8 * LIMIT // 4, np.float32)))
    data = out.getvalue()
    if announced is not None:  # the size that the archive's list announces
        at = data.index(b"PK\x01\x02")
        data = data[: at + 24] + struct.pack("<I", announced) + data[at + 28 :]
    return data


def archive(packing: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as file:
        file.writestr("x.npy", npy(Q))
    return out.getvalue()


def many_entries() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for n in range(2000):
            archive.writestr(f"a{n}.npy", b"")
    return out.getvalue()


def twice(first: str, second: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile itself says that a name comes twice
        archive.writestr(first, npy(Q))
        archive.writestr(second, npy(K))
    return out.getvalue()


ONE = '"x": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]}'
PLAIN = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }\n"
HOSTILE = {
    "objects.npy": npy(np.array([[Trap(), 1]], object), allow_pickle=True),
    "objects.npz": npz(x=np.array([[Trap()]], object)),
    "records.npy": npy(np.zeros(3, [("a", "f4"), ("b", "f4")])),
    "text.npy": npy(np.array([["a", "b"]])),
    "complex.npy": npy(np.zeros((2, 2), complex)),
    "pickle.npy": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
    "empty.npy": b"",
    "short.npy": npy(Q)[:-4],
    "long.npy": npy(Q) + b"more",
    "huge.npy": npy_header(PLAIN.replace("(4, 2)", f"({2**40}, {2**40})"), b"\0" * 32),
    "overflow.npy": npy_header(PLAIN.replace("(4, 2)", f"({2**63}, 2)"), b""),
    "nothing.npy": npy_header(PLAIN.replace("(4, 2)", f"(0, {2**63 - 1})"), b""),
    "nothing64.npy": npy_header(PLAIN.replace("(4, 2)", f"(0, {2**64})"), b""),
    "nothings.npy": npy_header(PLAIN.replace("(4, 2)", f"({2**30}, {2**20}, 0, {2**30})"), b""),
    "negative.npy": npy_header(PLAIN.replace("(4, 2)", "(-4, -2)"), b"\0" * 32),
    "words.npy": npy_header(PLAIN.replace("(4, 2)", "('a',)"), b"\0" * 32),
    "code.npy": npy_header("__import__('os').mkdir('trapped')\n"),
    "nested.npy": npy_header("(" * 20_000, version=b"\x02\x00"),
    "endless.npy": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b" " * 100,
    "deep.npy": npy(np.zeros((1,) * 20, np.float32)),
    "future.npy": npy_header(PLAIN, b"\0" * 32, version=b"\x09\x00"),
    "bomb.npz": bomb(),
    "bombs.npz": bomb(entries=16),
    "liar.npz": bomb(announced=100),
    "crowd.npz": many_entries(),
    "cut.npz": npz(q=Q, k=K)[:-30],
    "torn.npz": npz(True, q=np.arange(1000.0)).replace(b"\x00\x01", b"\x55\xaa"),
    "none.npz": b"PK\x05\x06" + b"\0" * 18,
    "far.npz": b"PK\x05\x06" + b"\0" * 8 + struct.pack("<II", 2**31, 2**31) + b"\0\0",
    "lzma.npz": archive(zipfile.ZIP_LZMA),
    "bzip.npz": archive(zipfile.ZIP_BZIP2),
    "half.safetensors": safetensors({"x\ud800": {"dtype": "F8", "shape": [1], "data_offsets": [0, 1]}}, b"\0"),
    "text.npz": b"not an archive at all, and longer than its end record",
    "short.safetensors": b"\0\0",
    "length.safetensors": safetensors({}, length=2**63),
    "json.safetensors": struct.pack("<Q", 4) + b"{{{{",
    "deep.safetensors": struct.pack("<Q", 60_000) + b"[" * 60_000,
    "list.safetensors": safetensors([1, 2]),
    "beyond.safetensors": safetensors(
        {"x": {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 32]}}, b"\0" * 8
    ),
    "shape.safetensors": safetensors(
        {"x": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}}, b"\0" * 8
    ),
    "minus.safetensors": safetensors(
        {"x": {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}}, b"\0" * 8
    ),
    "kind.safetensors": safetensors(
        {"x": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}}, b"\0" * 8
    ),
    "nothing.safetensors": safetensors({"x": {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}}),
    "nothings.safetensors": safetensors({"x": {"dtype": "BF16", "shape": [10**30, 0], "data_offsets": [0, 0]}}),
    "twice.npz": twice("x.npy", "x.npy"),
    "twice again.npz": twice("x.npy", "x"),
    "twice.safetensors": struct.pack("<Q", 2 * len(ONE) + 3) + f"{{{ONE},{ONE}}}".encode() + bytes(4),
    "crowd.safetensors": safetensors(
        {f"{n}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for n in range(99)}
    ),
    "shared.safetensors": safetensors(
        {f"{n}": {"dtype": "BF16", "shape": [2**19, 1], "data_offsets": [0, 2**20]} for n in range(32)}, bytes(2**20)
    ),
    "astride.safetensors": safetensors(
        {name: {"dtype": "F32", "shape": [2, 1], "data_offsets": [at, at + 8]} for name, at in (("x", 0), ("y", 4))},
        bytes(12),
    ),
    "bfloat16.safetensors": safetensors({"x": {"dtype": "BF16", "shape": [2**20, 1], "data_offsets": [0, 2**21]}}, bytes(2**21)),
    "infinite.safetensors": safetensors({"x": {"dtype": "F32", "shape": [float("inf")], "data_offsets": [0, 4]}}, bytes(4)),
    "narrow.npy": npy(np.zeros((2**21, 1), np.uint8)),
    "lines.csv": b"12\n" * 2**21,
    "brackets.csv": b"]" + b" " * 2**22 + b"x",
    "digits.csv": b"1" * 2**20 + b"x",
    "bytes.csv": b"\xff\xfe1 2",
    "program.py": b"print(1)",
    "../../etc/passwd": b"root",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_sentence_and_takes_no_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = HOSTILE[name]
    tracemalloc.start()
    began = time.perf_counter()
    try:
        with pytest.raises(ArraysError) as error:
            settle(read_file(name, data, LIMIT), LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert is_sentence(str(error.value)), str(error.value)
    assert len(str(error.value)) < 250
    assert peak < 8 * LIMIT + 4 * len(data)
    assert time.perf_counter() - began < 5
    assert not Path("trapped").exists()


@pytest.mark.parametrize("name", [name for name in HOSTILE if "twice" in name])
def test_of_two_arrays_with_one_name_neither_is_taken(name: str) -> None:
    with pytest.raises(ArraysError, match="holds x twice"):
        read_file(name, HOSTILE[name], LIMIT)


@pytest.mark.parametrize("sides", [(0, 3), (0, 2**31), (2**20, 0)])
def test_arrays_without_numbers_are_read(sides: tuple[int, int]) -> None:
    found = read_file("x.npy", npy_header(PLAIN.replace("(4, 2)", str(sides))), LIMIT)
    assert found["x"].shape == sides
    header = {"x": {"dtype": "F32", "shape": list(sides), "data_offsets": [0, 0]}}
    assert read_file("x.safetensors", safetensors(header), LIMIT)["x"].shape == sides


def assert_read_or_refused(name: str, data: bytes) -> None:
    refusal = "."
    try:
        settle(read_file(name, data, LIMIT))
    except ArraysError as error:
        refusal = str(error)
    assert is_sentence("A" + refusal)


@given(st.sampled_from(["a.npy", "a.npz", "a.safetensors", "a.csv"]), st.binary(max_size=400))
def test_any_bytes_are_arrays_or_refused(name: str, data: bytes) -> None:
    assert_read_or_refused(name, data)


@given(
    st.sampled_from([("a.npy", npy(Q)), ("a.npz", npz(q=Q, k=K, v=V)), ("a.npz", npz(True, q=Q, k=K, v=V)),
                     ("a.safetensors", arrayfiles.encode({"q": Q, "k": K, "v": V}))]),
    st.data(),
)  # fmt: skip
def test_a_damaged_file_is_arrays_or_refused(file: tuple[str, bytes], draw: st.DataObject) -> None:
    name, data = file
    torn = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        torn[draw.draw(st.integers(0, len(torn) - 1))] = draw.draw(st.integers(0, 255))
    assert_read_or_refused(name, bytes(torn))


@given(
    hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=5),
        elements=st.floats(width=32),
    )
)
def test_what_is_kept_comes_back_to_the_bit(array: Array) -> None:
    settled = settle({"x": array}).arrays
    back = arrayfiles.decode(arrayfiles.encode(settled))
    assert back["x"].tobytes() == settled["x"].tobytes()
    assert back["x"].shape == array.shape
