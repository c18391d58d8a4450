"""What the app's tests share: the app in this process, a page's tags, and a word on what it must say."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

from flashstep.app.api import Services

ADDRESS = "http://127.0.0.1:8642"
Start = Callable[..., TestClient]
JSON = dict[str, Any]


def services_of(client: TestClient) -> Services:
    """What the app behind a client keeps: its settings, jobs and arrays."""
    assert isinstance(client.app, FastAPI)
    services = client.app.state.services
    assert isinstance(services, Services)
    return services


def is_sentence(text: str) -> bool:
    """Whether a message is for people: a capital or a quotation first, a full stop last, no traceback."""
    return bool(re.match(r"[A-Z“\w]", text)) and text.endswith(".") and "Traceback" not in text


class Tags(HTMLParser):
    """A page's tags with their attributes, and the text inside each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data
