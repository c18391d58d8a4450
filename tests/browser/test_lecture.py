"""The lecture hall in a real Chromium: the clicker, questions, the presenter's window, and students who follow."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

pytestmark = pytest.mark.browser

FA2 = "/lecture/flash-attention-2"
WIDE: ViewportSize = {"width": 1366, "height": 768}
PHONE: ViewportSize = {"width": 390, "height": 844}
# FA2's textbook: block 0 appears 1, load 2, j = 0: 3 4 5, j = 1: 6 7 8, store 9, block 1 appears 10, load 11, …, store 18
STOPS = [0, 2, 5, 8, 9, 11, 14, 17, 18]
READING = {
    "questions": [
        {
            "id": "rises",
            "step": 8,
            "prompt": "<p>Does the maximum <span class='math inline'>m</span> rise?</p>",
            "result": "Yes",
            "answer": "<p>It does, in 3 of 4 rows. <a href='?step=9' data-step='9'>The division</a> comes next.</p>",
        },
    ],
    "notes": {"-1": "<p>Welcome everyone.</p>", "9": "<p>The one division.</p>"},
}


@pytest.fixture
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": WIDE, "reduced_motion": "reduce"}


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


def test_a_clicker_goes_from_the_title_to_the_end_and_back(page: Page, context: BrowserContext, site: str) -> None:
    asks(context, {"questions": [], "notes": {}})
    opened(page, site + FA2)
    expect(page.get_by_role("heading", name="FlashAttention 2")).to_be_visible()
    for step in STOPS:
        page.keyboard.press("PageDown")
        at(page, step)
    page.keyboard.press("PageDown")
    expect(page.get_by_role("heading", name="This is the end.")).to_be_visible()
    page.keyboard.press(" ")
    card(page, "end")
    expect(page).to_have_url(re.compile("card=end"))
    page.reload()
    expect(page.get_by_role("heading", name="This is the end.")).to_be_visible()
    page.keyboard.press("PageUp")
    at(page, 18)
    page.keyboard.press("ArrowLeft")
    at(page, 17)
    page.keyboard.press("Shift+ArrowLeft")  # every event
    at(page, 16)
    page.keyboard.press("Shift+ArrowRight")
    at(page, 17)
    page.keyboard.press("Home")
    card(page, "title")
    page.go_back()
    at(page, 17)


def test_blank_full_screen_and_the_keys_of_a_clicker(page: Page, context: BrowserContext, site: str) -> None:
    asks(context, {"questions": [], "notes": {}})
    opened(page, site + FA2 + "?step=8")
    blank = page.locator("#blank")
    for key in ("b", "."):
        page.keyboard.press(key)
        expect(blank).to_be_visible()
        page.keyboard.press("PageDown")  # the first press brings the picture back, and no more
        expect(blank).to_be_hidden()
        at(page, 8)
    page.evaluate("window.stays = true")
    page.keyboard.press("F5")  # begins a show: it must not load the page anew
    page.wait_for_function("document.fullscreenElement !== null")
    page.keyboard.press("f")
    page.wait_for_function("document.fullscreenElement === null")
    assert page.evaluate("window.stays")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Shift")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    at(page, 8)


def test_the_back_row_reads_it_and_the_buttons_hide(page: Page, context: BrowserContext, site: str) -> None:
    asks(context, {"questions": [], "notes": {}})
    opened(page, site + FA2 + "?step=8")
    size = "node => parseFloat(getComputedStyle(node).fontSize)"
    assert page.locator(".caption-text").evaluate(size) >= 28
    figure, caption = page.locator(".figure-svg").bounding_box(), page.locator(".caption-text").bounding_box()
    assert figure is not None
    assert caption is not None
    assert figure["width"] > 0.95 * WIDE["width"]
    assert figure["height"] > 0.78 * WIDE["height"]
    assert caption["y"] + caption["height"] < WIDE["height"] - 40
    assert page.evaluate("document.documentElement.scrollHeight") <= WIDE["height"]
    tools = page.locator(".strip .tools")
    page.mouse.move(300, 300)
    expect(tools).to_have_css("opacity", "1")
    page.keyboard.press("ArrowRight")
    expect(tools).to_have_css("opacity", "0")
    page.keyboard.press("Tab")  # the figure
    page.keyboard.press("Tab")  # by keyboard they come back
    expect(tools).to_have_css("opacity", "1")
    page.goto(site + FA2 + "?step=8&cell=li.2.0")
    formula = page.locator(".explain .formula")
    expect(formula).to_contain_text("=")
    assert formula.evaluate(size) >= 24
    page.keyboard.press("Escape")
    expect(formula).to_be_hidden()
    at(page, 8)


def test_a_question_waits_until_it_is_answered(page: Page, context: BrowserContext, site: str) -> None:
    asks(context, READING)
    opened(page, site + FA2 + "?step=5")
    page.keyboard.press("PageDown")
    card(page, "question")
    question = page.locator("#question")
    expect(question).to_contain_text("Does the maximum")
    expect(question.locator(".katex-html")).to_have_text("m")
    expect(page.get_by_text("3 of 4 rows")).to_be_hidden()
    expect(page.locator(".strip .place")).to_have_text("step 7 of 18")  # the step before the one that shows it
    page.keyboard.press("PageDown")
    card(page, "answer")
    expect(page.get_by_text("It does, in 3 of 4 rows.")).to_be_visible()
    expect(page.locator(".strip .place")).to_have_text("step 8 of 18")
    expect(page).to_have_url(re.compile("card=answer"))  # written a moment after the move
    page.reload()
    expect(page.get_by_text("It does, in 3 of 4 rows.")).to_be_visible()
    expect(question.get_by_text("Yes", exact=True)).to_be_visible()
    page.keyboard.press("PageDown")
    at(page, 8)
    expect(question).to_be_hidden()
    page.keyboard.press("PageUp")
    question.get_by_role("link", name="The division").click()
    at(page, 9)


def test_the_presenters_window_and_the_hall_move_each_other(page: Page, context: BrowserContext, site: str) -> None:
    asks(context, READING)
    hall = opened(page, site + FA2)
    with context.expect_page() as popup:
        hall.keyboard.press("n")
    desk = popup.value
    expect(desk.locator("#where")).to_have_text("stop 0 of 12")
    expect(desk.locator("#notes")).to_have_text("Welcome everyone.")
    hall.keyboard.press("PageDown")
    hall.keyboard.press("PageDown")
    expect(desk.locator("#where")).to_have_text("stop 2 of 12 · step 2 of 18")
    expect(desk.locator("#next .preview-words")).to_contain_text("Row 0 sees its first keys")
    desk.keyboard.press("PageDown")
    at(hall, 5)
    desk.get_by_role("button", name="Next").click()
    card(hall, "question")
    expect(desk.locator("#notes")).to_contain_text("It does, in 3 of 4 rows.")  # the lecturer knows it already
    desk.locator(".place-row", has_text="store O0").click()
    at(hall, 9)
    expect(desk.locator("#notes")).to_have_text("The one division.")
    expect(desk.locator(".place-row[aria-current]")).to_contain_text("store O0")
    expect(desk.locator(".preview-frame svg")).to_have_count(2)
    desk.get_by_role("button", name="Blank").click()
    expect(hall.locator("#blank")).to_be_visible()
    elapsed = desk.get_by_role("timer")
    expect(elapsed).to_have_text("00:00")
    desk.get_by_role("button", name="Start", exact=True).click()
    expect(elapsed).to_have_text("00:01")
    desk.reload()
    expect(elapsed).to_have_text(re.compile("00:0[1-9]"))  # it counts on
    expect(desk.locator("#where")).to_have_text("stop 7 of 12 · step 9 of 18")
    desk.get_by_role("button", name="Reset").click()
    expect(elapsed).to_have_text("00:00")
    hall.close()
    expect(desk.get_by_text("The hall's screen is not open")).to_be_visible()


class Wire:
    """A wire to the site that can be cut: what connects to `address` is passed on while it is whole."""

    def __init__(self, site: str) -> None:
        there = urlsplit(site)
        self.there = (str(there.hostname), int(there.port or 80))
        self.whole = True
        self.ends: list[socket.socket] = []
        self.pumps: list[threading.Thread] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                if not self.whole:
                    near.close()
                    continue
                far = socket.create_connection(self.there)
                self.ends += [near, far]
                for one, other in ((near, far), (far, near)):
                    self.pumps.append(threading.Thread(target=self.pump, args=(one, other), daemon=True))
                    self.pumps[-1].start()

    def pump(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        self.whole = False
        for end in self.ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.pumps:
            thread.join()
        for end in self.ends:
            end.close()
        self.ends.clear()
        self.pumps.clear()


@pytest.fixture
def wire(site: str) -> Iterator[Wire]:
    made = Wire(site)
    yield made
    made.cut()
    made.listener.close()


def test_students_follow_look_around_and_come_back(
    page: Page, context: BrowserContext, site: str, wire: Wire, browser: Browser
) -> None:
    asks(context, READING)
    hall = opened(page, site + FA2 + "?step=5")
    hall.keyboard.press("l")
    dialog = hall.get_by_role("dialog")
    expect(dialog).to_contain_text("flashstep serve --host 0.0.0.0")  # this server listens on this machine alone
    link = dialog.get_by_role("link").get_attribute("href")
    assert link is not None
    expect(dialog).to_contain_text(urlsplit(link).path)
    hall.keyboard.press("PageDown")  # a clicker puts it away, and no more
    expect(dialog).to_be_hidden()
    at(hall, 5)

    students = browser.new_context(viewport=PHONE, reduced_motion="reduce")
    asks(students, READING)
    student = students.new_page()
    student.goto(wire.address + urlsplit(link).path)
    place, said, press = student.locator(".player .place"), student.locator("#said"), student.locator("#leave")
    expect(place).to_have_text("step 5 of 18")
    expect(said).to_have_text("Following the lecturer.")
    expect(hall.locator(".strip .count")).to_have_text("0 follow")
    hall.keyboard.press("PageDown")
    expect(student.get_by_text("Does the maximum")).to_be_visible()
    expect(hall.locator(".strip .count")).to_have_text("1 follows")
    hall.keyboard.press("PageDown")
    expect(student.get_by_text("It does, in 3 of 4 rows.")).to_be_visible()
    hall.keyboard.press("PageDown")
    expect(place).to_have_text("step 8 of 18")
    hall.keyboard.press("b")
    expect(said).to_contain_text("screen is blank")
    hall.keyboard.press("b")

    student.get_by_role("button", name="Previous step").click()  # looks around
    expect(place).to_have_text("step 7 of 18")
    hall.keyboard.press("PageDown")
    expect(said).to_have_text("You are looking around. The lecturer is at step 9.")
    expect(place).to_have_text("step 7 of 18")
    press.click()
    expect(place).to_have_text("step 9 of 18")

    wire.cut()
    expect(said).to_have_text("Connection lost; trying again.")
    hall.keyboard.press("PageDown")
    at(hall, 11)
    expect(place).to_have_text("step 9 of 18")
    wire.whole = True
    expect(place).to_have_text("step 11 of 18", timeout=15_000)  # level again, at the right step
    expect(said).to_have_text("Following the lecturer.")

    # The next lecture of the course goes on with the same students; so does the hall's own reload.
    hall.goto(site + "/lecture/online-softmax?step=3")
    expect(student.locator("h1")).to_have_text("Online softmax")
    expect(place).to_have_text(re.compile("^step 3 of "))
    hall.reload()
    expect(hall.locator(".strip .place")).to_have_text(re.compile("^step 3 of "))
    hall.keyboard.press("Shift+ArrowRight")
    expect(place).to_have_text(re.compile("^step 4 of "))
    # Nobody moves a lecture with the code alone.
    code = urlsplit(link).path.rsplit("/", 1)[1]
    refused = students.request.post(f"{wire.address}/api/follow/{code}", data=json.dumps({}))
    assert refused.status == 403
    hall.keyboard.press("l")
    hall.get_by_role("button", name="End the session").click()
    expect(said).to_contain_text("The lecture is over.")
    students.close()
