"""Every test of this folder drives the figure on a host of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from figurestage import Stage
from playwright.sync_api import Page


@pytest.fixture
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": {"width": 1920, "height": 1080}}  # no host is cut by the window


@pytest.fixture
def stage(page: Page, site: str) -> Iterator[Stage]:
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{site}/explore/flash-attention-2")
    yield Stage(page)
    assert not faults


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
