"""Following a lecture: the lecturer's every move, told to everyone in the room as it is made.

A session lives in memory: a short code that students type, a key that alone moves it, and the newest place. Followers get
server-sent events, each numbered, and need only the newest: whoever is slow, or was away, gets that one and is level again.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import segno
from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from ..kernels import registry
from ..trace.words import listed
from . import assets
from .addresses import reachable
from .api import find_kernel, read_json
from .local import ONLY_HERE
from .pages import render
from .settings import Settings

router = APIRouter(prefix="/api/follow")
page = APIRouter()

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is taken for another on a blackboard
CODE = re.compile(f"[{LETTERS}]{{5}}")
KEY = re.compile(r"[A-Za-z0-9_-]{43}")
KEY_HEADER = "X-Follow-Key"
BEAT_SECONDS = 10.0  # a connection that is silent for longer than two beats is dead
RETRY_MS = 1000
CARDS = ("title", "step", "question", "answer", "end")
GONE = "There is no lecture with this code now; ask the lecturer for the link."
FULL = "As many follow as this server takes; look at the screen, or at a neighbour's."
WRONG_KEY = "Only the lecturer's own window moves this lecture."
PLACE = ("kernel", "query", "position", "order", "focus", "cell", "card", "question", "blank")
BAD_PLACE = f"This is no place of a lecture: {listed(PLACE)} are understood."


class Session:
    """One lecture that is followed. `sequence` numbers its moves; `event` is the newest as it is sent."""

    def __init__(self, code: str, key: str, now: float, sequence: int = 0) -> None:
        self.code = code
        self.lock = _digest(key)
        self.sequence = sequence
        self.place: dict[str, Any] | None = None
        self.event = b""
        self.touched = now
        self.followers = 0
        self.closed = False
        self._waiting: set[asyncio.Future[None]] = set()

    def opens(self, key: str) -> bool:
        """Whether this is the session's key; the time that it takes tells nothing."""
        return hmac.compare_digest(self.lock, _digest(key))

    def move(self, place: dict[str, Any], now: float) -> None:
        """Everyone who follows goes to `place`."""
        self.sequence += 1
        self.place = place
        self.touched = now
        self.event = _event("place", json.dumps(place), self.sequence)
        self._wake()

    def close(self) -> None:
        """The lecture is over: everyone is told, and their connections end."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        for one in self._waiting:
            _release(one)

    async def _change(self, beat: float) -> None:
        """Until something changes, or for so many seconds. A bare future: a task for each of hundreds would cost time."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(beat, _release, future)
        self._waiting.add(future)
        try:
            await future
        finally:
            timer.cancel()
            self._waiting.discard(future)

    async def events(self, last: int = -1, beat: float = BEAT_SECONDS) -> AsyncIterator[bytes]:
        """What a follower is sent who has seen everything up to number `last`: the newest place, then each new one."""
        yield f"retry: {RETRY_MS}\n\n".encode()
        while not self.closed:
            if self.sequence != last and self.place is not None:
                last = self.sequence
                yield self.event
                continue  # with what changed while that was sent
            await self._change(beat)
            if self.sequence == last or self.place is None:
                yield _event("beat", str(self.sequence))
        yield _event("over", "{}")


class Sessions:
    """The sessions of one server: few, and none for ever. The one that has been still for longest makes room."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._open: dict[str, Session] = {}

    @property
    def full(self) -> bool:
        """Whether as many follow at this moment as the server takes."""
        return sum(session.followers for session in self._open.values()) >= self._settings.followers

    def open(self) -> tuple[Session, str]:
        """A new session and its key."""
        self._drop_old()
        code = ""
        while not code or code in self._open:
            code = "".join(secrets.choice(LETTERS) for _ in range(5))
        key = secrets.token_urlsafe(32)
        return self._keep(Session(code, key, self._clock())), key

    def reopen(self, code: str, key: str, sequence: int) -> Session | None:
        """The session of this code and key, which goes on counting at `sequence` where the server was started anew.

        None: another key's session has the code by now.
        """
        self._drop_old()
        found = self._open.get(code)
        if found is not None:
            return found if found.opens(key) else None
        return self._keep(Session(code, key, self._clock(), sequence))

    def _keep(self, session: Session) -> Session:
        self._open[session.code] = session
        while len(self._open) > self._settings.follow_sessions:
            self.close(min(self._open.values(), key=lambda one: one.touched))
        return session

    def find(self, code: str) -> Session | None:
        """The session of a code, however it is typed."""
        self._drop_old()
        return self._open.get(code.strip().lower())

    def move(self, session: Session, place: dict[str, Any]) -> None:
        session.move(place, self._clock())

    def close(self, session: Session) -> None:
        self._open.pop(session.code, None)
        session.close()

    def close_all(self) -> None:
        """The server stops: no connection should hold it."""
        for session in list(self._open.values()):
            self.close(session)

    def _drop_old(self) -> None:
        oldest = self._clock() - self._settings.follow_hours * 3600
        for session in [one for one in self._open.values() if one.touched < oldest]:
            self.close(session)


def _release(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _event(name: str, data: str, number: int | None = None) -> bytes:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {name}\ndata: {data}\n\n".encode()


async def sessions(request: Request) -> Sessions:
    """The sessions of the app that answers `request`."""
    found: Sessions = request.app.state.sessions
    return found


Open = Annotated[Sessions, Depends(sessions)]


async def session_of(code: str, open_sessions: Open) -> Session:
    """The session in the address. Raises HTTPException 404."""
    found = open_sessions.find(code)
    if found is None:
        raise HTTPException(404, GONE)
    return found


Found = Annotated[Session, Depends(session_of)]


async def driven(request: Request, session: Found) -> Session:
    """The session in the address, for whoever holds its key. Raises HTTPException 403."""
    if not session.opens(request.headers.get(KEY_HEADER, "")):
        raise HTTPException(403, WRONG_KEY)
    return session


Driven = Annotated[Session, Depends(driven)]


@router.post("", dependencies=ONLY_HERE)
async def begin(request: Request, open_sessions: Open) -> Response:
    """Open a session: its code, and the key that moves it. {code, key, sequence} of an earlier one goes on with that."""
    sent = await read_json(request)
    code, key, sequence = sent.get("code"), sent.get("key"), sent.get("sequence")
    again = None
    if isinstance(code, str) and isinstance(key, str) and CODE.fullmatch(code) and KEY.fullmatch(key) and whole(sequence):
        again = open_sessions.reopen(code, key, int(str(sequence)))
    session, own = (again, str(key)) if again else open_sessions.open()
    app, (_, port) = request.app, request.scope["server"]
    addresses = await run_in_threadpool(reachable, app.state.host, port, app.state.services.settings.allowed_hosts)
    links = [f"{address}/f/{session.code}" for address in addresses]
    answer = {"code": session.code, "key": own, "links": [{"link": link, "qr": picture(link)} for link in links]}
    return JSONResponse(answer, 201, {"Cache-Control": "no-store"})


def picture(link: str) -> str:
    """The QR code of a link, as a data address: an SVG, dark on white whatever the page's colours, with its quiet zone."""
    return str(segno.make(link, micro=False).svg_data_uri(scale=8, border=4, dark="#000", light="#fff"))


