"""Every test of this folder drives the explorer's page, without motion, in the smallest window that needs no scrolling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from explorer import WIDE, Player
from playwright.sync_api import Page


@pytest.fixture
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": WIDE, "reduced_motion": "reduce"}


@pytest.fixture
def player(page: Page, site: str) -> Player:
    return Player(page, site)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
