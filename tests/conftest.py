"""Fixtures for every test: the running site, the browser, and a page that reports what no page may do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import chromium
import pytest
from hypothesis import settings
from playwright.sync_api import BrowserContext, ConsoleMessage, Request

ROOT = Path(__file__).resolve().parent.parent

# A slow machine is no failure; CI (where Hypothesis picks its own profile) explores the same examples each time.
settings.register_profile("flashstep", deadline=None)
if not os.environ.get("CI"):
    settings.load_profile("flashstep")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the app, served as a person would serve it: `http://127.0.0.1:41234`, no slash at the end."""
    log = tmp_path_factory.mktemp("site") / "server.log"
    with log.open("w") as errors:
        server = subprocess.Popen(
            [sys.executable, "-m", "flashstep", "serve", "--no-open", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=log.parent,
        )
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            address = re.search(r"http://[\w.:\[\]]+", line)
            assert address, f"the server printed no address: {line!r}\n{log.read_text()}"
            yield address[0].rstrip("/")
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            if server.stdout is not None:
                server.stdout.close()


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """An installed Chromium where there is one, else Playwright's own."""
    found = chromium.find()
    path = {} if found is None else {"executable_path": str(found)}
    return {**browser_type_launch_args, **path, "args": list(chromium.ARGUMENTS)}


@pytest.fixture
def context(new_context: Any) -> Iterator[BrowserContext]:
    """A fresh browser context whose pages may not throw, break the content-security policy or ask another machine."""
    faults: list[str] = []

    def console(message: ConsoleMessage) -> None:
        if message.type == "error" and "Content Security Policy" in message.text:
            faults.append(f"policy: {message.text}")

    def request(request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme.startswith(("http", "ws")) and address.hostname not in ("127.0.0.1", "localhost"):
            faults.append(f"asked another machine: {request.url}")

    context: BrowserContext = new_context()
    context.on("weberror", lambda error: faults.append(f"uncaught: {error.error.stack or error.error}"))
    context.on("console", console)
    context.on("request", request)
    yield context
    assert not faults, "the page misbehaved:\n" + "\n".join(faults)