@router.post("/{code}")
async def move(request: Request, session: Driven, open_sessions: Open) -> Response:
    """The lecturer's move. Answers with its number and how many follow."""
    open_sessions.move(session, place_of(await read_json(request)))
    return JSONResponse({"sequence": session.sequence, "followers": session.followers})


@router.delete("/{code}")
async def end(session: Driven, open_sessions: Open) -> Response:
    """The lecturer ends the session."""
    open_sessions.close(session)
    return Response(status_code=204)


@router.get("/{code}")
async def look(session: Found, open_sessions: Open) -> Response:
    """The newest place, for whoever cannot keep a connection open, and whether that is because too many follow."""
    newest = {
        "sequence": session.sequence, "place": session.place, "followers": session.followers, "full": open_sessions.full,
    }  # fmt: skip
    return JSONResponse(newest, headers={"Cache-Control": "no-store"})


@router.get("/{code}/events")
async def events(request: Request, session: Found, open_sessions: Open) -> Response:
    """The moves as server-sent events: `place` (numbered), `beat` while nothing moves, `over` at the end."""
    if open_sessions.full:
        raise HTTPException(503, FULL, {"Retry-After": "30", "Connection": "close"})  # it holds a place that others need
    said = request.headers.get("last-event-id", "")
    last = int(said) if re.fullmatch(r"\d{1,15}", said) else -1

    async def told() -> AsyncIterator[bytes]:
        session.followers += 1
        try:
            async for event in session.events(last):
                yield event
        finally:
            session.followers -= 1

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(told(), media_type="text/event-stream", headers=headers)


@page.get("/f/")
async def join(open_sessions: Open, code: str = "") -> Response:
    """Where a student types the code."""
    if not code.strip():
        return render("join.html", current=None, code="", error="")
    session = open_sessions.find(code)
    if session is None:
        return render("join.html", 404, current=None, code=code, error=GONE)
    return RedirectResponse(f"/f/{session.code}", 303)


@page.get("/f/{code}")
async def student(code: str, open_sessions: Open) -> Response:
    """What a student opens: the printed link."""
    session = open_sessions.find(code)
    if session is None:
        return render("join.html", 404, current=None, code=code, error=GONE)
    titles = {kernel.name: kernel.title for kernel in registry.KERNELS.values()}
    return render(
        "follow.html",
        embedded={"code": session.code, "titles": titles},
        errors=[],
        modules=assets.modules("follow/main.js"),
    )


def whole(value: object) -> bool:
    """Whether a JSON value is a whole number that a step, a block or a move may have."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def place_of(sent: dict[str, Any]) -> dict[str, Any]:
    """A place as students get it: every part of the kind and size that it may have. Raises HTTPException 422."""

    def text(name: str, most: int) -> bool:
        return isinstance(sent.get(name), str) and len(sent[name]) <= most

    fits = (
        find_kernel(sent.get("kernel")) is not None
        and text("query", 2000)
        and whole(sent.get("position"))
        and whole(sent.get("focus"))
        and sent.get("order") in ("serial", "together")
        and (sent.get("cell") is None or text("cell", 80))
        and sent.get("card") in CARDS
        and (sent.get("question") is None or text("question", 80))
        and isinstance(sent.get("blank"), bool)
    )
    if not fits:
        raise HTTPException(422, BAD_PLACE)
    return {name: sent.get(name) for name in PLACE}
