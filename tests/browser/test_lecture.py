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

from flashstep.app.follow import picture

pytestmark = pytest.mark.browser

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
    page.keyboard.press("ArrowUp")  # other clickers
    at(page, 14)
    page.keyboard.press("ArrowDown")
    at(page, 17)
    page.keyboard.press("Home")
    card(page, "title")
    page.go_back()
    at(page, 17)
    page.set_viewport_size({"width": 960, "height": 500})  # here the page scrolls
    page.keyboard.press("ArrowDown")
    page.keyboard.press("PageDown")
    at(page, 18)


# While it opens


def slowed(context: BrowserContext) -> None:
    """The recording takes a moment, so that there is time to press keys."""
    context.route(re.compile(r"/api/recordings"), lambda route: (threading.Event().wait(0.8), route.continue_()))


@pytest.mark.parametrize("page_of", ["", "/presenter"])
def test_keys_pressed_while_it_opens_are_done_once_it_is(page: Page, context: BrowserContext, site: str, page_of: str) -> None:
    asks(context, {"questions": [], "notes": {}})
    hall = opened(page, site + FA2) if page_of else page
    asked = context.new_page() if page_of else page
    slowed(context)
    with asked.expect_request(re.compile(r"/api/recordings")):
        asked.goto(site + FA2 + page_of, wait_until="domcontentloaded")
    assert asked.locator(".strip .line, .preview-frame svg").count() == 0
    asked.evaluate("window.stays = true")
    for key in ("PageDown", "PageDown", "Shift+ArrowRight", "ArrowLeft", "PageDown"):
        asked.keyboard.press(key)
    at(hall, 5)
    assert asked.evaluate("window.stays")


def test_a_lecture_that_does_not_open_says_so_and_tries_again(page: Page, context: BrowserContext, site: str) -> None:
    asks(context, {"questions": [], "notes": {}})
    slowed(context)
    context.route(re.compile(r"/api/recordings"), lambda route: route.abort(), times=1)
    page.goto(site + FA2)
    page.keyboard.press("PageDown")  # before it is known to have failed
    alert, again = page.get_by_role("alert"), page.get_by_role("button", name="Try again")
    expect(alert).to_contain_text("The server does not answer.")
    title = page.get_by_role("heading", name="FlashAttention 2")
    expect(title).to_be_visible()
    for part in (title, alert, again):  # nothing lies over it
        assert part.evaluate("""node => {
          const { x, y, width, height } = node.getBoundingClientRect();
          return node.contains(document.elementFromPoint(x + width / 2, y + height / 2));
        }""")
    page.keyboard.press("PageDown")  # neither is this meant for the lecture that opens then
    again.click()
    expect(page.locator(".strip .line")).to_be_visible()
    expect(alert).to_have_count(0)
    card(page, "title")
    page.keyboard.press("PageDown")
    at(page, 0)


def test_a_link_into_the_middle_shows_no_title_on_its_way(page: Page, context: BrowserContext, site: str) -> None:
    asks(context, {"questions": [], "notes": {}})
    slowed(context)
    for place in ("?step=8", "?step=18&card=end"):
        with page.expect_request(re.compile(r"/api/recordings")):
            page.goto(site + FA2 + place, wait_until="domcontentloaded")
        expect(page.locator("#title")).to_be_hidden()
        expect(page.locator(".strip .line")).to_be_visible()
        expect(page.locator("#title")).to_be_hidden()


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
    expect(page.locator("html:fullscreen")).to_have_count(1)
    page.keyboard.press("f")
    expect(page.locator("html:fullscreen")).to_have_count(0)
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


def test_a_key_held_down_goes_on_but_neither_flickers_nor_answers(page: Page, context: BrowserContext, site: str) -> None:
    asks(context, READING)
    opened(page, site + FA2)
    for presses in (3, 4):  # the first is pressed, the others are the key's own repeats
        for _ in range(presses):
            page.keyboard.down("b")
        page.keyboard.up("b")
        expect(page.locator("#blank")).to_be_visible()
        page.keyboard.press("b")
        expect(page.locator("#blank")).to_be_hidden()
    for _ in range(9):
        page.keyboard.down("PageDown")
    card(page, "question")
    page.keyboard.up("PageDown")
    page.keyboard.press("PageDown")
    card(page, "answer")


