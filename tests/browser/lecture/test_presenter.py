"""The presenter's window in a real Chromium: in step with the hall, and with no other."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from hall import ELSEWHERE, FA2, READING, WIDE, asks, at, card, opened
from playwright.sync_api import BrowserContext, Page, ViewportSize, expect


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
