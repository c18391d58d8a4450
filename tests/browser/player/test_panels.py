"""The panels beside the figure: ledger, carries, and the source with this step's lines."""

from __future__ import annotations

import re

import pytest
from explorer import FA2, Player, box
from playwright.sync_api import expect

import flashstep as fs

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
