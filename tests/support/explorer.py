"""The explorer's page as a person sees it, for the tests that drive it."""

from __future__ import annotations

import re
import time
from typing import Any

from playwright.sync_api import FloatRect, Locator, Page, ViewportSize, expect

FA2 = "/explore/flash-attention-2"
WIDE: ViewportSize = {"width": 1366, "height": 768}
LARGE: ViewportSize = {"width": 1920, "height": 1080}
PHONE: ViewportSize = {"width": 390, "height": 844}


def box(part: Locator) -> FloatRect:
    """Where a part stands; it has to stand somewhere."""
    found = part.bounding_box()
    assert found is not None
    return found


def until(page: Page, holds: str, seconds: float = 5) -> None:
    """Wait until a function of the page says true. Playwright's own way needs eval, which the pages' policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(holds):
        assert time.monotonic() < end, f"not so after {seconds} s: {holds}"
        page.wait_for_timeout(30)


class Player:
    """The page as a person sees it."""

    def __init__(self, page: Page, site: str) -> None:
        self.page, self.site = page, site

    def open(self, path: str = FA2) -> Player:
        self.page.goto(self.site + path)
        expect(self.place).to_have_text(re.compile(r"step \d+ of \d+"))
        expect(self.page.locator(".tab").first).to_be_visible()
        return self

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def at(self, step: int) -> None:
        expect(self.place).to_have_text(re.compile(rf"^step {step} of "))

    def address(self, **wanted: str | None) -> None:
        """The address holds these in the end: it is written at most every third of a second."""
        for name, value in wanted.items():
            pattern = rf"[?&]{name}={re.escape(value)}(&|$)" if value is not None else rf"^(?!.*[?&]{name}=)"
            expect(self.page).to_have_url(re.compile(pattern))

    @property
    def place(self) -> Any:
        return self.page.locator(".place")

    @property
    def caption(self) -> Any:
        return self.page.locator(".caption-text")

    @property
    def last(self) -> int:
        text = self.place.inner_text()
        return int(text.rsplit(" ", 1)[1])

    def row(self, text: str) -> Any:
        return self.page.locator(".row.step", has_text=text)
