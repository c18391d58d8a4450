"""Under which addresses other machines reach this server: what is printed for students, and on the terminal.

Nothing is sent to find them: the system knows its own network interfaces.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

import ifaddr

EVERYWHERE = ("0.0.0.0", "::", "")
# Bridges to containers and virtual machines: addresses of this machine that nobody in the room can reach.
INWARD = ("docker", "br-", "veth", "virbr", "vmnet", "vboxnet", "cni", "podman")


def reachable(host: str, port: int, names: Iterable[str] = ()) -> list[str]:
    """Addresses (`http://192.168.1.20:8642`) of a server that listens on `host`, the likeliest first.

    names: what the server is called beside its addresses (FLASHSTEP_ALLOWED_HOSTS). Empty where it listens on this
    machine alone.
    """
    if host in EVERYWHERE:
        found = [*names, *_interfaces()]
    else:
        own = _parsed(host)
        alone = host == "localhost" or (own is not None and own.is_loopback)
        found = [] if alone else [*names, host]
    return [f"http://{f'[{one}]' if ':' in one else one}{'' if port == 80 else f':{port}'}" for one in dict.fromkeys(found)]


def _interfaces() -> list[str]:
    """This machine's IPv4 addresses in its networks: the one that leads outward first, then private ones."""
    outward = _outward()
    found: list[tuple[bool, bool, str]] = []
    for adapter in ifaddr.get_adapters():
        if adapter.nice_name.lower().startswith(INWARD):
            continue
        for one in adapter.ips:
            text = one.ip if isinstance(one.ip, str) else ""
            address = _parsed(text)
            if address is not None and not (address.is_loopback or address.is_link_local):
                found.append((text != outward, not address.is_private, text))
    return [text for *_, text in sorted(found)]


def _outward() -> str | None:
    """The address that packets to elsewhere would leave from; a UDP socket that is connected has sent nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # reserved for documentation
        except OSError:
            return None
        return str(probe.getsockname()[0])


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
