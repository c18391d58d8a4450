"""The lecture's pages, and the questions and notes that they get from the lesson."""

from __future__ import annotations

import json
import re

import pytest
from fastapi.testclient import TestClient

from flashstep.app.lecture import recording_query
from flashstep.app.lessons import LESSONS
from flashstep.kernels.registry import KERNELS


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_has_a_hall_and_a_presenters_window(client: TestClient, name: str) -> None:
    for path in (f"/lecture/{name}?step=3&theme=dark", f"/lecture/{name}/presenter"):
        answer = client.get(path)
        assert answer.status_code == 200
        data = json.loads(re.findall(r'id="lecture">(.*?)</script>', answer.text)[0])
        assert data["request"]["kernel"] == data["kernel"] == name
        assert data["query"] == ""  # what was asked of the place is not part of the recording


def test_what_cannot_be_recorded_is_said_with_a_way_to_put_it_right(client: TestClient) -> None:
    for path in ("/lecture/standard?seqlen_k=no&head_dim=8", "/lecture/standard/presenter?seqlen_k=no&head_dim=8"):
        answer = client.get(path)
        assert answer.status_code == 422
        assert "“no” is not a whole number" in answer.text
        assert "/explore/standard?seqlen_k=no&amp;head_dim=8" in answer.text
    assert client.get("/lecture/none").status_code == 404
    assert client.get("/api/lecture/none").status_code == 404


@pytest.mark.parametrize("name", LESSONS)
def test_questions_and_notes_are_the_lessons_own(client: TestClient, name: str) -> None:
    found = client.get(f"/api/lecture/{name}").json()
    assert len(found["questions"]) >= 3
    text = client.get(f"/lessons/{name}").text
    last = client.post("/api/recordings", json={"kernel": name}).json()["total"] - 1
    for question in found["questions"]:
        assert question["step"] is None or 0 <= question["step"] <= last
        assert f'id="q-{question["id"]}"' in text
        # On a screen of its own nothing stands before it that it could speak of.
        assert not re.search(r"\b(that|those) (run|table|curve|paragraph)s?\b", question["prompt"], re.IGNORECASE)
    assert all(-1 <= int(step) <= last for step in found["notes"])


def test_a_run_that_no_lesson_tells_is_shown_without_questions(client: TestClient) -> None:
    name = next(iter(LESSONS))
    assert client.get(f"/api/lecture/{name}?seqlen_k=4096&seqlen_q=4096").json() == {"questions": [], "notes": {}}


def test_one_recording_has_one_query_however_its_address_is_written() -> None:
    a = recording_query({"seqlen_k": "16", "step": "3", "head_dim": "8", "card": "end", "theme": "dark"})
    assert a == recording_query({"head_dim": "8", "cell": "li.2.0", "seqlen_k": "16"}) == "head_dim=8&seqlen_k=16"
