"""What is refused, gone or damaged is said, with a way out."""

from __future__ import annotations

import re

from explorer import FA2, Player
from playwright.sync_api import expect

import flashstep as fs


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
