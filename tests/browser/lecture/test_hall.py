"""The lecture hall in a real Chromium: the clicker, questions, what the back row reads, and every screen."""

from __future__ import annotations

import re
import threading

import pytest
from hall import FA2, PHONE, READING, RISES, STOPS, WIDE, asks, at, card, opened
from playwright.sync_api import BrowserContext, Page, expect

from flashstep.app.follow import picture

SIZES = [(1920, 1080), (1366, 768), (1280, 720), (1024, 768), (1024, 640), (960, 540), (683, 384)]


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


def test_questions_of_one_step_are_all_asked_before_the_figure_shows_it(page: Page, context: BrowserContext, site: str) -> None:
    asks(context, {"questions": [RISES, RISES | {"id": "falls"}], "notes": {}})
    opened(page, site + FA2 + "?step=5")
    for place, step in (("question-rises", 7), ("answer-rises", 7), ("question-falls", 7), ("answer-falls", 8)):
        page.keyboard.press("PageDown")
        expect(page).to_have_url(re.compile(rf"step={step}&card={place}$"))
        expect(page.locator(".strip .place")).to_have_text(f"step {step} of 18")
    page.keyboard.press("PageDown")
    at(page, 8)


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