def test_a_link_to_another_run_stays_in_the_hall_and_leaves_the_presenter_where_it_is(
    page: Page, context: BrowserContext, site: str
) -> None:
    asks(context, ELSEWHERE)
    hall = opened(page, site + FA2 + "?step=8&card=answer-rises")
    desk = context.new_page()
    desk.goto(site + FA2 + "/presenter")
    expect(desk.locator("#where")).to_have_text("stop 5 of 12")
    with context.expect_page() as popup:
        desk.locator("#notes").get_by_role("link", name="that run").click()
    expect(popup.value).to_have_url(re.compile("/lessons/online-softmax"))
    popup.value.close()
    desk.locator("#now").get_by_role("link", name="the division").click()  # asks the hall
    at(hall, 9)
    hall.keyboard.press("PageUp")
    desk.locator("#notes").get_by_role("link", name="the second block").click()
    at(hall, 14)
    hall.go_back()
    at(hall, 8)
    hall.keyboard.press("PageUp")
    hall.locator("#question").get_by_role("link", name="that run").click()
    expect(hall).to_have_url(f"{site}/lecture/online-softmax?inputs=equal&step=5&cell=li.0.0")
    expect(hall.locator(".strip .place")).to_have_text(re.compile("^step 5 of "))
    hall.go_back()
    card(hall, "answer")


def test_two_lectures_in_one_browser_do_not_drive_each_other(page: Page, context: BrowserContext, site: str) -> None:
    asks(context, {"questions": [], "notes": {}})
    addresses = ("", "?order=together", "?seqlen_k=12", "?causal=true")
    halls = [opened(context.new_page(), site + FA2 + one) for one in addresses]
    desks = [context.new_page() for _ in addresses]
    for desk, one in zip(desks, addresses, strict=True):
        desk.goto(f"{site}{FA2}/presenter{one}")
        expect(desk.locator("#where")).to_contain_text("stop 0 of")
    for moved, hall in enumerate(halls):
        desks[moved].keyboard.press("PageDown")
        at(hall, 0)
        desks[moved].keyboard.press("Shift+PageDown")
        at(hall, 1)
        expect(desks[moved].locator("#where")).to_contain_text("step 1 of")
        for n, (other, desk) in enumerate(zip(halls, desks, strict=True)):
            if n > moved:
                card(other, "title")
                expect(desk.locator("#where")).to_contain_text("stop 0 of")
            elif n < moved:
                at(other, 1)


def test_what_the_presenter_previews_stays_inside_its_panels(page: Page, context: BrowserContext, site: str) -> None:
    """Every line of arithmetic stands inside the block's SRAM, and the panel's border inside the preview."""
    asks(context, {"questions": [], "notes": {}})
    count = 0
    for lecture, step in (("flash-decoding", 8), ("flash-attention-2", 8), ("flash-attention-1", 5)):
        for size in (WIDE, ViewportSize(width=1920, height=1080), ViewportSize(width=1280, height=720)):
            page.set_viewport_size(size)
            page.goto(f"{site}/lecture/{lecture}/presenter?step={step}")
            expect(page.locator(".preview-frame .f-arithmetic").first).to_be_attached()
            expect(page.locator(".preview-frame[style*='scale']")).to_have_count(2)
            page.wait_for_timeout(150)  # the figure takes its room's size a moment after
            for preview in page.locator(".preview-box").all():
                box = preview.bounding_box()
                panel = preview.locator("[data-key='p0']").bounding_box()
                assert box is not None
                assert panel is not None
                assert box["x"] + 0.5 <= panel["x"]
                assert panel["x"] + panel["width"] <= box["x"] + box["width"] - 0.5
                for line in preview.locator(".f-arithmetic").all():
                    stands = line.bounding_box()
                    assert stands is not None
                    assert panel["y"] < stands["y"]
                    assert stands["y"] + stands["height"] < panel["y"] + panel["height"], line.inner_text()
                    count += 1
    assert count > 30


def test_a_phones_strip_holds_its_buttons_and_its_place(page: Page, context: BrowserContext, site: str) -> None:
    asks(context, {"questions": [], "notes": {}})
    page.set_viewport_size(PHONE)
    page.goto(f"{site}/lecture/standard?step=54")
    expect(page.locator(".strip .place")).to_have_text("step 54 of 54")
    page.mouse.move(100, 300)
    place = page.locator(".strip .place").bounding_box()
    assert place is not None
    buttons = [one.bounding_box() for one in page.locator(".strip .control:visible").all()]
    assert len(buttons) >= 4
    assert all(box is not None and box["x"] + box["width"] < place["x"] for box in buttons)


