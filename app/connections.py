"""Connections to the server: how many there may be, which give way when more come, and how long one may stay silent.

Open files are what a room of people shares. Nobody can use them up: a connection that sends no whole request is dropped
after some seconds, and gives way at once when room is short. It is the address with most of them that gives way, so that one
person cannot shut out the others; there is no limit to an address as long as there is room, since a whole hall may stand
behind one. Some are kept for the machine itself, whose lecturer must always get through.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import time
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from .local import from_here

AT_ONCE = 16  # are accepted in one turn of the loop, before any of them is counted
FILES = 48  # open files that are no connections, and two turns' newcomers
KEPT_BACK = FILES + 48  # of which the machine's own connections can always have so many
WANTED = 65_536  # open files; more would cost memory and serve nobody
REQUEST_SECONDS = 10.0  # for a whole request to come
YOUNG_SECONDS = 0.3  # a connection's time for its request before it may give way
STALLED_SECONDS = 60.0  # for somebody to read on
QUIET_SECONDS = 60.0  # between two log lines of one kind
HERE = ""  # the machine itself, among addresses
CROWDED = "More connections came than this server keeps: those that ask for nothing gave way, and some may have been refused."
OUT_OF_FILES = "No more connections are taken for now: the limit on open files is reached (ulimit -n)."
REFUSED = "This server has as many connections as it takes; try again in a moment."
logger = logging.getLogger("flashstep.connections")


class Once(logging.Filter):
    """Lets a warning through once a minute: whoever can cause one can cause thousands."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, text = time.monotonic(), str(record.msg)
        if record.levelno != logging.WARNING or now - self._said.get(text, -QUIET_SECONDS) >= QUIET_SECONDS:
            self._said[text] = now
            return True
        return False


def open_files() -> int:
    """How many files this process may have open, after asking the system for as many as it gives."""
    try:
        import resource
    except ImportError:  # Windows, where sockets are not counted
        return WANTED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    for wanted in (WANTED, 10_240):  # the second: as many as macOS gives, whatever it calls its hard limit
        wanted = wanted if hard == unlimited else min(wanted, hard)
        if soft == unlimited or soft >= wanted:
            break
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return WANTED if soft == unlimited else soft


def followers_within(files: int) -> int:
    """How many may follow a lecture where so many files may be open: the rest of the room is for pages."""
    return max(1, (files - KEPT_BACK) * 3 // 4)


def out_of_files(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's exception handler: asyncio tells of each connection that it cannot accept, thousands of times."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        logger.warning(OUT_OF_FILES)
    else:
        loop.default_exception_handler(context)


class Room:
    """The connections that are open, by the address that they come from, and which of them ask for nothing; with since when."""

    def __init__(self, files: int) -> None:
        self.most = max(2, files - FILES)
        self.most_with_guests = max(1, files - KEPT_BACK)
        self._held: dict[str, dict[Connection, float]] = {}
        self._idle: dict[str, dict[Connection, float]] = {}
        self._count = 0

    def enter(self, one: Connection) -> bool:
        """Whether there is room for `one`; another may have had to leave for it."""
        here = one.address == HERE
        if self._count >= (self.most if here else self.most_with_guests):
            logger.warning(CROWDED)
            leaving = self._gives_way(one.address)
            if leaving is None:
                return False
            self.leave(leaving)
            leaving.transport.abort()
        self._held.setdefault(one.address, {})[one] = time.monotonic()
        self._count += 1
        return True

    def leave(self, one: Connection) -> None:
        """`one` is closed, or will be in a moment."""
        self.rest(one, False)
        if _drop(self._held, one):
            self._count -= 1

    def rest(self, one: Connection, idle: bool) -> None:
        """Whether `one` asks for nothing now."""
        if not idle:
            _drop(self._idle, one)
        elif one in self._held.get(one.address, ()):
            self._idle.setdefault(one.address, {})[one] = time.monotonic()

    def _gives_way(self, address: str) -> Connection | None:
        """Whose place somebody at `address` gets; None: nobody's. Guests never take the machine's own."""
        here, nobody = address == HERE, dict[Connection, float]()
        idle = max((group for place, group in self._idle.items() if here or place != HERE), key=len, default=nobody)
        guests = max((group for place, group in self._held.items() if place != HERE), key=len, default=nobody)
        own = -1 if here else len(self._held.get(address, nobody))
        first = next((one for one in idle if one.answered), next(iter(idle), None))  # one that was answered, else the oldest
        # One that came just now has its request on the way: it gives way to an address with fewer, not to its own kind.
        if first and (first.answered or time.monotonic() - idle[first] > YOUNG_SECONDS or len(idle) > own + 1):
            return first
        return next(iter(guests)) if len(guests) > own + 1 else None


def _drop(groups: dict[str, dict[Connection, float]], one: Connection) -> bool:
    """Take `one` out of its address' group; whether it was in."""
    group = groups.get(one.address, {})
    if one not in group:
        return False
    del group[one]
    if not group:
        del groups[one.address]
    return True


class Connection(H11Protocol):
    """One connection, as uvicorn answers it, with the room's limits."""

    room: ClassVar[Room]
    request_seconds: ClassVar[float] = REQUEST_SECONDS
    address = HERE
    answered = False
    _late: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # which asyncio calls a BaseTransport, and uvicorn a Transport
        super().connection_made(transport)
        self.address = address_of(self.client, self.server)
        if self.room.enter(self):
            self._look()
            return
        text = REFUSED.encode()
        head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
        transport.write(f"{head}Retry-After: 3\r\nConnection: close\r\n\r\n".encode() + text)
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.room.leave(self)
        self._in_time()
        self._reads_on()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.answered = True
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.address != HERE and self._stalled is None:
            self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reads_on()

    def _reads_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _look(self) -> None:
        """See whether a whole request is here. What trickles in gains no time. The machine's own uploads take as they may."""
        waits = self.cycle is None or self.cycle.response_complete or (self.cycle.more_body and self.address != HERE)
        if self.transport.is_closing():
            return
        self.room.rest(self, waits)
        if not waits:
            self._in_time()
        elif self._late is None:
            self._late = self.loop.call_later(self.request_seconds, self.transport.abort)


def address_of(client: tuple[str, int] | None, server: tuple[str, int | None] | None) -> str:
    """Whom a connection is counted for: the machine itself, or an address; of IPv6 the network, which one person has whole."""
    host = client[0] if client else ""
    if from_here(host, server[0] if server else None):
        return HERE
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host or "?"
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
