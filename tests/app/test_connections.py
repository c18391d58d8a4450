"""Connections: one person cannot shut out the others, silence is not waited for, and the machine itself always gets through."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn

from flashstep.app import connections
from flashstep.app.connections import FILES, HERE, KEPT_BACK, Once, Room, address_of

HERE_ADDRESS, FIRST, SECOND, THIRD = "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
WAIT = b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"
Serve = Callable[..., "Served"]


def can_bind() -> bool:
    with socket.socket() as one:
        try:
            one.bind((FIRST, 0))
        except OSError:
            return False
    return True


many_addresses = pytest.mark.skipif(not can_bind(), reason="this system has one loopback address")


class Served:
    """A small app behind `connections.Connection`, and clients of several addresses."""

    def __init__(self, server: uvicorn.Server, room: Room, port: int) -> None:
        self.server, self.room, self.port = server, room, port
        self.opened: list[socket.socket] = []

    def connect(self, source: str = FIRST, sent: bytes = b"") -> socket.socket:
        one = socket.create_connection(("127.0.0.1", self.port), 5, (source, 0))
        self.opened.append(one)
        one.sendall(sent)
        return one

    def counted(self, most: int) -> bool:
        """Whether in the end so many connections are held."""
        return within(2, lambda: self.room._count == most)


def within(seconds: float, true: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def status(one: socket.socket) -> int:
    """Of the answer that comes; 0: the connection was dropped."""
    try:
        line = one.recv(4096)
    except (ConnectionError, TimeoutError):
        return 0
    return int(line.split()[1]) if line else 0


def dropped(one: socket.socket, seconds: float = 3) -> bool:
    one.settimeout(seconds)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers once the body is here; /wait never does, and /large answers with more than anyone's buffers hold."""
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/wait":
        await receive()  # until the connection ends
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(64 if scope["path"] == "/large" else 1):
        await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})
    await send({"type": "http.response.body", "body": b"done"})


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setattr(connections, "from_here", lambda client, server: client == HERE_ADDRESS)
    with contextlib.ExitStack() as running:

        def served(guests: int, seconds: float = 30) -> Served:
            class Connection(connections.Connection):
                room = Room(KEPT_BACK + guests)
                request_seconds = seconds

            listener = running.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            config = uvicorn.Config(app, http=Connection, ws="none", lifespan="off", log_level="error")
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()
            found = Served(server, Connection.room, listener.getsockname()[1])

            def stop() -> None:
                for one in found.opened:
                    one.close()
                assert within(5, lambda: not (found.room._held or found.room._idle or found.room._count))
                server.should_exit = server.force_exit = True
                thread.join(10)

            running.callback(stop)
            assert within(10, lambda: server.started)
            return found

        yield served


@many_addresses
def test_connections_that_ask_for_nothing_shut_nobody_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "YOUNG_SECONDS", 0.5)
    served = serve(guests=8)
    silent = [served.connect(FIRST) for _ in range(60)]
    assert served.counted(8)
    assert status(served.connect(SECOND, GET)) == 200
    assert status(served.connect(HERE_ADDRESS, GET)) == 200
    time.sleep(0.6)
    assert status(served.connect(FIRST, GET)) == 200  # another behind the same address
    assert dropped(silent[0])
    assert not dropped(silent[7], 0.1)  # the oldest gave way


@many_addresses
def test_those_behind_one_address_do_not_drop_each_other(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "YOUNG_SECONDS", 5.0)
    served = serve(guests=4)
    first = [served.connect(FIRST) for _ in range(4)]
    assert served.counted(4)
    assert status(served.connect(FIRST, GET)) == 503  # their requests are on the way
    first[3].sendall(GET)
    assert status(first[3]) == 200
    assert within(2, lambda: first[3].recv(2**20).endswith(b"0\r\n\r\n"))
    assert status(served.connect(FIRST, GET)) == 200
    assert dropped(first[3], 1)  # it had its answer
    assert not any(dropped(one, 0.1) for one in first[:3])


@many_addresses
def test_it_is_the_crowd_that_gives_way(serve: Serve) -> None:
    served = serve(guests=4)
    alone = served.connect(SECOND)
    crowd = [served.connect(FIRST) for _ in range(3)]
    assert served.counted(4)
    third = served.connect(THIRD)
    assert dropped(crowd[0])
    assert not dropped(alone, 0.1)
    for one in (alone, third, crowd[2]):
        one.sendall(GET)
        assert status(one) == 200


@many_addresses
def test_requests_that_never_end_leave_room_for_others(serve: Serve) -> None:
    served = serve(guests=4)
    busy = [served.connect(FIRST, WAIT) for _ in range(4)]
    assert served.counted(4)
    assert within(2, lambda: not served.room._idle)
    refused = served.connect(FIRST)  # who holds all of the room gets no more of it
    answer = refused.recv(4096)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert answer.endswith(connections.REFUSED.encode())
    assert int(answer.partition(b"Content-Length: ")[2].split()[0]) == len(connections.REFUSED)
    assert dropped(refused)
    for one in (served.connect(SECOND, WAIT), served.connect(THIRD, WAIT)):
        assert not dropped(one, 0.1)
    assert dropped(busy[0])
    assert not dropped(busy[3], 0.1)
    assert served.counted(4)


@many_addresses
def test_a_crowd_that_asks_for_nothing_goes_before_one_that_does(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "YOUNG_SECONDS", 5.0)
    served = serve(guests=6)
    hall = [served.connect(SECOND, WAIT) for _ in range(4)]
    silent = [served.connect(FIRST) for _ in range(2)]
    assert served.counted(6)
    assert status(served.connect(THIRD, GET)) == 200
    assert dropped(silent[0])
    assert not any(dropped(one, 0.05) for one in hall)


