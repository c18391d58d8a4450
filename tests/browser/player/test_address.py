"""The address: what a link asks for is shown, and every place has one."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from explorer import FA2, Player
from playwright.sync_api import BrowserContext, expect

import flashstep as fs


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
