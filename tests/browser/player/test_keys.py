"""Keys and the slider: a person steps, jumps and plays, wherever the focus is."""

from __future__ import annotations

import re

from explorer import FA2, Player
from playwright.sync_api import expect


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


def test_the_caption_is_polite_and_silent_while_playing(player: Player) -> None:
    player.open()
    expect(player.caption).to_have_attribute("aria-live", "polite")
    player.press("Space")
    expect(player.caption).to_have_attribute("aria-live", "off")
    player.press("Space")
    expect(player.caption).to_have_attribute("aria-live", "polite")
