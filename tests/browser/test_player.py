"""The player in a real Chromium: stepping, the address, the step list, the panels, the explanation, the phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, FloatRect, Locator, Page, ViewportSize, expect

import flashstep as fs

pytestmark = pytest.mark.browser

FA2 = "/explore/flash-attention-2"
WIDE: ViewportSize = {"width": 1366, "height": 768}
LARGE: ViewportSize = {"width": 1920, "height": 1080}
PHONE: ViewportSize = {"width": 390, "height": 844}


@pytest.fixture
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": WIDE, "reduced_motion": "reduce"}


@pytest.fixture
def player(page: Page, site: str) -> Player:
    return Player(page, site)


def box(part: Locator) -> FloatRect:
    """Where a part stands; it has to stand somewhere."""
    found = part.bounding_box()
    assert found is not None
    return found


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


# ---------------------------------------------------------------- keys


def test_keys_step_jump_and_play(player: Player) -> None:
    player.open()
    last = player.last
    player.press("ArrowRight")
    player.at(1)
    player.press("ArrowRight", "ArrowRight", "ArrowLeft")
    player.at(2)
    player.press("End")
    player.at(last)
    player.press("ArrowRight")
    player.at(last)
    player.press("Home")
    player.at(0)
    player.press("PageDown", "PageDown", "PageUp")  # a lecturer's clicker
    player.at(1)


def test_shift_and_arrow_go_from_tile_to_tile(player: Player) -> None:
    # block 0: appears 1, load 2, j = 0: 3 4 5, j = 1: 6 7 8, store 9, block 1: appears 10
    player.open()
    places = []
    for _ in range(5):
        player.press("Shift+ArrowRight")
        places.append(int(player.place.inner_text().split()[1]))
    assert places == [1, 3, 6, 9, 10]
    player.press("Shift+ArrowLeft")
    player.at(9)
    player.press("ArrowLeft")
    player.at(8)
    player.press("Shift+ArrowLeft")
    player.at(6)


def test_space_plays_and_pauses_and_play_stops_at_the_end(player: Player) -> None:
    player.open(FA2 + "?step=16")
    player.page.locator(".speed").select_option("4")
    player.press("Escape")
    player.page.locator(".figure-host").evaluate("() => document.activeElement.blur()")
    player.press("Space")
    player.at(player.last)
    expect(player.page.get_by_role("button", name="Play")).to_be_visible()
    player.press("Space")  # from the end: from the start
    expect(player.place).to_have_text(re.compile(r"^step [012] of"))
    player.press("Space")
    expect(player.page.get_by_role("button", name="Play")).to_be_visible()


def test_keys_are_left_alone_in_fields_and_on_buttons(player: Player) -> None:
    player.open(FA2 + "?step=5")
    player.page.locator(".filter").focus()
    player.press("ArrowRight", "Home", "End", "Space", "?")
    player.at(5)
    assert player.page.locator(".filter").input_value().endswith("?")
    player.page.locator(".filter").fill("")
    player.page.locator(".control.previous").focus()
    player.press("Space")  # presses the button, and does not play
    player.at(4)
    expect(player.page.get_by_role("button", name="Play")).to_be_visible()
    player.press("ArrowRight")  # the arrows step wherever nobody types
    player.at(5)
    for keys in ("Control+ArrowRight", "Alt+ArrowUp", "Meta+ArrowRight"):
        player.press(keys)
    player.at(5)


def test_question_mark_lists_the_keys(player: Player) -> None:
    player.open()
    player.press("?")
    dialog = player.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("the next step")
    player.press("ArrowRight")
    player.at(0)
    player.press("Escape")
    expect(dialog).to_be_hidden()
    player.press("ArrowRight")
    player.at(1)


def test_the_slider_moves_by_keyboard_and_says_where_it_is(player: Player) -> None:
    player.open()
    slider = player.page.get_by_role("slider", name="Step")
    slider.focus()
    player.press("ArrowRight", "ArrowRight")
    player.at(2)
    player.press("End")
    player.at(player.last)
    assert slider.get_attribute("aria-valuetext") == f"step {player.last} of {player.last}"


# ---------------------------------------------------------------- every key, wherever the focus is


def test_a_clicker_steps_whatever_had_the_focus(player: Player) -> None:
    player.open(FA2 + "?step=5")
    page = player.page
    causal = page.get_by_label("causal", exact=True)
    for part in (page.get_by_role("slider", name="Step"), page.locator(".speed"), causal, page.locator(".control.previous"),
                 page.locator(".picker select"), page.locator(".explanation"), page.locator(".tree")):  # fmt: skip
        part.focus()
        player.press("PageDown")
        player.at(6)
        player.press("PageUp", "PageUp")
        player.at(4)
        player.press("PageDown")
        player.at(5)
    assert page.locator(".speed").input_value() == "1"
    causal.press("ArrowRight")  # a checkbox is not typing
    player.at(6)
    causal.press("Space")
    assert causal.is_checked()
    player.at(6)
    page.get_by_label("Nq", exact=True).press("PageDown")
    player.at(6)
    player.press("Shift+PageDown")
    player.at(6)


def test_escape_in_the_filter_gives_the_keys_back(player: Player) -> None:
    player.open(FA2 + "?step=5")
    player.page.locator(".filter").fill("load")
    player.press("Escape", "ArrowRight")
    player.at(6)
    assert player.page.locator(".filter").input_value() == ""


def test_the_help_pauses_and_the_end_offers_to_play_again(player: Player) -> None:
    player.open()
    player.press("Space", "?")
    expect(player.page.get_by_role("dialog")).to_be_visible()
    expect(player.page.locator(".control.play")).to_have_attribute("aria-label", "Play")
    player.press("Escape", "End")
    expect(player.page.locator(".control.play")).to_have_attribute("aria-label", "Play again")
    player.press("ArrowLeft")
    expect(player.page.locator(".control.play")).to_have_attribute("aria-label", "Play")


# ---------------------------------------------------------------- the address


def test_ten_fast_presses_are_ten_steps_and_one_back_leaves(player: Player) -> None:
    player.page.goto(player.site + "/")
    player.open()
    before = player.page.evaluate("history.length")
    player.page.evaluate(
        "for (let i = 0; i < 10; i++) document.querySelector('.control.next').click()",
    )
    player.at(10)
    player.address(step="10")
    assert player.page.evaluate("history.length") == before
    player.page.go_back()
    assert urlsplit(player.page.url).path == "/"


def test_ten_presses_in_the_middle_of_a_flight(player: Player) -> None:
    player.page.emulate_media(reduced_motion="no-preference")
    player.open()
    for _ in range(10):
        player.press("ArrowRight")
    player.at(10)
    expect(player.caption).to_have_text(fs.record("flash-attention-2").trace.steps[10].caption)


def test_a_link_opens_exactly_that_step(player: Player) -> None:
    player.open(FA2 + "?step=8&cell=li.2.0")
    player.at(8)
    expect(player.caption).to_have_text(fs.record("flash-attention-2").trace.steps[8].caption)
    expect(player.page.locator(".explanation-name")).to_contain_text("li")
    expect(player.page.locator(".row.step.current")).to_have_attribute("data-step", "8")


@pytest.mark.parametrize(
    ("asked", "shown", "says"),
    [
        ("step=99", 18, "The link asks for step 99; this recording ends at step 18, shown here."),
        ("step=x", 0, "The link asks for step “x”, which is no whole number; this is the start."),
        ("step=-3", 0, "The link asks for step “-3”, which is below 0; this is the start."),
        ("step=8&order=sideways", 8, "“sideways”, which is neither “serial” nor “together”; blocks are shown one after another."),
        ("step=8&focus=99", 8, "The link follows block 99; blocks end at 1, so this is block 0."),
        ("step=8&focus=no", 8, "“no”, which is no block's number; this is block 0."),
        ("step=8&cell=zzz.1.1", 8, "The link selects “zzz.1.1”; there is no slot zzz, so nothing is selected."),
        ("step=8&cell=li.99.0", 8, "“li.99.0”; li has rows 0 to 3, columns 0 to 0, so nothing is selected."),
        ("step=8&cell=K@7.0.0", 8, "“K@7.0.0”; K has rows 0 to 7, columns 0 to 3, so nothing is selected."),
        ("step=8&cell=here", 8, "“here”, which names no cell, so nothing is selected."),
    ],
)
def test_what_a_link_asks_for_in_vain_is_said_and_the_rest_works(player: Player, asked: str, shown: int, says: str) -> None:
    player.open(f"{FA2}?{asked}")
    player.at(shown)
    note = player.page.locator(".caption-note")
    expect(note).to_contain_text(says)
    expect(player.page.locator(".explain")).to_contain_text("Click a number")
    player.press("ArrowLeft" if shown else "ArrowRight")
    expect(note).to_be_hidden()


def test_two_faults_of_a_link_are_both_said(player: Player) -> None:
    player.open(FA2 + "?step=99&order=together&cell=zzz.1.1")
    player.at(9)
    expect(player.page.locator(".caption-note")).to_contain_text(re.compile("ends at step 9.*no slot zzz"))
    expect(player.page.get_by_role("button", name="together", exact=True)).to_have_attribute("aria-pressed", "true")


def test_jumps_are_pushed_and_back_retraces_them(player: Player) -> None:
    player.open(FA2 + "?step=3")
    player.press("ArrowRight")  # replaces
    player.page.locator(".row.step").nth(8).click()
    player.at(8)
    player.press("ArrowRight", "ArrowRight")
    player.at(10)
    player.press("End")
    player.page.go_back()
    player.at(10)
    player.page.go_back()
    player.at(4)
    player.page.go_forward()
    player.at(10)


def test_everything_is_in_the_link(player: Player, context: BrowserContext) -> None:
    player.open(FA2 + "?seqlen_q=12&seqlen_k=12&head_dim=4&block_rows=4&block_cols=4&step=2")
    player.page.get_by_role("button", name="together", exact=True).click()
    player.press("ArrowRight", "ArrowRight", "ArrowRight")
    player.page.get_by_role("tab", name="Carries").click()
    player.page.locator(".carries-host [data-cell='li.1.0']").click()
    player.address(order="together", cell="li.1.0")
    player.page.evaluate("dispatchEvent(new Event('pagehide'))")
    link = player.page.url
    assert parse_qs(urlsplit(link).query)["seqlen_q"] == ["12"]
    other = Player(context.new_page(), player.site).open(link.removeprefix(player.site))
    expect(other.place).to_have_text(player.place.inner_text())
    expect(other.caption).to_have_text(player.caption.inner_text())
    expect(other.page.get_by_role("button", name="together", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(other.page.locator(".explanation")).to_have_text(player.page.locator(".explanation").inner_text(), use_inner_text=True)


def test_copy_link_gives_the_address_of_this_step(player: Player, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    player.open()
    player.press("ArrowRight", "ArrowRight", "ArrowRight")
    player.page.get_by_role("button", name="Copy link").click()
    expect(player.page.get_by_role("button", name="Copied")).to_be_visible()
    copied = player.page.evaluate("navigator.clipboard.readText()")
    assert parse_qs(urlsplit(copied).query)["step"] == ["3"]
    assert copied == player.page.url


# ---------------------------------------------------------------- the step list


def test_the_step_list_is_a_tree_that_follows(player: Player) -> None:
    player.open(FA2 + "?step=8")
    tree = player.page.get_by_role("tree", name="Steps")
    items = tree.get_by_role("treeitem")
    texts = [text.replace("done", "").strip() for text in items.all_text_contents()]
    steps = [step.label for step in fs.record("flash-attention-2").trace.steps]
    assert [text for text in texts if text in steps][:9] == steps[:9]
    assert any(text.startswith("block 0") for text in texts)
    assert "j = 0" in texts
    current = tree.locator("[aria-current=step]")
    expect(current).to_have_count(1)
    expect(current).to_have_text(re.compile(r"^update m, l, O"))
    assert tree.locator(".row.step.done").count() == 8
    player.press("End")
    expect(tree.locator("[aria-current=step]")).to_be_in_viewport()


def test_groups_collapse_by_mouse_and_by_keyboard(player: Player) -> None:
    player.open(FA2 + "?step=8")
    tree = player.page.get_by_role("tree", name="Steps")
    block = tree.locator(".row.block").first
    rows = tree.locator(".row:visible").count()
    block.click()
    expect(block).to_have_attribute("aria-expanded", "false")
    assert tree.locator(".row:visible").count() < rows
    expect(block).to_have_class(re.compile("current"))  # the closed group holds the current step
    tree.focus()
    player.press("ArrowRight")
    expect(block).to_have_attribute("aria-expanded", "true")
    player.at(8)
    player.press("ArrowDown", "ArrowDown", "Enter")
    player.at(2)


def test_the_filter_finds_steps(player: Player) -> None:
    player.open()
    player.page.locator(".filter").fill("load k1")
    expect(player.page.locator(".row.step:not([hidden])")).to_have_count(2)
    expect(player.page.locator(".filter-count")).to_have_text("2 of 19 steps")
    player.page.locator(".row.step").nth(1).click()
    player.at(15)
    player.page.locator(".filter").fill("no such step")
    expect(player.page.locator(".filter-count")).to_have_text("0 of 19 steps")
    player.page.locator(".filter").press("Escape")
    expect(player.page.locator(".row.step.current")).to_have_attribute("data-step", "15")


def test_the_step_list_floats_and_docks_and_remembers(player: Player) -> None:
    player.open()
    page = player.page
    panel, grip = page.locator(".steps"), page.get_by_role("button", name="Move the step list")
    width = box(page.locator(".figure-host"))["width"]
    at = box(grip)
    page.mouse.move(at["x"] + 8, at["y"] + 8)
    page.mouse.down()
    page.mouse.move(500, 300, steps=4)
    page.mouse.up()
    assert abs(box(panel)["x"] - 492) < 20
    assert box(page.locator(".figure-host"))["width"] > width + 100
    page.reload()
    expect(panel).to_have_class(re.compile("floating"))
    assert abs(box(panel)["x"] - 492) < 20
    grip.focus()
    left = box(panel)["x"]
    player.press("ArrowLeft")
    assert box(panel)["x"] == left - 16
    player.at(0)
    page.get_by_role("button", name="Dock").click()
    assert box(panel)["x"] == 0
    grip.dblclick()
    expect(panel).to_have_class(re.compile("floating"))
    grip.dblclick()
    expect(panel).not_to_have_class(re.compile("floating"))
    page.reload()
    player.at(0)
    expect(panel).not_to_have_class(re.compile("floating"))


def test_the_floated_list_stays_in_the_window(player: Player) -> None:
    player.open()
    page = player.page
    panel, grip = page.locator(".steps"), page.get_by_role("button", name="Move the step list")

    def is_inside() -> None:
        at, size = box(panel), page.viewport_size
        assert size is not None
        assert at["x"] >= 0
        assert at["x"] + at["width"] <= size["width"]
        assert at["y"] + at["height"] <= size["height"]
        assert at["height"] >= 180

    at = box(grip)
    page.mouse.move(at["x"] + 8, at["y"] + 8)
    page.mouse.down()
    page.mouse.move(1340, 740, steps=4)
    page.mouse.up()
    expect(panel).to_have_class(re.compile("floating"))
    is_inside()
    page.reload()
    expect(panel).to_have_class(re.compile("floating"))
    is_inside()
    page.set_viewport_size({"width": 1280, "height": 640})
    page.wait_for_timeout(100)
    is_inside()


# ---------------------------------------------------------------- panels


LEDGER = """
[...document.querySelectorAll(".ledger td")].map((td) => [td.parentElement.dataset.array, td.parentElement.dataset.way,
  td.dataset.count, Number(td.dataset.now), Number(td.dataset.total), td.textContent])
