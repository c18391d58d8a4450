"""The player's model in a real Chromium, fed with traces that Python has just recorded.

Nothing is served: the page lives at an address that does not exist, and every request is answered from the
repository or from memory.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Route

import flashstep as fs

ROOT = Path(__file__).resolve().parents[2]
ORIGIN = "http://player.invalid"
TYPES = {".js": "text/javascript", ".html": "text/html"}


class Player:
    """The functions of `probe.js`, called by name with one argument."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.traces: dict[str, bytes] = {}
        page.route("**/*", self._answer)
        page.goto(f"{ORIGIN}/")

    def _answer(self, route: Route) -> None:
        path = unquote(urlsplit(route.request.url).path)
        name = path.removeprefix("/traces/")
        if path == "/":
            route.fulfill(body="<!doctype html><title>model</title>", content_type="text/html")
        elif name in self.traces:
            route.fulfill(body=self.traces[name], content_type="application/octet-stream")
        elif (file := ROOT / path.lstrip("/")).is_file():
            route.fulfill(body=file.read_bytes(), content_type=TYPES.get(file.suffix, "application/octet-stream"))
        else:
            route.fulfill(status=404, body="")

    def add(self, name: str, run: fs.Run) -> None:
        self.traces.setdefault(name, run.to_bytes())

    def __call__(self, function: str, **argument: Any) -> Any:
        script = """async ([name, argument]) => {
            const probe = await import('/tests/player/probe.js');
            return probe.written(await probe[name](argument));
        }"""
        return json.loads(self.page.evaluate(script, [function, argument]), object_hook=_number)


def _number(found: dict[str, Any]) -> Any:
    """The numbers that JSON has no word for: NaN and the infinities. Vectors come as the bytes of float32."""
    if found.keys() == {"number"}:
        return float(found["number"])
    if found.keys() == {"float32"}:
        return np.frombuffer(base64.b64decode(found["float32"]), np.float32)
    return found


@pytest.fixture(scope="session")
def player(browser: Browser) -> Iterator[Player]:
    context = browser.new_context()
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield Player(page)
    context.close()
    assert not faults


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder drives a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
