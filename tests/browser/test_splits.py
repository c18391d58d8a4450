"""The lesson on flash decoding in a real Chromium: the reader's own decode, worked out as it is typed, and the curves."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

ANSWERED = 15_000  # milliseconds for an answer of the server, on a machine that does other things too


def test_the_decode_follows_its_form_and_the_curves_are_drawn(page: Page, site: str) -> None:
    """The page's policy is watched by the `context` fixture: Plotly and the form must break nothing of it."""
    page.goto(f"{site}/lessons/flash-decoding?step=4")
    expect(page.locator("html")).to_have_attribute("data-lesson", "ready", timeout=ANSWERED)
    idle, squares = page.locator("[data-of='said.idle']"), page.locator("[data-picture='unsplit'] .idle")
    expect(idle).to_contain_text("100 of the GPU's 132 SMs have nothing to do", timeout=ANSWERED)

    def hollow() -> int:
        return (squares.get_attribute("d") or "").count("M")

    assert hollow() == 100

    # Typed in one form, it stands in both, and all that is told follows.
    page.locator("#idle-heads").fill("16")
    expect(idle).to_contain_text("116 of the GPU's 132 SMs", timeout=ANSWERED)
    assert hollow() == 116
    expect(page.locator("#choice-heads")).to_have_value("16")
    page.locator("#idle-gpu").select_option("108")
    expect(idle).to_contain_text("92 of the GPU's 108 SMs", timeout=ANSWERED)
    expect(page.locator("#choice-sms")).to_have_value("108")
    expect(page.locator("[data-of='said.choice']")).to_contain_text("1 × 16 heads, 65,536 keys and 108 SMs", timeout=ANSWERED)

    # What cannot be is said at its field, and leaves the rest as it was.
    page.locator("#choice-kv_heads").fill("5")
    wrong = page.locator("#choice-kv_heads-error")
    expect(wrong).to_have_text("5 cannot share 16 heads evenly; use a divisor of 16.", timeout=ANSWERED)
    expect(page.locator("#idle-kv_heads")).to_have_attribute("aria-invalid", "true")
    expect(idle).to_contain_text("92 of the GPU's 108 SMs", timeout=ANSWERED)
    page.locator("#choice-kv_heads").fill("4")
    expect(wrong).to_be_hidden(timeout=ANSWERED)
    expect(page).to_have_url(re.compile(r"(?=.*my-heads=16)(?=.*my-kv_heads=4)(?=.*my-sms=108)"), timeout=ANSWERED)

    # Stepping keeps it in the address, and the address opens it.
    page.locator("#choice-kv_heads").blur()
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"(?=.*step=5)(?=.*my-heads=16)(?=.*my-kv_heads=4)(?=.*my-sms=108)"), timeout=ANSWERED)
    page.reload()
    expect(idle).to_contain_text("92 of the GPU's 108 SMs", timeout=ANSWERED)
    expect(page.locator("#choice-kv_heads")).to_have_value("4")
    expect(page.locator("#idle-gpu")).to_have_value("108")

    curves = page.locator(".chart", has_text="One decoded token")
    curves.scroll_into_view_if_needed()
    expect(curves.locator(".main-svg").first).to_be_visible()
    named = curves.locator(".legendtext").all_text_contents()
    assert named == curves.locator("thead th").all_text_contents()[1:]
    expect(curves.locator(".scatterlayer .trace")).to_have_count(len(named))
