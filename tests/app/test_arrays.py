"""A person's own arrays over HTTP and in the store: what is kept under which hash, and how long."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arraybytes import LIMIT, K, Q, V, npy, npy_header, npz, safetensors
from fastapi.testclient import TestClient
from web import JSON, Start, is_sentence

import flashstep as fs
from flashstep.app import arrayfiles, files
from flashstep.app.arrayfiles import read_file
from flashstep.app.arrays import ArrayStore
from flashstep.app.ownarrays import Array, Arrays, ArraysError
from flashstep.app.settings import Settings


def send(client: TestClient, *parts: tuple[str, bytes], text: str = "") -> Any:
    fields: list[tuple[str, Any]] = [("files", part) for part in parts]
    return client.post("/api/arrays", files=[*fields, ("text", (None, text))])


def test_a_saved_run_is_not_arrays(client: TestClient) -> None:
    data = fs.record("standard").to_bytes()
    with pytest.raises(ArraysError, match=r"run.st is a saved run.* `flashstep show run.st`"):
        read_file("run.st", data, LIMIT)
    assert send(client, ("run.safetensors", data)).status_code == 422


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


@pytest.mark.parametrize("side", [2**31, 2**39, 2**63 - 1, 2**64, 10**30])
def test_arrays_of_no_numbers_and_endless_sides_are_told_so(client: TestClient, side: int) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': (0, {side}), }}\n"
    parts = {"q": npy_header(header), "k": npy_header(header), "v": npy_header(header)}
    answer = send(client, *((f"{name}.npy", data) for name, data in parts.items()))
    if answer.status_code == 200:  # kept, and no kernel takes them
        assert all(is_sentence(why) for why in answer.json()["fits"].values())
        refused = client.post("/api/recordings", json={"kernel": "standard", "arrays": answer.json()["arrays"]})
        assert refused.status_code == 422
    else:
        assert answer.status_code == 422
        assert is_sentence(answer.json()["error"])
    tensors = {"x": {"dtype": "F32", "shape": [0, side], "data_offsets": [0, 0]}}
    assert send(client, ("x.safetensors", safetensors(tensors))).status_code in (200, 422)


def test_an_array_that_comes_twice_is_refused_in_whatever_files(client: TestClient) -> None:
    answer = send(client, ("a.npz", npz(q=Q, k=K, v=V)), ("q.npy", npy(K)))
    assert answer.status_code == 422
    assert answer.json()["error"] == "q comes twice; send it once."


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


def test_what_is_too_large_takes_no_room_from_older_ones(tmp_path: Path) -> None:
    for name, count, age in (("a" * 64, 100, 1), ("b" * 64, 1000, 2), ("c" * 64, 50, 3)):
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(bytes(count))
        os.utime(path, times=(time.time() - age,) * 2)
    files.keep_newest(tmp_path, files.OWN, count=9, total=350)
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == ["a", "c"]


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


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such permissions")
def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    name = store(shared).put(matrix(1))
    assert stat.S_IMODE(shared.stat().st_mode) == 0o775
    assert stat.S_IMODE((shared / "arrays").stat().st_mode) == 0o700
    assert stat.S_IMODE((shared / "arrays" / f"{name}.safetensors").stat().st_mode) == 0o600
    # What is missing above is made for the owner alone too.
    store(tmp_path / "a" / "b").put(matrix(1))
    assert [stat.S_IMODE((tmp_path / made).stat().st_mode) for made in ("a", "a/b", "a/b/arrays")] == [0o700] * 3


def test_somebody_elses_files_are_never_removed(tmp_path: Path) -> None:
    (tmp_path / "arrays").mkdir()
    mine = tmp_path / "arrays" / "weights.safetensors"
    mine.write_bytes(b"weights")
    os.utime(mine, times=(0, 0))
    kept = store(tmp_path, arrays_count=1)
    names = [kept.put(matrix(n)) for n in range(3)]
    assert mine.exists()
    assert [kept.get(name) is not None for name in names] == [False, False, True]


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
