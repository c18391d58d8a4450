"""What holds for every request and every answer: headers, the Host check, the size of a body.

Plain ASGI, so that an answer streams through untouched and an error page carries the same headers as any other.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .addresses import EVERYWHERE
from .tables import size

POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    "img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# What the embedded player's answer says instead: any page may frame it, also one opened from a file, which `*` does not
# cover, and one that isolates itself. It still loads nothing but this server's own.
FRAMEABLE = {
    "Content-Security-Policy": POLICY.replace("frame-ancestors 'self'", "frame-ancestors * file:"),
    "Cross-Origin-Opener-Policy": "unsafe-none",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}


class SecurityHeaders:
    """Sets `HEADERS` where an answer does not say otherwise, and asks for revalidation where it does not say how to be cached."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                # With an ETag this costs one 304; without it an upgraded server could meet an old module.
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        await self.app(scope, receive, send_with_headers)


class HostCheck:
    """Answers only under the server's own names, and refuses writes that another site's page sends.

    A hostile page can point its own domain at 127.0.0.1 (DNS rebinding) and would then read this server as its own
    origin; the Host header gives it away. An address is never a rebound name, so when the server listens on every
    address (0.0.0.0, ::) any address is accepted as a Host.
    """

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1", allowed: Iterable[str] = ()) -> None:
        self.app = app
        self.any_address = host in EVERYWHERE
        names = {"127.0.0.1", "localhost", "::1", host.lower(), *allowed}
        if self.any_address:
            own = socket.gethostname().lower()
            names |= {own, f"{own}.local"}
        self.names = frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        refusal = None
        if not self._known(host):
            refusal = (
                "This server answers only under its own address; open the address that it printed, "
                "or name this host in FLASHSTEP_ALLOWED_HOSTS."
            )
        elif scope.get("method", "GET") not in ("GET", "HEAD", "OPTIONS") and not _same_origin(headers, host):
            refusal = "Another site's page may not send this; open Flashstep itself."
        if refusal is None:
            await self.app(scope, receive, send)
        else:
            status = 403 if self._known(host) else 421
            await refuse(scope, status, refusal)(scope, receive, send)

    def _known(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name.rstrip(".") in self.names:
            return True
        if not self.any_address:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _same_origin(headers: Headers, host: str) -> bool:
    """Whether a write comes from our own page, or from no page at all (a program sends no Origin)."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "none") in ("none", "same-origin")
    return urlsplit(origin).netloc.lower() == host.lower()


class BodyLimit:
    """Refuses a body larger than its path may have (413): by its declared length, and again while it streams."""

    def __init__(self, app: ASGIApp, default: int, larger: dict[str, int] | None = None) -> None:
        self.app = app
        self.default = default
        self.larger = larger or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = self.larger.get(scope["path"], self.default)
        sentence = f"This is larger than the server takes ({size(limit)}); send less."
        declared = Headers(scope=scope).get("content-length", "0")
        if not declared.isdecimal() or int(declared[:20]) > limit:
            await refuse(scope, 413, sentence)(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                # Raised inside the endpoint's read; the handlers turn it into the answer.
                raise HTTPException(413, sentence)
            return message

        await self.app(scope, counted, send)


class Head:
    """Answers HEAD wherever GET is answered: with the same headers, and no body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_no_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self.app({**scope, "method": "GET"}, receive, send_no_body)


class Compress(GZipMiddleware):
    """Packs text. A trace is left as it is: it is large and read on this machine, where packing costs more than it saves.
    So are events, each of which should be on its way at once, and a run to keep, most of which is packed already: nobody
    else is answered while it is packed again.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (scope["path"].endswith(("/trace", "/events")) or scope["path"].startswith("/export/")):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def refuse(scope: Scope, status: int, sentence: str) -> Response:
    """A refusal made before any page exists to show it: JSON under /api/, plain text elsewhere."""
    if scope["path"].startswith("/api/"):
        return Response(json.dumps({"error": sentence}), status, media_type="application/json")
    return Response(sentence + "\n", status, media_type="text/plain")
