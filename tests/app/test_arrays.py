"""A person's own arrays: what is read, what is refused, and how long it is kept."""

from __future__ import annotations

import io
import json
import os
import stat
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from web import JSON, Start, is_sentence

import flashstep as fs
from flashstep.app import arrayfiles, files
from flashstep.app.arrayfiles import Array, Arrays, ArraysError, read_file, read_text, settle
from flashstep.app.arrays import ArrayStore
from flashstep.app.settings import Settings

LIMIT = 2**20
Q, K, V = (np.arange(8, dtype=np.float32).reshape(4, 2) + n for n in range(3))


def npy(array: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def npz(compressed: bool = False, /, **arrays: Any) -> bytes:
    out = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(out, **arrays)
    return out.getvalue()


def npy_header(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    width = "<H" if version[0] == 1 else "<I"
    return b"\x93NUMPY" + version + struct.pack(width, len(header)) + header.encode() + data


def safetensors(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def send(client: TestClient, *parts: tuple[str, bytes], text: str = "") -> Any:
    fields: list[tuple[str, Any]] = [("files", part) for part in parts]
    return client.post("/api/arrays", files=[*fields, ("text", (None, text))])


# ------------------------------------------------------------------------------------------------ reading


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


def test_what_conversion_changes_is_said() -> None:
    assert settle({"x": np.array([[0.5, 2.0]])}).notes == ()
    assert "rounded to float32" in settle({"x": np.array([[0.1]])}).notes[0]
    assert "became infinite" in settle({"x": np.array([[1e300]])}).notes[0]
    assert "rounded" in settle({"x": np.array([[2**24 + 1]])}).notes[0]


def test_names_are_understood_or_asked_for() -> None:
    assert list(settle({"Query": Q, "KEYS": K, "v": V}).arrays) == ["q", "k", "v"]
    in_order = settle({"first": Q, "second": K, "third": V})
    assert list(in_order.arrays) == ["q", "k", "v"]
    assert "q: first" in in_order.notes[0]
    assert "Left out: o" in settle({"q": Q, "k": K, "v": V, "o": Q}).notes[0]
    refused: list[tuple[dict[str, Array], str]] = [
        ({"q": Q, "k": K}, "v is missing"),
        ({"q": Q, "query": Q, "k": K, "v": V}, "both q"),
        ({"q": Q}, "k and v are missing"),
        ({"a": Q, "k": K, "v": V}, "q is missing; send q, k and v together: the name of a file or entry says which"),
        ({"a": Q, "b": K}, "The name of a file or entry says which array it is: call them q, k and v"),
        ({"foo": Q[0, :]}, "The name of a file or entry says which array it is: call them q, k and v"),
        ({"q1": Q, "q2": K, "k": K, "v": V}, "q1 and q2 are both q"),
        ({"q": Q[0], "k": K, "v": V}, "q is (2,); give (seqlen, head_dim)"),
        ({"q": Q[0], "k": K, "v": V}, "(seqlen, head_dim)"),
        ({"x": Q[None]}, "rows by columns"),
        ({"q": Q, "k": K, "v": V, "key_mask": np.full(4, 0.5)}, "0 and 1"),
    ]
    for found, says in refused:
        with pytest.raises(ArraysError) as error:
            settle(found)
        assert says in str(error.value)
        assert is_sentence(str(error.value))


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (("q64", "k", "v"), {"q64": "q", "k": "k", "v": "v"}),
        (("Query-states", "K_cache", "value 1"), {"Query-states": "q", "K_cache": "k", "value 1": "v"}),
        (("Mask.b", "key-mask"), {"key-mask": "key_mask"}),
        (("q", "q64", "k", "v", "x"), {"q": "q", "k": "k", "v": "v", "x": "x"}),
        (("kernel", "variance", "xs", "quiet"), {}),
    ],
)
def test_a_name_says_which_array_it_is(names: tuple[str, ...], roles: dict[str, str]) -> None:
    assert arrayfiles._roles(names) == roles


def test_a_saved_run_is_not_arrays(client: TestClient) -> None:
    data = fs.record("standard").to_bytes()
    with pytest.raises(ArraysError, match=r"run.st is a saved run.* `flashstep show run.st`"):
        read_file("run.st", data, LIMIT)
    assert send(client, ("run.safetensors", data)).status_code == 422


def test_pasted_numbers() -> None:
    found = read_text("q = [[1, 2], [3, 4]]\nK:\n1 −2.5\n\n3e-1\tinf\nv\n nan, -inf;\n0 .5\nmask: 1 0\n")
    assert found["q"].tolist() == [[1, 2], [3, 4]]
    assert found["k"].tolist() == np.array([[1, -2.5], [0.3, np.inf]], np.float32).tolist()
    assert np.isnan(found["v"][0, 0])
    assert found["key_mask"].tolist() == [1, 0]
    assert settle(read_text("x\n0.1 0.2")).notes == ()  # everyone rounds decimals
    for huge in ("1e300", "1e999999999999", "-1e400", "9" * 400):
        settled = settle(read_text(f"x\n{huge} inf -inf"))
        assert settled.notes == ("x was float64: 1 number beyond float32's range became infinite.",)
        assert np.isinf(settled.arrays["x"]).all()
    assert settle(read_text("x\ninf -inf infinity")).notes == ()
    assert list(read_text("1 2\n3 4\n")) == ["x"]
    assert list(read_text("1\n\n2\n\n3")) == ["q", "k", "v"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no numbers"),
        ("q\n1 2\n3", "Row 2 of q"),
        ("q\n1 two\n", "Line 2 has “two”"),
        ("w\n1 2", "Line 1 names “w”"),
        ("q\n1\nq\n2", "a second time"),
        ("1 2\nq\n3", "before the first name"),
        ("1\n\n2", "2 matrices without names"),
        ("q: __import__('os')", "not a number"),
        ("1 " * 300_000, "200,000 numbers"),
    ],
)
def test_pasted_text_that_cannot_be_read_says_where(text: str, says: str) -> None:
    with pytest.raises(ArraysError) as error:
        read_text(text)
    assert says in str(error.value)
    assert is_sentence(str(error.value))


