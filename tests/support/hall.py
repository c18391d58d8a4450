"""A lecture as the tests of the hall, the presenter and the followers open it."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import BrowserContext, Page, ViewportSize, expect

FA2 = "/lecture/flash-attention-2"
WIDE: ViewportSize = {"width": 1366, "height": 768}
PHONE: ViewportSize = {"width": 390, "height": 844}
# FA2's textbook: block 0 appears 1, load 2, j = 0: 3 4 5, j = 1: 6 7 8, store 9, block 1 appears 10, load 11, …, store 18
STOPS = [0, 2, 5, 8, 9, 11, 14, 17, 18]
RISES = {
    "id": "rises",
    "step": 8,
    "prompt": "<p>Does the maximum <span class='math inline'>m</span> rise?</p>",
    "result": "Yes",
    "answer": "<p>It does, in 3 of 4 rows. <a href='?step=9' data-step='9'>The division</a> comes next.</p>",
}
READING: dict[str, Any] = {
    "questions": [RISES],
    "notes": {"-1": "<p>Welcome everyone.</p>", "9": "<p>The one division.</p>"},
}
ELSEWHERE: dict[str, Any] = {
    "questions": [
        RISES
        | {
            "answer": "<p>See <a href='/lessons/online-softmax?inputs=equal&step=5&cell=li.0.0' class='go other'>that run</a>"
            " after <a href='?step=9' data-step='9'>the division</a>.</p>"
        }
    ],
    "notes": {"8": "<p>Go to <a href='?step=14' data-step='14'>the second block</a>.</p>"},
}


def asks(context: BrowserContext, reading: dict[str, Any]) -> None:
    """Give every page of a context this lesson: the tests of the lessons see to the real ones."""
    context.route(re.compile(r"/api/lecture/"), lambda route: route.fulfill(json=reading))


def opened(page: Page, address: str) -> Page:
    page.goto(address)
    expect(page.locator(".strip .line")).to_be_visible()
    return page


def at(page: Page, step: int) -> None:
    """The hall shows this step, and its address says so."""
    expect(page.locator(".strip .place")).to_have_text(re.compile(rf"^step {step} of "))
    expect(page.locator("body")).to_have_attribute("data-card", "step")
    expect(page).to_have_url(re.compile(rf"[?&]step={step}$"))


def card(page: Page, kind: str) -> None:
    expect(page.locator("body")).to_have_attribute("data-card", kind)