"""


def test_the_ledger_is_the_recordings(player: Player) -> None:
    player.open()
    trace = fs.record("flash-attention-2").trace
    total = trace.ledger()
    for step in (0, 1, 2, 3, len(trace.steps) - 1):
        if step:
            player.press("ArrowRight" if step < 4 else "End")
        player.at(step)
        so_far = trace.ledger(step)
        rows = player.page.evaluate(LEDGER)
        for array, way, count, now, whole, text in rows:
            assert now == so_far[array][way][count]
            assert whole == total[array][way][count]
            assert text == f"{now} / {whole}"
        shown = {(array, way) for array, way, *_ in rows}
        assert {(array, way) for array, ways in total.items() for way in ways if ways[way]["transfers"]} <= shown


def test_the_ledger_is_exact_to_eight_figures(player: Player) -> None:
    player.open(FA2 + "?seqlen_q=1024&seqlen_k=1024&block_rows=64&block_cols=64&head_dim=64&values=none&step=40")
    rows = player.page.evaluate(LEDGER)
    for _, _, _, now, whole, text in rows:
        assert text == f"{now:,} / {whole:,}"
    assert max(row[4] for row in rows) == 4_194_304
    fits = "node => node.scrollWidth <= node.closest('.ledger-host').clientWidth"
    assert player.page.locator(".ledger").evaluate(fits)


def test_the_carries_show_old_and_new(player: Player) -> None:
    player.open(FA2 + "?step=8")
    player.page.get_by_role("tab", name="Carries").click()
    trace = fs.record("flash-attention-2").trace
    for row in range(4):
        cell = player.page.locator(f"[data-cell='li.{row}.0']")
        old, new = cell.locator(".old").inner_text(), cell.locator(".now").inner_text()
        assert float(old.split()[0].replace("−", "-")) == pytest.approx(float(trace.state(7)["li"][row]), abs=0.06)
        assert float(new.replace("−", "-")) == pytest.approx(float(trace.state(8)["li"][row]), abs=0.06)


def test_the_source_lights_this_steps_lines_and_leads_to_steps(player: Player) -> None:
    player.open(FA2 + "?step=8")
    player.page.get_by_role("tab", name="NumPy twin").click()
    lit = player.page.locator("#panel-twin .line.lit")
    expect(lit.first).to_be_in_viewport()
    assert "update m, l, O" in " ".join(lit.all_text_contents())
    player.page.locator("#panel-twin .line.runs", has_text="divide and store").first.click()
    player.at(9)
    player.page.locator("#panel-twin .line.runs", has_text="divide and store").first.click()
    player.at(18)
    line = player.page.locator("#panel-twin .line[tabindex='0']")
    line.focus()
    player.press("ArrowUp", "Enter")
    expect(player.place).not_to_have_text(re.compile("step 18 of"))


@pytest.mark.parametrize("tab", ["CUDA", "NumPy twin"])
def test_the_source_is_read_without_scrolling_sideways_and_keeps_its_height(player: Player, tab: str) -> None:
    player.open("/explore/flash-attention-1?seqlen_q=7&seqlen_k=5&block_rows=3&block_cols=3&causal=true&step=13&cell=Oi.0.0")
    player.page.get_by_role("tab", name=tab).click()
    listing = player.page.locator(".listing.chosen")
    assert listing.evaluate("one => one.scrollWidth <= one.clientWidth")
    assert box(listing)["height"] >= 10 * 17
    for key in ("ArrowLeft", "ArrowLeft", "ArrowRight"):
        player.press(key)
        lit = listing.locator(".line.lit").first
        above = box(lit)["y"] - box(listing)["y"]
        assert -1 <= above <= box(listing)["height"] - box(lit)["height"]
    expect(player.page.locator(".explanation-name")).to_be_in_viewport()
    expect(player.page.locator(".ledger tbody tr").first).to_be_in_viewport()


def test_a_stale_number_is_hatched_and_said_to_be_stale(player: Player) -> None:
    player.open(FA2 + "?step=6")
    player.page.get_by_role("tab", name="Carries").click()
    stale = player.page.locator(".carries td.stale .now").first
    look = "one => [getComputedStyle(one).textDecorationLine, getComputedStyle(one.parentElement).backgroundImage]"
    line, hatching = stale.evaluate(look)
    assert line == "none"
    assert "repeating-linear-gradient" in hatching
    assert "stale" in (player.page.locator(".carries td.stale").first.get_attribute("title") or "")


# ---------------------------------------------------------------- where did this number come from?


def test_hops_lead_back_one_at_a_time(player: Player) -> None:
    player.open(FA2 + "?step=8")
    expect(player.page.locator(".explain")).to_contain_text("Click a number")
    player.page.get_by_role("tab", name="Carries").click()
    player.page.locator("[data-cell='li.2.0']").click()
    explanation = player.page.locator(".explanation")
    expect(explanation).to_contain_text("li")
    player.address(cell="li.2.0")
    old = explanation.locator(".operand[data-cell='li.2.0'][data-when=old]").first
    old.click()  # the old l: made at the update of j = 0
    player.at(5)
    player.address(step="5", cell="li.2.0")
    player.page.go_back()
    player.at(8)
    explanation.locator(".operand[data-cell='Sij.2.0']").first.click()  # P: made at this very step
    player.at(8)
    player.address(cell="Sij.2.0")
    player.page.go_back()
    player.address(cell="li.2.0")


def test_any_cell_is_reached_by_keyboard(player: Player) -> None:
    player.open(FA2 + "?step=7")
    picker = player.page.locator(".picker")
    picker.get_by_label("Slot or array").select_option(label="Sij")
    picker.get_by_label("row").fill("3")
    picker.get_by_label("column").fill("2")
    picker.get_by_label("column").press("Enter")
    player.address(cell="Sij.3.2")
    expect(player.page.locator(".explanation .operand[data-cell^='Qi.3.']")).to_have_count(4)
    expect(player.page.locator(".explanation .operand[data-cell^='Kj.2.']")).to_have_count(4)
    player.page.get_by_role("button", name="Clear").click()
    player.address(cell=None)


OVERLAPS = """
() => {
  const boxes = [...document.querySelectorAll(".figure-svg [data-key^='p0/']")]
    .map((one) => [one.dataset.key, one.getBoundingClientRect()]);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const panel = document.querySelector(".figure-svg [data-key='p0']").getBoundingClientRect();
  const sums = boxes.filter(([key]) => key.startsWith("p0/sum/"));
  return sums.flatMap(([key, at]) => [
    ...boxes.filter(([other, there]) => other !== key && meet(at, there)).map(([other]) => `${key} meets ${other}`),
    ...(at.right > panel.right || at.bottom > panel.bottom ? [`${key} leaves the panel`] : []),
    ...(at.height < 10 ? [`${key} is too small`] : [])]);
}
"""
COMPUTING = [("standard", 25), ("online-softmax", 5), ("flash-attention-1", 14), ("flash-attention-2", 8), ("flash-decoding", 8)]


@pytest.mark.parametrize(("kernel", "step"), COMPUTING)
def test_the_arithmetic_of_a_row_stands_under_the_slots(player: Player, kernel: str, step: int) -> None:
    sums = player.page.locator(".figure text[data-key^='p0/sum/']")
    for size in (WIDE, LARGE):
        player.page.set_viewport_size(size)
        player.open(f"/explore/{kernel}?step={step}")
        expect(sums.first).to_be_visible()
        assert player.page.evaluate(OVERLAPS) == []
    player.press("ArrowRight")  # a step that moves, or another that computes
    assert player.page.evaluate(OVERLAPS) == []


def test_the_arithmetic_is_of_the_selected_row(player: Player) -> None:
    player.open(FA2 + "?step=8")
    sums = player.page.locator(".figure text[data-key^='p0/sum/']")
    expect(sums.first).to_have_text("m = max(1.1033, 2.2951) = 2.2951")
    assert set(sums.all_text_contents()) >= {"row 0", "α = exp(1.1033 − 2.2951) = 0.3037"}
    player.open(FA2 + "?step=8&cell=li.2.0")
    assert "row 2" in sums.all_text_contents()
    player.open(FA2 + "?step=6")  # a load computes nothing
    expect(sums).to_have_count(0)


# ---------------------------------------------------------------- together


def test_the_switch_says_what_a_gpu_does_and_keeps_the_place(player: Player) -> None:
    player.open(FA2 + "?step=8")
    expect(player.page.locator(".order-sentence")).to_contain_text("one after another")
    caption = player.caption.inner_text()
    player.page.get_by_role("button", name="together", exact=True).click()
    player.at(8)
    expect(player.place).to_have_text("step 8 of 9")
    expect(player.caption).to_have_text(caption)
    expect(player.page.locator(".order-sentence")).to_contain_text("side by side")
    player.press("ArrowRight")
    player.at(9)
    player.page.go_back()
    expect(player.place).to_have_text("step 8 of 18")


def test_no_sentence_promises_an_order_or_an_sm_to_itself(player: Player) -> None:
    player.open(FA2 + "?seqlen_q=536&seqlen_k=8&block_rows=4&order=together&step=3")
    switch, grid = player.page.locator(".order-sentence"), player.page.locator(".figure text[data-key^='grid/sentence']")
    expect(grid).to_have_text(
        "132 of 134 blocks advance together, 2 wait their turn; showing 4 of 132 running blocks; a GPU promises no order"
    )
    expect(switch).to_contain_text("Up to 132 of 134 blocks advance together")
    for order in ("together", "one after another"):
        player.page.get_by_role("button", name=order, exact=True).click()
        expect(switch).to_contain_text("in no promised order; several may share an SM")
        said = " ".join([switch.text_content() or "", *grid.all_text_contents()])
        assert not re.search(r"own SM|free SM|one to an SM", said)


@pytest.mark.parametrize("size", [WIDE, LARGE])
def test_two_blocks_side_by_side_show_their_numbers(player: Player, size: ViewportSize) -> None:
    player.page.set_viewport_size(size)
    player.open(FA2 + "?order=together&step=8")
    for panel in ("p0", "p1"):
        cells = player.page.locator(f".figure [data-key='{panel}/s0'] text")
        expect(cells).to_have_count(16)
        assert float(cells.first.get_attribute("font-size") or 0) >= 8.9
    expect(player.page.locator(".figure text[data-key='grid/sentence0']")).not_to_contain_text("showing")
    player.open(FA2 + "?seqlen_q=64&order=together&step=4")
    expect(player.page.locator(".figure text[data-key='grid/sentence0']")).to_contain_text("showing 4 of 16 running blocks")


def test_the_list_to_explain_calls_a_slot_what_the_figure_calls_it(player: Player) -> None:
    player.open(FA2 + "?step=7")
    options = player.page.locator(".picker option")
    assert "Sij" in options.all_text_contents()
    player.press("ArrowRight")
    expect(options.filter(has_text="Pij (was Sij)")).to_have_count(1)
    player.press("ArrowLeft")
    expect(options.filter(has_text="Pij")).to_have_count(0)


# ---------------------------------------------------------------- being read, and the phone


def test_the_caption_is_polite_and_silent_while_playing(player: Player) -> None:
    player.open()
    expect(player.caption).to_have_attribute("aria-live", "polite")
    player.press("Space")
    expect(player.caption).to_have_attribute("aria-live", "off")
    player.press("Space")
    expect(player.caption).to_have_attribute("aria-live", "polite")


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


HOLE = """
() => {
  const tree = document.querySelector(".tree");
  const tops = [...tree.querySelectorAll(".row")].map((row) => row.getBoundingClientRect().top);
  return Math.min(...tops) - tree.getBoundingClientRect().top;
}
"""


def test_the_step_list_has_no_hole_when_it_grows(player: Player) -> None:
    player.page.set_viewport_size({"width": 1366, "height": 620})
    player.open(FA2 + "?causal=true&step=17")
    for size in (LARGE, WIDE, LARGE):
        player.page.set_viewport_size(size)
        player.page.wait_for_function(f"({HOLE})() < 1")
    player.page.reload()
    player.at(17)
    player.page.wait_for_function(f"({HOLE})() < 1")
    expect(player.page.locator(".row.step.current")).to_be_in_viewport()


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


# ---------------------------------------------------------------- trouble


def test_refused_parameters_are_said_in_the_player_too(player: Player) -> None:
    player.page.goto(player.site + FA2 + "?block_rows=0")
    expect(player.page.locator("#parameters")).to_contain_text("should be from 1 to")


def test_arrays_that_are_gone_are_said_plainly(player: Player) -> None:
    player.page.goto(player.site + FA2 + "?arrays=" + "0" * 64)
    expect(player.page.locator("body")).to_contain_text(re.compile("arrays.*(no longer|gone|not kept)", re.I | re.S))


def test_a_trace_that_does_not_load_can_be_tried_again(player: Player) -> None:
    broken = re.compile("/api/recordings/.*/trace")
    player.page.route(broken, lambda route: route.fulfill(status=200, body=b"damaged"))
    player.page.goto(player.site + FA2)
    alert = player.page.get_by_role("alert")
    expect(alert).to_contain_text("trace")
    player.page.unroute(broken)
    player.page.get_by_role("button", name="Try again").click()
    player.at(0)


def test_a_block_whose_numbers_were_not_kept_offers_to_keep_them(player: Player) -> None:
    player.open(FA2 + "?values=focus&step=12")
    note = player.page.locator(".caption-note")
    expect(note).to_contain_text("Only the numbers of block 0 were kept.")
    note.get_by_role("link", name="Keep those of block 1 instead").click()
    player.address(focus="1")
    player.at(12)
    expect(note).to_be_hidden()
    expect(player.caption).to_have_text(fs.record("flash-attention-2").trace.steps[12].caption)
