"""Who may do what costs or changes something: only people at the machine that Flashstep runs on.

Uploading arrays, starting an engine and opening a session are theirs alone. The check believes the connection and nothing
that a request says of itself: what a proxy forwards comes from a loopback address too, so a request that was forwarded, or
that names the server by any other name than its own, counts as somebody else's.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from fastapi import Depends
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request

FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
REFUSAL = "Only someone at the machine that Flashstep runs on may do this; there, open it under the address that it printed."


def is_here(request: Request) -> bool:
    """Whether the request comes from this machine itself, with nothing in between."""
    scope, headers = request.scope, Headers(scope=request.scope)
    client, server = scope.get("client"), scope.get("server")
    if client is None or any(name in headers for name in FORWARDED):
        return False
    own = {"localhost"} if server is None else {"localhost", server[0]}
    return from_here(client[0], server[0] if server else None) and _named_here(headers.get("host", ""), own)


async def only_here(request: Request) -> None:
    """A route's dependency. Raises HTTPException 403 for somebody at another machine."""
    if not is_here(request):
        raise HTTPException(403, REFUSAL)


ONLY_HERE = [Depends(only_here)]


def from_here(client: str, server: str | None) -> bool:
    """Whether a connection comes from a loopback address, or from the very address that it was sent to: nobody else has both."""
    found = _address(client)
    return found is not None and (found.is_loopback or (server is not None and found == _address(server)))


def _named_here(host: str, own: set[str]) -> bool:
    """Whether a Host header names this machine by a loopback name or by the connection's own address."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    found = _address(name)
    return name in own or (found is not None and (found.is_loopback or found in {_address(one) for one in own}))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address as the text writes it; an IPv4 address inside IPv6 (::ffff:127.0.0.1) as itself."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
