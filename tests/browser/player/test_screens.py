"""Screens of every size: nothing needed is off them, from a phone to a lecture hall."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from explorer import FA2, LARGE, PHONE, WIDE, Player, box, until
from playwright.sync_api import Browser, expect

NEEDED = (".steps", ".figure-host", ".caption-text", ".control.next", ".slider", ".ledger", ".explain", ".listing.chosen")


def test_nothing_needed_is_off_screen(player: Player) -> None:
    beyond = "[document.documentElement.scrollWidth - innerWidth, document.documentElement.scrollHeight - innerHeight]"
    for path in (FA2 + "?step=8", "/explore/flash-decoding?step=20", "/explore/standard?step=3"):
        player.open(path)
        for size in (WIDE, LARGE):
            player.page.set_viewport_size(size)
            across, down = player.page.evaluate(beyond)
            assert across <= 0, path
            assert down <= 0, path
            for part in NEEDED:
                expect(player.page.locator(part).first).to_be_in_viewport(ratio=0.9)


@pytest.fixture
def phone(browser: Browser, site: str) -> Iterator[Player]:
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True, reduced_motion="reduce")
    yield Player(context.new_page(), site)
    context.close()


def test_a_phone_shows_the_running_block_above_the_buttons(phone: Player) -> None:
    page = phone.page
    page.goto(phone.site + FA2)
    phone.at(0)
    assert page.evaluate("scrollY") == 0  # the start shows what is in HBM
    page.locator(".control.next").tap()
    phone.at(1)

    def stands_clear() -> None:
        """The page scrolls once the block is drawn, so this may be a moment later."""
        until(
            page,
            """() => {
              const at = document.querySelector(".figure-svg [data-key='p0']").getBoundingClientRect();
              return at.top >= 0 && at.bottom <= document.querySelector(".deck").getBoundingClientRect().top;
            }""",
        )

    stands_clear()
    page.evaluate("scrollTo(0, 0)")
    page.locator(".control.next").tap()
    phone.at(2)
    assert page.evaluate("scrollY") == 0  # from then on the page stands where the reader put it
    # So it does where a link opens, also after the row of kernels has brought the open one's name into sight.
    page.goto(phone.site + "/explore/flash-decoding?step=8", wait_until="load")
    phone.at(8)
    stands_clear()
    name, row = box(page.locator(".kernels [aria-current]")), box(page.locator(".kernels"))
    assert row["x"] <= name["x"] <= name["x"] + name["width"] <= row["x"] + row["width"]


def test_a_phone_leaves_the_arithmetic_out(phone: Player) -> None:
    phone.page.goto(phone.site + FA2 + "?step=8")
    phone.at(8)
    expect(phone.page.locator(".figure text[data-key^='p0/sum/']")).to_have_count(0)


def test_a_phone_can_step(phone: Player) -> None:
    phone.page.goto(phone.site + FA2)
    phone.at(0)
    next_button = phone.page.locator(".control.next")
    expect(next_button).to_be_in_viewport()
    button = box(next_button)
    assert button["height"] >= 44
    assert button["width"] >= 44
    next_button.tap()
    next_button.tap()
    phone.at(2)
    expect(phone.page.locator(".figure-host svg").first).to_be_in_viewport()
    assert phone.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    steps = phone.page.get_by_role("button", name="Steps", exact=True)
    expect(phone.page.locator(".tree")).to_be_hidden()
    steps.tap()
    expect(phone.page.locator(".tree")).to_be_visible()
    phone.page.locator(".row.step").nth(5).tap()
    phone.at(5)


ON_TOP = """
(node) => {
  const { x, y, width, height } = node.getBoundingClientRect();
  return document.elementFromPoint(x + width / 2, y + height / 2)?.closest(".deck") != null;
}
"""
LOW = [(1024, 768), (960, 540), (911, 512), (1093, 614), (1280, 560), (683, 384)]


@pytest.mark.parametrize("size", LOW)
def test_a_projector_or_a_zoomed_page_keeps_caption_and_buttons_clear(player: Player, size: tuple[int, int]) -> None:
    page = player.page
    page.set_viewport_size({"width": size[0], "height": size[1]})
    for path in (FA2 + "?step=8", "/explore/flash-decoding?step=20", "/explore/standard?step=3"):
        player.page.goto(player.site + path)
        expect(player.place).to_have_text(re.compile("step"))
        expect(page.locator(".figure-svg")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], path
        for part in (".caption-text", ".control.next", ".slider"):
            expect(page.locator(part)).to_be_in_viewport(ratio=0.99)
        for part in (".caption-text b", ".control.next", ".slider"):  # and nothing is painted over them
            assert page.locator(part).first.evaluate(ON_TOP), part
        figure, drawn = box(page.locator(".figure-host")), box(page.locator(".figure-svg"))
        assert drawn["y"] + drawn["height"] <= figure["y"] + figure["height"] + 1, path
        # Scrolled to its end, the figure stands above the caption.
        page.evaluate("scrollTo(0, document.querySelector('.figure-host').getBoundingClientRect().bottom + scrollY)")
        bottom = box(page.locator(".figure-host"))
        assert bottom["y"] + bottom["height"] <= box(page.locator(".deck"))["y"] + 1 or size[0] < 900, path


def test_a_phone_gives_the_figure_the_height(phone: Player) -> None:
    page = phone.page
    for path, name in ((FA2 + "?step=8", "FlashAttention 2"), ("/explore/standard?step=3", "Standard attention")):
        page.goto(phone.site + path)
        expect(phone.place).to_have_text(re.compile("step"))
        assert box(page.locator(".deck"))["height"] < 140
        nav, current = box(page.locator(".kernels")), box(page.get_by_role("link", name=name, exact=True))
        assert nav["x"] <= current["x"]
        assert current["x"] + current["width"] <= nav["x"] + nav["width"]
    page.goto(phone.site + FA2 + "?step=8")
    height = box(phone.caption)["height"]
    more = page.get_by_role("button", name="Whole caption")
    more.tap()
    expect(more).to_have_attribute("aria-expanded", "true")
    assert box(phone.caption)["height"] > height


@pytest.mark.parametrize("width", [1366, 1100, 390, 320])
def test_with_several_heads_the_picker_keeps_its_button_in_sight(player: Player, width: int) -> None:
    player.open(FA2 + "?heads=4&kv_heads=2&batch=2&step=4")
    player.page.locator(".picker select").select_option(label="Q")
    player.page.set_viewport_size({"width": width, "height": 768})
    button = player.page.get_by_role("button", name="Explain", exact=True)
    assert player.page.locator(".picker.planes").is_visible()
    panel = box(player.page.locator(".explain"))
    at = box(button)
    assert panel["x"] <= at["x"]
    assert at["x"] + at["width"] <= min(width, panel["x"] + panel["width"])
    assert player.page.evaluate("document.documentElement.scrollWidth") == width