@many_addresses
def test_the_machine_itself_gets_through_whatever_guests_do(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "YOUNG_SECONDS", 0.0)
    served = serve(guests=2)
    guests = [served.connect(FIRST, WAIT), served.connect(SECOND, WAIT)]
    own = [served.connect(HERE_ADDRESS, WAIT) for _ in range(KEPT_BACK - FILES)]
    assert served.counted(2 + KEPT_BACK - FILES)
    assert within(2, lambda: not served.room._idle)
    assert status(served.connect(HERE_ADDRESS, GET)) == 200  # even then: a guest gave way
    assert [dropped(one, 0.1) for one in guests].count(True) == 1
    assert not any(dropped(one, 0.01) for one in own)
    assert served.counted(2 + KEPT_BACK - FILES)
    idle = served.connect(HERE_ADDRESS)
    time.sleep(0.1)
    assert status(served.connect(THIRD, GET)) == 503  # and no guest takes the machine's
    assert not dropped(idle, 0.1)


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost:", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"],
    ids=["nothing", "half a head", "half a body"],
)
@many_addresses
def test_a_request_that_does_not_come_whole_is_not_waited_for(serve: Serve, sent: bytes) -> None:
    served = serve(guests=8, seconds=0.3)
    began = time.monotonic()
    one = served.connect(FIRST, sent)
    while time.monotonic() - began < 0.25:  # what trickles in gains no time
        one.sendall(b"" if not sent else b"x" * sent.startswith(b"GET"))
        time.sleep(0.05)
    assert dropped(one)
    assert 0.25 < time.monotonic() - began < 2
    assert served.counted(0)


@many_addresses
def test_what_was_asked_is_answered_however_long_it_takes(serve: Serve) -> None:
    served = serve(guests=8, seconds=0.2)
    assert not dropped(served.connect(FIRST, WAIT), 0.6)
    halves = served.connect(FIRST, WAIT[:9])
    time.sleep(0.05)
    halves.sendall(WAIT[9:])
    assert not dropped(halves, 0.6)
    kept = served.connect(FIRST, GET)
    while not kept.recv(2**20).endswith(b"0\r\n\r\n"):
        pass
    assert dropped(kept, 1)  # long before uvicorn's own five seconds
    # The machine's own uploads may take their time.
    assert not dropped(served.connect(HERE_ADDRESS, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"), 0.6)


@many_addresses
def test_who_does_not_read_on_is_dropped(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.3)
    served = serve(guests=8)
    served.connect(FIRST, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    assert served.counted(1)
    assert served.counted(0)
    slow = served.connect(FIRST, b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    began, got = time.monotonic(), 0
    while chunk := slow.recv(2**20):
        got += len(chunk)
        time.sleep(0.015)
    assert got > 64 * 2**20
    assert time.monotonic() - began > 0.6  # twice as long as a pause may be


def test_who_comes_from_where() -> None:
    assert address_of(("127.0.0.1", 5), ("127.0.0.1", 80)) == HERE
    assert address_of(("192.168.1.20", 5), ("192.168.1.20", 80)) == HERE
    assert address_of(("192.168.1.21", 5), ("192.168.1.20", 80)) == "192.168.1.21"
    assert address_of(("::ffff:10.0.0.5", 5), ("::", 80)) == address_of(("::ffff:10.0.0.5", 6), ("::", 80)) != HERE
    assert address_of(("::ffff:10.0.0.5", 5), ("::", 80)) != address_of(("::ffff:10.0.0.6", 5), ("::", 80))
    # One person has a whole network of IPv6.
    assert address_of(("2001:db8::1", 5), ("::", 80)) == address_of(("2001:db8::ffff:2", 5), ("::", 80))
    assert address_of(("2001:db8::1", 5), ("::", 80)) != address_of(("2001:db8:0:1::1", 5), ("::", 80))
    assert address_of(None, None) != HERE


def test_a_flood_is_logged_once() -> None:
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.Logger("one of its own")
    logger.addFilter(Once())
    logger.addHandler(handler)
    for _ in range(100):
        logger.warning("too many")
        logger.error("a fault")
    logger.warning("another")
    assert said.count("too many") == said.count("another") == 1
    assert said.count("a fault") == 100


def test_running_out_of_files_is_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    connections.out_of_files(loop, {"message": "accept", "exception": OSError(errno.EMFILE, "Too many open files")})
    assert [record.getMessage() for record in caplog.records] == [connections.OUT_OF_FILES]
    connections.out_of_files(loop, {"message": "something else", "exception": OSError(errno.EIO, "Input/output error")})
    assert "something else" in caplog.records[-1].getMessage()
    loop.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not count sockets")
def test_serve_asks_for_more_files_and_says_how_many_may_follow() -> None:
    def limited(limits: str, *arguments: str) -> list[str]:
        return ["sh", "-c", f'{limits} && exec "$@"', "sh", sys.executable, *arguments]

    ask = "from flashstep.app.connections import open_files; print(open_files())"
    found = subprocess.run(
        limited("ulimit -Sn 200 && ulimit -Hn 900", "-c", ask), stdout=subprocess.PIPE, text=True, check=True
    )
    assert found.stdout == "900\n"
    command = limited("ulimit -n 256", "-m", "flashstep", "serve", "--no-open", "--host", "0.0.0.0", "--port", "0")
    names = {**os.environ, "FLASHSTEP_ALLOWED_HOSTS": "hall.example"}  # where there is no network, it is still called something
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=names) as server:
        assert server.stdout is not None
        said = [server.stdout.readline()]
        while said[-1].startswith(("Flashstep is at", "Others reach it")):
            said.append(server.stdout.readline())
        server.terminate()
    assert said[-1].startswith("At most 120 can follow a lecture at once: the system lets Flashstep have 256 files")