# ------------------------------------------------------------------------------------------------ hostile files


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


# ------------------------------------------------------------------------------------------------ keeping


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


def test_the_hash_is_of_the_numbers_not_of_the_file(client: TestClient) -> None:
    as_npz = send(client, ("a.npz", npz(True, q=Q, k=K, v=V))).json()
    as_files = send(
        client, ("v.npy", npy(V)), ("q.npy", npy(Q.astype(np.float64))), ("k.npy", npy(np.asfortranarray(K)))
    ).json()
    as_text = send(client, text="q\n0 1\n2 3\n4 5\n6 7\nk\n1 2\n3 4\n5 6\n7 8\nv\n2 3\n4 5\n6 7\n8 9").json()
    assert as_npz["arrays"] == as_files["arrays"] == as_text["arrays"]
    assert as_npz["shapes"] == {"q": [4, 2], "k": [4, 2], "v": [4, 2]}
    other = send(client, ("a.npz", npz(q=Q, k=K, v=V + 1))).json()
    assert other["arrays"] != as_npz["arrays"]


def test_own_arrays_are_recorded_as_they_are(client: TestClient) -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((5, 3), np.float32) for _ in range(3))
    k[1] = -np.inf
    v[2] = np.nan
    kept = send(client, ("a.npz", npz(q=q, k=k, v=v))).json()
    body = {"kernel": "flash-attention-2", "arrays": kept["arrays"], "block_rows": 2, "block_cols": 2}
    answer = client.post("/api/recordings", json=body).json()
    run = fs.load_bytes(client.get(answer["trace"]).content)
    expected = fs.record("flash-attention-2", q, k, v, block_rows=2, block_cols=2)
    assert np.array_equal(run.outputs["O"], expected.outputs["O"], equal_nan=True)
    page = client.get("/explore/flash-attention-2", params={"arrays": kept["arrays"]})
    assert page.status_code == 200
    assert 'value="5"' in page.text  # the arrays' sizes, in the fields they decide


def test_a_key_mask_comes_with_the_arrays(client: TestClient) -> None:
    kept = send(client, text="q\n1\nk\n1\n2\n3\n4\nv\n1\n2\n3\n4\nkey_mask\n0 0 1 1").json()
    assert kept["fits"]["flash-attention-2"] is True
    body = {"kernel": "flash-attention-2", "arrays": kept["arrays"], "block_cols": 2, "block_rows": 1}
    run = fs.load_bytes(client.get(client.post("/api/recordings", json=body).json()["trace"]).content)
    assert run.outputs["O"].item() == pytest.approx(3.731059, abs=1e-5)


def test_the_answer_says_which_kernels_the_arrays_fit(client: TestClient) -> None:
    fits = send(client, text="x\n1 2 3\n4 5 6").json()["fits"]
    assert fits["online-softmax"] is True
    assert is_sentence(fits["flash-attention-1"])
    assert (
        client.get("/api/arrays/" + send(client, text="x\n1 2").json()["arrays"]).json()["fits"][
            "online-softmax"
        ]
        is True
    )


