"""The recordings' and sources' JSON, through real recordings."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from html import unescape
from itertools import product
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from web import JSON, Start, is_sentence, services_of

import flashstep as fs
from flashstep.app import api, parameters
from flashstep.kernels.registry import KERNELS

LONG: JSON = {
    "kernel": "flash-attention-2", "seqlen_q": 4096, "seqlen_k": 4096, "block_rows": 16, "block_cols": 16, "values": "none",
}  # fmt: skip


def ask(client: TestClient, **body: Any) -> JSON:
    answer = client.post("/api/recordings", json=body)
    assert answer.status_code == 200, answer.text
    found: JSON = answer.json()
    return found


def test_only_what_is_small_in_every_way_delays_a_first_figure(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long recording has workers of its own, whatever makes it long."""
    services = services_of(client)
    sizes = parameters.parse(KERNELS["standard"], {}, services.settings, lambda _: None)
    assert sizes.request is not None
    assert sizes.sizes is not None
    asked: list[bool] = []
    monkeypatch.setattr(services.jobs, "ask", lambda *of, small: asked.append(small))
    for change in (
        {}, {"events": api.SMALL_EVENTS + 1}, {"value_bytes": {"all": api.SMALL_BYTES + 1}},
        {"hbm_bytes": api.SMALL_BYTES + 1}, {"flops": api.SMALL_FLOPS + 1},
    ):  # fmt: skip
        api.ask(services, sizes.request, replace(sizes.sizes, **change))
    assert asked == [True, False, False, False, False]


def until(client: TestClient, name: str, state: str) -> JSON:
    for _ in range(400):
        found: JSON = client.get(f"/api/recordings/{name}").json()
        if found["state"] == state:
            return found
        time.sleep(0.025)
    raise AssertionError(f"still {found['state']}")


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_small_recording_is_made_within_the_request(client: TestClient, kernel: str) -> None:
    asked = ask(client, kernel=kernel)
    assert asked["state"] == "done"
    assert asked["done"] == asked["total"] == asked["estimate"]["steps"]
    trace = client.get(asked["trace"])
    assert trace.headers["content-type"] == "application/octet-stream"
    assert trace.content == fs.record(kernel).to_bytes()


@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != "standard"])
def test_the_first_carry_is_minus_infinity_and_arrives_so(client: TestClient, kernel: str) -> None:
    run = fs.load_bytes(client.get(ask(client, kernel=kernel)["trace"]).content)
    met = False
    for step in run.trace.steps:
        state = run.trace.state(step.index)
        met = met or any(np.isneginf(array).any() for array in state.values() if array.dtype == np.float32)
    assert met


def test_a_row_that_sees_no_key_arrives_as_it_is(client: TestClient) -> None:
    asked = ask(client, kernel="flash-attention-2", inputs="fully-masked-row")
    run = fs.load_bytes(client.get(asked["trace"]).content)
    assert np.isneginf(run.outputs["lse"]).any()
    assert not np.isnan(run.outputs["O"]).any()


