"""The app in this process, with an empty data folder and small limits where a test asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from web import ADDRESS, Start

from flashstep.app.server import create_app
from flashstep.app.settings import Settings


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start an app whose settings differ from the defaults as given: `start(queue=0)`."""
    with ExitStack() as running:

        def started(host: str = "127.0.0.1", peer: tuple[str, int] = ("127.0.0.1", 50000), **settings: Any) -> TestClient:
            chosen = Settings(**{"data_directory": tmp_path / "data", **settings})
            app = create_app(chosen, host)
            client = TestClient(app, base_url=ADDRESS, raise_server_exceptions=False, client=peer)
            return running.enter_context(client)

        yield started


@pytest.fixture
def client(start: Start) -> TestClient:
    """The app with its default limits."""
    return start()


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command under test finds no file here but those that the test puts."""
    monkeypatch.chdir(tmp_path)
