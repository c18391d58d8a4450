"""Every test of this folder drives a lecture, without motion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hall import WIDE


@pytest.fixture
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": WIDE, "reduced_motion": "reduce"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