SIZES = [(1920, 1080), (1366, 768), (1280, 720), (1024, 768), (1024, 640), (960, 540), (683, 384)]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_longest_answer_leaves_its_figure_whole(
    page: Page, context: BrowserContext, site: str, width: int, height: int
) -> None:
    """At each size, the last of them what a zoom of 200 % leaves, the figure has its room, and the answer begins below it."""
    prompt, answer = "How many of them would there be? " * 7, "There would be two of each. " * 14
    asks(context, {"questions": [RISES | {"prompt": f"<p>{prompt}</p>", "answer": f"<p>{answer}</p>"}], "notes": {}})
    page.set_viewport_size({"width": width, "height": height})
    page.goto(f"{site}{FA2}?step=8&card=answer-rises")
    expect(page.locator("#question")).to_contain_text("There would be two")
    expect(page.locator(".strip .place")).to_have_text("step 8 of 18")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.wait_for_timeout(200)  # the figure takes its room's size a moment after
    figure, question, strip = (page.locator(part).bounding_box() for part in (".figure-svg", "#question", "#bar"))
    assert figure is not None
    assert question is not None
    assert strip is not None
    assert figure["height"] > 280
    assert figure["y"] + figure["height"] <= question["y"] + 1
    assert question["y"] + question["height"] <= strip["y"] + 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "height"), [*SIZES, (390, 844)])
def test_a_lectures_dialogs_fit_their_screen(page: Page, context: BrowserContext, site: str, width: int, height: int) -> None:
    asks(context, {"questions": [], "notes": {}})
    page.set_viewport_size({"width": width, "height": height})
    link = f"http://flash.hall.example.edu:8642/f/{'w' * 5}"
    links = [{"link": link, "qr": picture(link)}, {"link": "http://10.0.0.7:8642/f/wwwww", "qr": picture(link)}]
    opened = {"code": "wwwww", "key": "x" * 43, "links": links}
    context.route("**/api/follow", lambda route: route.fulfill(json=opened, status=201))
    context.route("**/api/follow/wwwww", lambda route: route.fulfill(json={"sequence": 1, "followers": 300}))
    page.goto(site + FA2 + "?step=8")
    expect(page.locator(".strip .place")).to_have_text("step 8 of 18")
    for key in ("l", "?"):
        page.keyboard.press(key)
        dialog = page.locator("dialog[open]")
        expect(dialog).to_be_visible()
        if key == "l":
            expect(dialog.locator(".qr")).to_be_visible()
            expect(dialog).to_contain_text("300 follow")
        assert dialog.evaluate("node => node.scrollWidth - node.clientWidth") <= 0, key
        parts = [dialog, *dialog.locator(".qr, .students-link, select, td, button:visible").all()]
        boxes = [part.bounding_box() for part in parts]
        assert all(box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes), key
        if height >= 540:
            assert dialog.evaluate("node => node.scrollHeight - node.clientHeight") <= 0, key
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
    page.keyboard.press("Home")
    expect(page.locator("#title-students .qr")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_question_in_the_presenters_list_is_a_row_like_the_others(page: Page, context: BrowserContext, site: str) -> None:
    asks(context, READING)
    for height in (768, 560):
        page.set_viewport_size({"width": 1366, "height": height})
        page.goto(f"{site}{FA2}/presenter")
        rows = [page.locator(f".place-row.{kind}") for kind in ("question", "answer", "end")]
        looks = [row.evaluate("""node => {
          const { position, borderTopWidth, paddingLeft, fontSize } = getComputedStyle(node);
          return [position, borderTopWidth, paddingLeft, fontSize];
        }""") for row in rows]  # fmt: skip
        assert looks[0] == looks[1] == looks[2]


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
    hall.keyboard.press("b")
    hall.keyboard.press("l")
    link = hall.get_by_role("dialog").get_by_role("link")
    code = urlsplit(link.get_attribute("href") or "").path
    hall.close()
    expect(desk.get_by_text("The hall's screen is not open")).to_be_visible()
    # Another hall goes on where the closed one stood, with those who follow.
    with context.expect_page() as popup:
        desk.get_by_role("button", name="Open it").click()
    again = popup.value
    at(again, 9)
    expect(desk.get_by_text("The hall's screen is not open")).to_be_hidden()
    again.keyboard.press("l")
    expect(again.get_by_role("dialog")).to_contain_text(code)


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

    # More than the server takes: it is said, and the page still learns where the lecturer is.
    late = browser.new_context(viewport=PHONE, reduced_motion="reduce")
    asks(late, READING)
    where = re.compile(rf"{urlsplit(link).path.replace('/f/', '/api/follow/')}(/events)?$")
    late.route(where, lambda route: route.fulfill(status=503, json={"error": "full"}) if route.request.url.endswith("/events")
               else route.fulfill(json=late.request.get(route.request.url).json() | {"full": True}))  # fmt: skip
    full = late.new_page()
    full.goto(wire.address + urlsplit(link).path)
    expect(full.locator("#said")).to_contain_text("As many follow live as the server takes")
    expect(full.locator(".player .place")).to_have_text("step 11 of 18")
    late.close()

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
