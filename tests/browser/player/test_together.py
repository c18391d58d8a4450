"""Blocks one after another or together, and what is said of either."""

from __future__ import annotations

import re

import pytest
from explorer import FA2, LARGE, WIDE, Player
from playwright.sync_api import ViewportSize, expect


def test_the_switch_says_what_a_gpu_does_and_keeps_the_place(player: Player) -> None:
    player.open(FA2 + "?step=8")
    expect(player.page.locator(".order-sentence")).to_contain_text("one after another")
    caption = player.caption.inner_text()
    player.page.get_by_role("button", name="together", exact=True).click()
    player.at(8)
    expect(player.place).to_have_text("step 8 of 9")
    expect(player.caption).to_have_text(f"Block 0 · {caption}")
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
    # Of a larger grid two to four, as many as show numbers that are read with ease; the rest are squares with their progress.
    for path, shown, of in (("flash-attention-2?seqlen_q=24&step=4", 2, 6), ("standard?heads=4&batch=2&step=13", 4, 16)):
        player.open(f"/explore/{path}&order=together")
        expect(player.page.locator(".figure text[data-key='grid/sentence0']")).to_contain_text(f"showing {shown} of {of} running")
        for n in range(shown):
            cells = player.page.locator(f".figure [data-key='p{n}/s0'] text")
            expect(cells).to_have_count(16)
            assert float(cells.first.get_attribute("font-size") or 0) >= 8.9


def test_one_block_is_spoken_of_as_one(player: Player) -> None:
    grid = player.page.locator(".figure text[data-key^='grid/sentence']")

    def said() -> str:
        return " ".join(grid.all_text_contents())

    player.open(FA2 + "?seqlen_q=4&seqlen_k=4&order=together&step=3")
    assert said() == "its one block is running"
    player.open(FA2 + "?seqlen_q=532&seqlen_k=4&order=together&step=3")  # 133 blocks, one more than go together
    assert "1 waits its turn" in said()
    player.press("End")
    assert said() == "1 of 133 blocks is running; a GPU promises no order"