def test_asking_again_gives_the_same_bytes_without_recording(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask(client, kernel="standard", seed=5)
    content = client.get(first["trace"]).content

    def never(*arguments: object, **named: object) -> None:
        raise AssertionError("recorded twice")

    monkeypatch.setattr("flashstep.app.api.record", never)
    again = ask(client, kernel="standard", seed="5", step="7", cell="li.2.0")
    assert again["id"] == first["id"]
    assert client.get(again["trace"]).content == content


def test_a_recording_outlives_the_server(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    client = start()
    asked = ask(client, kernel="standard")
    content = client.get(asked["trace"]).content
    client.__exit__()
    other = start()
    monkeypatch.setattr("flashstep.app.api.record", None)
    assert ask(other, kernel="standard")["state"] == "done"
    assert other.get(asked["trace"]).content == content
    client.__enter__()


def test_two_builds_of_the_code_do_not_share_recordings(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask(client, kernel="standard")
    monkeypatch.setattr("flashstep.app.parameters.code_hash", lambda: "another")
    assert ask(client, kernel="standard")["id"] != first["id"]


def test_a_trace_is_fetched_once(client: TestClient) -> None:
    address = ask(client, kernel="standard")["trace"]
    first = client.get(address)
    assert "immutable" in first.headers["cache-control"]
    again = client.get(address, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_long_recording_is_answered_at_once_shows_progress_and_can_be_cancelled(start: Start) -> None:
    client = start(patience_seconds=0.05)
    asked = ask(client, **LONG)
    assert asked["state"] in ("queued", "running")
    assert asked["total"] == asked["estimate"]["steps"]
    address = f"/api/recordings/{asked['id']}"
    for _ in range(400):
        found = client.get(address).json()
        if found["done"] > 0:
            break
        time.sleep(0.01)
    assert 0 < found["done"] < found["total"]
    assert client.get(asked["trace"]).status_code == 404
    client.delete(address, params={"ticket": asked["ticket"]})
    until(client, asked["id"], "cancelled")
    assert client.get(asked["trace"]).status_code == 404


def test_nobody_cancels_anothers(start: Start) -> None:
    client = start(patience_seconds=0)
    asked = ask(client, **LONG)
    address = f"/api/recordings/{asked['id']}"
    for query in ({}, {"ticket": ""}, {"ticket": "1"}, {"ticket": "x" * 22}):
        assert client.delete(address, params=query).json()["state"] in ("queued", "running")
    time.sleep(0.2)
    assert client.get(address).json()["state"] in ("queued", "running")
    client.delete(address, params={"ticket": asked["ticket"]})
    until(client, asked["id"], "cancelled")


def test_another_who_waits_keeps_it_going(start: Start) -> None:
    client = start(patience_seconds=0)
    first, second = ask(client, **LONG), ask(client, **LONG)
    assert first["id"] == second["id"]
    address = f"/api/recordings/{first['id']}"
    assert client.delete(address, params={"ticket": first["ticket"]}).json()["state"] in ("queued", "running")
    assert client.delete(address, params={"ticket": second["ticket"]}).status_code == 200
    until(client, first["id"], "cancelled")


def test_a_full_queue_says_when_to_come_back(start: Start) -> None:
    client = start(patience_seconds=0, workers=1, queue=0)
    asked = ask(client, **LONG)
    answer = client.post("/api/recordings", json={**LONG, "seed": 1})
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert is_sentence(answer.json()["error"])
    client.delete(f"/api/recordings/{asked['id']}")


def test_too_large_is_refused_before_any_work(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashstep.app.api.record", None)
    began = time.perf_counter()
    sizes = {"seqlen_q": 2**24, "seqlen_k": 2**24, "head_dim": 64, "block_rows": 1024, "block_cols": 1024}
    answer = client.post("/api/recordings", json={"kernel": "flash-attention-2", **sizes})
    assert answer.status_code == 422
    assert re.search(r"[\d,]{9,} steps", answer.json()["errors"]["seqlen_k"])
    assert time.perf_counter() - began < 1


def test_refused_parameters_come_back_with_a_sentence_a_field(client: TestClient) -> None:
    sent = {"kernel": "flash-attention-2", "seqlen_q": "many", "heads": 0, "step": "3"}
    answer = client.post("/api/recordings", json=sent)
    assert answer.status_code == 422
    body = answer.json()
    assert set(body["errors"]) == {"seqlen_q", "heads"}
    assert all(is_sentence(sentence) for sentence in body["errors"].values())
    assert body["values"] == sent


@pytest.mark.parametrize(
    "kernel", [None, "", "nothing", 7, ["standard"], {"a": 1}, "../standard", "x" * 10_000]
)
def test_an_unknown_kernel_is_named_with_those_there_are(client: TestClient, kernel: object) -> None:
    answer = client.post("/api/recordings", json={"kernel": kernel})
    assert answer.status_code == 422
    assert "flash-decoding" in answer.json()["errors"]["kernel"]
    assert len(answer.text) < 12_000


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 50_000, b'{"kernel": NaN}', b'{"kernel": "\\ud800"}'],
)
def test_a_body_that_is_no_json_object_is_refused(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/recordings", content=body)
    assert answer.status_code in (400, 422)
    assert is_sentence(answer.json()["error"])


HUGE = "9" * 5000
WRONG = ["[]", "[8]", "{}", '{"a": 1}', "8.5", "-1e999", HUGE, "9" * 399]


@pytest.mark.parametrize("path", ["/api/recordings", "/api/comparisons"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *product(("seqlen_q", "head_dim", "batch", "block_rows", "seed", "focus"), (*WRONG, "true")),
        *product(("kernel", "inputs", "values", "causal", "arrays"), WRONG),
        *product(("scale",), ("[]", "{}", "true", "1e999", "NaN", HUGE)),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused_beside_itself(client: TestClient, path: str, field: str, value: str) -> None:
    given = {"kernel": '"standard"', "engine": '"cpu"', field: value}
    body = "{" + ", ".join(f'"{name}": {text}' for name, text in given.items()) + "}"
    answer = client.post(path, content=body)
    assert answer.status_code == 422, answer.text
    assert list(answer.json()["errors"]) == [field]
    assert is_sentence(answer.json()["errors"][field])


@pytest.mark.parametrize("value", ["[]", "[8]", "{}", "8.5", "1.0", HUGE, '"perhaps"'])
@pytest.mark.parametrize("field", ["engine", "fmad"])
def test_so_are_those_of_a_comparison(client: TestClient, field: str, value: str) -> None:
    given = {"kernel": '"standard"', "engine": '"cpu"', field: value}
    body = "{" + ", ".join(f'"{name}": {text}' for name, text in given.items()) + "}"
    answer = client.post("/api/comparisons", content=body)
    assert answer.status_code == 422, answer.text
    assert list(answer.json()["errors"]) == [field]


def test_null_is_a_field_left_out(client: TestClient) -> None:
    empty: JSON = dict.fromkeys(["seqlen_q", "causal", "scale", "inputs", "seed", "values", "focus", "arrays"])
    assert ask(client, kernel="standard", **empty)["id"] == ask(client, kernel="standard")["id"]


@pytest.mark.parametrize("path", ["/api/recordings", "/api/comparisons"])
@pytest.mark.parametrize(
    ("kernel", "sizes", "says"),
    [
        ("standard", {"seqlen_q": 60_000, "seqlen_k": 60_000, "head_dim": 1, "block_rows": 1024, "block_cols": 1024}, "MiB"),
        ("flash-decoding", {"seqlen_k": 2**20, "head_dim": 1024, "block_cols": 1024, "splits": 64}, "MiB"),
        ("flash-attention-2", {"seqlen_q": 200_000, "seqlen_k": 200_000, "head_dim": 1024, "block_rows": 1024,
                               "block_cols": 1024, "values": "none"}, "MiB"),
        ("flash-attention-2", {"seqlen_q": 60_000, "seqlen_k": 60_000, "head_dim": 256, "block_rows": 1024,
                               "block_cols": 1024, "values": "none"}, "operations"),
    ],
)  # fmt: skip
def test_what_takes_too_much_memory_or_time_is_refused_before_work(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, kernel: str, sizes: JSON, says: str
) -> None:
    monkeypatch.setattr("flashstep.app.api.record", None)
    monkeypatch.setattr("flashstep.app.compare.record", None)
    began = time.monotonic()
    answer = client.post(path, json={"kernel": kernel, "engine": "recorded", **sizes})
    assert time.monotonic() - began < 3
    assert answer.status_code == 422
    errors = answer.json()["errors"]
    assert list(errors) == ["seqlen_k"]
    assert says in errors["seqlen_k"]
    assert "would fit" in errors["seqlen_k"]
    page = client.get(f"/explore/{kernel}", params=sizes)
    assert page.status_code == 422
    assert 'aria-describedby="e-seqlen_k"' in page.text


def test_the_bounds_of_memory_and_work_are_settings(start: Start) -> None:
    ask(start(), kernel="standard")
    for bound in ({"max_hbm_bytes": 100}, {"max_flops": 100}):
        refused = start(**bound).post("/api/recordings", json={"kernel": "standard"})
        assert list(refused.json()["errors"]) == ["seqlen_k"]
    wide = start(max_hbm_bytes=2**40, max_flops=2**60)
    assert ask(wide, kernel="standard")["state"] == "done"


def test_a_long_number_is_refused_at_once(client: TestClient) -> None:
    began = time.monotonic()
    answer = client.post("/api/recordings", json={"kernel": "standard", "scale": "1" * 60_000 + "x"})
    assert answer.status_code == 422
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("name", ["0" * 64, "x", "..%2f..%2fetc%2fpasswd", "%00", "a" * 3000])
def test_an_unknown_recording_is_said_to_be_gone(client: TestClient, name: str) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/trace")):
        answer = client.request(method, f"/api/recordings/{name}{path}")
        assert answer.status_code == 404
        assert is_sentence(answer.json()["error"])


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_source_has_an_element_a_line_and_every_character(client: TestClient, kernel: str) -> None:
    twin = client.get(f"/api/source/{kernel}").json()["twin"]
    text = KERNELS[kernel].source.read_text("utf-8")
    found = re.findall(r'<span class="line" id="twin-(\d+)">', twin["html"])
    assert [int(n) for n in found] == list(range(1, twin["lines"] + 1))
    assert unescape(re.sub(r"<[^>]+>", "", twin["html"])).rstrip("\n") == text.rstrip("\n")


def test_an_unchanged_source_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/api/source/standard")
    again = client.get("/api/source/standard", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304


def test_the_page_holds_what_to_ask_for(client: TestClient) -> None:
    page = client.get("/explore/flash-attention-2?block_rows=2&step=5").text
    embedded = re.search(r'id="explore">(.*?)</script>', page, re.S)
    assert embedded is not None
    data: JSON = json.loads(embedded[1])
    assert data["request"] == {"kernel": data["kernel"], **data["parameters"]}
    assert data["request"]["block_rows"] == 2
    assert ask(client, **data["request"])["state"] == "done"
    assert set(data["presets"]) == set(KERNELS["flash-attention-2"].presets)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["seqlen_q", "seqlen_k", "head_dim", "block_rows", "heads", "kv_heads", "causal", "scale", "inputs", "seed", "values",
     "focus", "arrays", "splits", "batch", "step", ""]
)  # fmt: skip
SMALL = st.integers(-2, 40).map(str) | st.sampled_from(
    ["", " ", "on", "hand", "decode", "all", "none", "1e3", "½", "٣", "0.5"]
)


@given(body=st.dictionaries(NAMES, SMALL | ANYTHING, max_size=6), kernel=st.sampled_from(list(KERNELS)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_whatever_is_asked_is_recorded_or_refused(client: TestClient, body: JSON, kernel: str) -> None:
    answer = client.post("/api/recordings", content=json.dumps({**body, "kernel": kernel}))
    assert answer.status_code in (200, 400, 422)
    if answer.status_code == 200:
        assert answer.json()["state"] in ("done", "running", "queued")
    else:
        assert is_sentence(answer.json()["error"]), answer.json()


@given(
    query=st.dictionaries(NAMES, SMALL | st.text(max_size=12), max_size=6),
    kernel=st.sampled_from(list(KERNELS)),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
def test_whatever_a_link_says_the_page_opens(client: TestClient, query: JSON, kernel: str) -> None:
    query = {name: text.encode("utf-8", "replace").decode() for name, text in query.items()}
    page = client.get(f"/explore/{kernel}", params=query)
    assert page.status_code in (200, 422)
    assert 'id="player"' in page.text
