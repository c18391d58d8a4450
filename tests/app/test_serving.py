"""`flashstep serve`: the address that it prints, a port or an address that it cannot have, and how it stops."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from commands import flashstep

from flashstep.app import cli, serving


def test_serve_prints_its_address_and_stops(site: str) -> None:
    with urllib.request.urlopen(site) as answer:
        assert answer.status == 200
        assert b"Flashstep" in answer.read()


def test_a_busy_port_is_one_sentence() -> None:
    with serving.listen("127.0.0.1", 0) as busy:
        port = busy.getsockname()[1]
        process = flashstep("serve", "--no-open", "--port", str(port))
        with process:
            out, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert out == ""
    assert err.startswith(f"flashstep: Port {port} is in use")
    assert err.count("\n") == 1


def test_the_sentence_names_a_port_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(self: socket.socket, address: object) -> None:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(socket.socket, "bind", busy)
    for port, words in ((8642, "try --port 8643,"), (65534, "try --port 65535,"), (65535, "try a lower --port,")):
        with pytest.raises(serving.CannotListen, match=words):
            serving.listen("127.0.0.1", port)


@pytest.mark.skipif(os.name == "nt", reason="Windows means something else by it")
def test_a_server_may_start_where_one_has_just_ended() -> None:
    with serving.listen("127.0.0.1", 0) as listener:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send to one process")
@pytest.mark.parametrize("arguments", [("serve", "--no-open", "--port", "0")], ids=["serve"])
def test_ctrl_c_stops_the_server_quietly(arguments: tuple[str, ...]) -> None:
    process = flashstep(*arguments)
    with process:
        assert process.stdout is not None
        assert "http://127.0.0.1:" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert err == ""


@pytest.mark.skipif(os.name == "nt", reason="Windows ends a process without a word")
@pytest.mark.parametrize("end", ["SIGTERM", "SIGINT"])
def test_a_folder_for_a_user_without_a_home_goes_with_the_server(end: str, tmp_path: Path) -> None:
    without = {name: value for name, value in os.environ.items() if not name.startswith(("FLASHSTEP_", "XDG_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "flashstep", "serve", "--no-open", "--port", "0"],
        env={**without, "HOME": os.devnull, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[3]
        sent = urllib.request.Request(f"{address}/api/arrays", b"x\n0 1 2", {"Content-Type": "text/plain"})
        with urllib.request.urlopen(sent) as answer:
            assert answer.status == 200
        (folder,) = tmp_path.iterdir()
        process.send_signal(getattr(signal, end))
        _, err = process.communicate(timeout=30)
    assert not folder.exists()
    assert err.count("\n") == 1
    assert str(folder) in err
    assert "FLASHSTEP_DATA_DIRECTORY" in err


def test_bare_flashstep_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, object]] = []

    def serve(listener: socket.socket, host: str, *, open_browser: bool) -> None:
        asked.append((host, open_browser))

    monkeypatch.setattr(serving, "serve", serve)
    monkeypatch.setattr(serving, "listen", lambda host, port: serving_socket(host, port, asked))
    assert cli.main([]) == 0
    assert asked[0] == ("127.0.0.1", 8642)
    assert asked[1] == ("127.0.0.1", True)


def serving_socket(host: str, port: int, asked: list[tuple[object, object]]) -> socket.socket:
    """Notes what was asked for, and listens on a port that is free."""
    asked.append((host, port))
    listener = socket.socket()
    listener.bind((host, 0))
    return listener


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [("no-such-host.invalid", 0, "There is no host named"), ("192.0.2.1", 0, "This machine has no address")],
)
def test_an_address_that_is_not_ours(host: str, port: int, words: str) -> None:
    with pytest.raises(serving.CannotListen, match=words):
        serving.listen(host, port)


def test_no_text_browser_takes_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert serving.has_browser() is False
