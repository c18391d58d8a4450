"""Serving on this machine: a socket, its address, and a browser where there is one.

The web framework is imported by `serve` alone, so that the rest of the command line starts without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import sys
import tempfile
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .settings import Settings

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8642
QUEUE = 1024  # connections that the system holds until they are accepted
PATIENCE_SECONDS = 3  # how long answers under way may take to finish when the server is stopped


class CannotListen(Exception):
    """The address cannot be listened on; the message is one sentence that says why and what to do."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on `host` and `port` (0: any free one). Raises `CannotListen`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        raise CannotListen(f"There is no host named {host} here; leave out --host to serve this machine alone.") from None
    listener = socket.socket(family, kind, protocol)
    # So that a server may start again where one has just ended. Windows means something else by it: sharing a port.
    option = "SO_EXCLUSIVEADDRUSE" if sys.platform == "win32" else "SO_REUSEADDR"
    listener.setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1)
    try:
        listener.bind(address)
        listener.listen(QUEUE)
    except OSError as error:
        listener.close()
        raise CannotListen(_why(error, host, port)) from None
    return listener


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        other = f"--port {port + 1}" if port < 65535 else "a lower --port"
        return f"Port {port} is in use, perhaps by another Flashstep; try {other}, or --port 0 for any free one."
    if error.errno == errno.EACCES:
        return f"Port {port} may not be used by you; try --port {DEFAULT_PORT}, or --port 0 for any free one."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"This machine has no address {host}; leave out --host to serve this machine alone."
    return f"Listening on {host}, port {port} failed: {error.strerror}."


def address_of(listener: socket.socket) -> str:
    """The address to type into a browser on this machine: `http://127.0.0.1:8642`."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def has_browser() -> bool:
    """Whether a window can open here. Without a display Python would offer a text browser, which takes the terminal."""
    graphical = sys.platform in ("win32", "darwin") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    if graphical:
        with contextlib.suppress(webbrowser.Error):
            webbrowser.get()
            return True
    return False


def serve(listener: socket.socket, host: str, *, open_browser: bool) -> None:
    """Serve the app on `listener`, made for `host`, until it is stopped. Prints the address once it answers.

    Raises `ValueError` for settings that cannot be used.
    """
    with contextlib.ExitStack() as running:
        _serve(listener, host, open_browser, running)


def data_directory(settings: Settings, running: contextlib.ExitStack) -> Path:
    """The folder that recordings and arrays are kept in. Where the user has none, one that lasts as long as `running`.

    Raises `ValueError` where somebody named one that cannot be used.
    """
    from .files import unwritable

    folder = settings.data_directory
    why = unwritable(folder)
    if why is None:
        return folder
    if "data_directory" in settings.model_fields_set:
        raise ValueError(f"FLASHSTEP_DATA_DIRECTORY is {folder}, where nothing can be kept: {why}; name another folder.")
    made = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="flashstep-", ignore_cleanup_errors=True)))
    print(
        f"Recordings and arrays are kept in {made} until this server stops: {folder} cannot be used ({why}). "
        "FLASHSTEP_DATA_DIRECTORY names a folder that stays.",
        file=sys.stderr,
    )
    return made


def _serve(listener: socket.socket, host: str, open_browser: bool, running: contextlib.ExitStack) -> None:
    import uvicorn

    from . import connections
    from .addresses import reachable
    from .server import create_app
    from .settings import read_settings, unknown_variables

    settings = read_settings()
    if vain := unknown_variables(os.environ):
        print(vain, file=sys.stderr)
    settings = settings.model_copy(update={"data_directory": data_directory(settings, running)})
    files = connections.open_files()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().set_exception_handler(connections.out_of_files)
            await super().startup(sockets=sockets)
            if self.started:
                listener.listen(QUEUE)  # they wait there; config's backlog is how many are taken out at a time
                _announce(address_of(listener), open_browser)
                others = reachable(host, listener.getsockname()[1], settings.allowed_hosts)
                for address in others:
                    _say(f"Others reach it at {address}")
                if others and followers < settings.followers:
                    _say(
                        f"At most {followers:,} can follow a lecture at once: the system lets Flashstep have {files:,} files "
                        "and connections open; a higher ulimit -n lets more."
                    )

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.sessions.close_all()  # those who follow a lecture would hold their connections
            await super().shutdown(sockets=sockets)
            running.close()  # after this, uvicorn lets a SIGTERM end the process

    class Connection(connections.Connection):
        room = connections.Room(files)

    followers = min(settings.followers, connections.followers_within(files))
    app = create_app(settings.model_copy(update={"followers": followers}), host)
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        backlog=connections.AT_ONCE,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who asks is who holds the connection, whatever a header says
        timeout_graceful_shutdown=PATIENCE_SECONDS,
    )
    for log in (connections.logger, logging.getLogger("uvicorn.error")):
        log.addFilter(connections.Once())
    Server(config).run(sockets=[listener])


def _announce(address: str, open_browser: bool) -> None:
    _say(f"Flashstep is at {address}  (Ctrl-C stops it)")
    if open_browser and has_browser():
        # A browser may take its time to start; the server does not wait for it.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _say(line: str) -> None:
    """Print a line. A terminal that is gone, or a full disk behind it, stops no lecture."""
    with contextlib.suppress(OSError):
        print(line, flush=True)