def test_the_arrays_are_read_once_for_all_kernels(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def decode(data: bytes) -> dict[str, Array]:
        reads.append(len(data))
        return arrayfiles.decode(data)

    monkeypatch.setattr("flashstep.app.arrays.decode", decode)
    name = send(client, text="x\n1 2 3").json()["arrays"]
    assert len(reads) == 0
    assert client.get(f"/api/arrays/{name}").json()["fits"]["online-softmax"] is True
    assert len(reads) == 1


def test_many_files_unpack_to_no_more_than_one_may(start: Start) -> None:
    client = start(upload_bytes=LIMIT)
    part = npz(True, a=np.zeros(LIMIT // 8, np.float32))
    answer = send(client, *[(f"{n}.npz", part.replace(b"a.npy", f"{n}.npy".encode())) for n in range(4)])
    assert answer.status_code == 422
    assert "unpacks to more than" in answer.json()["error"]


def test_nothing_and_nonsense_are_refused(client: TestClient) -> None:
    for answer, status in (
        (send(client), 422),
        (
            client.post(
                "/api/arrays", content=b"", headers={"Content-Type": "multipart/form-data; boundary=x"}
            ),
            422,
        ),
        (client.post("/api/arrays", content=b"junk", headers={"Content-Type": "multipart/form-data"}), 400),
        (client.post("/api/arrays", json={"q": [[1]]}), 415),
        (client.post("/api/arrays", content=b"\xff", headers={"Content-Type": "text/plain"}), 422),
        (
            client.post(
                "/api/arrays",
                content=b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\n\\ud800\r\n--x--\r\n',
                headers={"Content-Type": "multipart/form-data; boundary=x; charset=unicode_escape"},
            ),
            400,
        ),
        (send(client, *[(f"{n}.npy", npy(Q)) for n in range(9)]), 400),
        (send(client, ("q.npy", npy(Q)), ("q.npy", npy(Q))), 422),
    ):
        assert answer.status_code == status
        assert is_sentence(answer.json()["error"])


def store(directory: Path, **settings: Any) -> ArrayStore:
    return ArrayStore(Settings(**{"data_directory": directory, **settings}))


def matrix(number: float, cells: int = 1) -> Arrays:
    return Arrays({"x": np.full((1, cells), number, np.float32)})


def test_the_longest_unused_go_first_when_there_are_too_many(tmp_path: Path) -> None:
    kept = store(tmp_path, arrays_count=3)
    names = [kept.put(matrix(n)) for n in range(3)]
    for age, name in zip((300, 200, 100), names, strict=True):
        os.utime(tmp_path / "arrays" / f"{name}.safetensors", times=(time.time() - age,) * 2)
    assert kept.get(names[0]) is not None  # used now, so it is the youngest
    names.append(kept.put(matrix(3)))
    assert [kept.get(name) is not None for name in names] == [True, False, True, True]


def test_all_of_them_together_are_bounded(tmp_path: Path) -> None:
    kept = store(tmp_path, arrays_bytes=10_000)
    for n in range(20):
        kept.put(matrix(n, 500))
    assert sum(path.stat().st_size for path in (tmp_path / "arrays").iterdir()) <= 10_000
    with pytest.raises(ArraysError, match="send at most"):
        kept.put(matrix(0, 5_000))


def test_old_ones_are_gone(tmp_path: Path) -> None:
    kept = store(tmp_path, arrays_days=1)
    name = kept.put(matrix(1))
    os.utime(tmp_path / "arrays" / f"{name}.safetensors", times=(time.time() - 90_000,) * 2)
    assert kept.get(name) is None
    assert list((tmp_path / "arrays").iterdir()) == []


def test_a_damaged_one_is_gone(tmp_path: Path) -> None:
    kept = store(tmp_path)
    name = kept.put(matrix(1))
    path = tmp_path / "arrays" / f"{name}.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    assert kept.get(name) is None


@pytest.mark.parametrize(
    "name", ["", "..", "../../etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "\n", "*" * 64]
)
def test_a_hash_is_a_hash(tmp_path: Path, name: str) -> None:
    assert store(tmp_path).get(name) is None


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such permissions")
def test_what_is_kept_is_private(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    name = store(tmp_path / "data").put(matrix(1))
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "data/arrays").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "data/arrays" / f"{name}.safetensors").stat().st_mode) == 0o600


def test_what_a_killed_server_left_is_swept_up(tmp_path: Path) -> None:
    old, young = tmp_path / ".a.safetensors.old.part", tmp_path / ".a.safetensors.young.part"
    old.touch()
    young.touch()
    os.utime(old, times=(time.time() - 7200,) * 2)
    files.remove_abandoned(tmp_path)
    assert list(tmp_path.iterdir()) == [young]


def test_a_full_disk_is_said(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    client = start()

    def full(path: Path, data: bytes, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flashstep.app.arrays.write_whole", full)
    answer = send(client, text="x\n1 2")
    assert answer.status_code == 507
    body: JSON = answer.json()
    assert is_sentence(body["error"])
