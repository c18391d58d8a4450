"""The first page: a figure a kernel, of what ran; one moves at a time, and none when motion is unwanted."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

import flashstep as fs
from flashstep.app.lessons import LESSONS
from flashstep.kernels.registry import KERNELS

pytestmark = pytest.mark.browser


def test_every_kernel_has_its_figure_in_teaching_order(page: Page, site: str) -> None:
    page.goto(site)
    assert page.locator(".card[data-kernel]").evaluate_all(
        "cards => cards.map(c => c.dataset.kernel)"
    ) == list(KERNELS)
    for name, kernel in KERNELS.items():
        card = page.locator(f'.card[data-kernel="{name}"]')
        expect(card.locator("h2 a:not(.to-lesson)")).to_have_text(kernel.title)
        expect(card).to_contain_text(kernel.idea)
        expect(card.locator(".number")).to_have_text(str(LESSONS[name].number))  # as the lesson calls itself
        expect(card.locator(".step")).not_to_be_empty()


@pytest.mark.parametrize("name", KERNELS)
def test_a_figure_that_stands_shows_a_step_that_ran(page: Page, site: str, name: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(site)
    card = page.locator(f'.card[data-kernel="{name}"]')
    expect(card.locator(".count")).to_have_text(re.compile(r"step \d+ of \d+"))
    trace = fs.record(name).trace
    shown = re.fullmatch(r"step (\d+) of (\d+)", card.locator(".count").inner_text())
    assert shown
    step = int(shown[1])
    assert int(shown[2]) == len(trace.steps) - 1
    assert card.locator(".step").inner_text() == trace.steps[step].label
    moved = sum(
        way["bytes"] for entry in trace.ledger(step).values() for way in (entry["loads"], entry["stores"])
    )
    assert card.locator(".asked").text_content() == f"{moved:,} B requested"
    # As many cells as the arrays have numbers, none of them by hand.
    hbm = sum(array.rows * array.cols for array in trace.meta.arrays if array.space == "hbm")
    slots = sum(slot.rows * slot.cols for launch in trace.meta.launches for slot in launch.slots)
    expect(card.locator("rect.cell")).to_have_count(hbm + slots)
    running = card.locator("rect.square.running")
    expect(running).to_have_count(1)
    link = card.locator("h2 a:not(.to-lesson)").get_attribute("href")
    assert link == f"/explore/{name}?step={step}"


def test_figures_move_one_at_a_time_and_can_be_stopped(page: Page, site: str) -> None:
    page.emulate_media(reduced_motion="no-preference")
    page.goto(site)
    first = page.locator('.card[data-kernel="standard"] .count')
    expect(first).not_to_be_empty()
    page.get_by_role("button", name="Pause the figures").click()
    before = page.locator(".count").all_inner_texts()
    page.wait_for_timeout(1500)
    assert page.locator(".count").all_inner_texts() == before
    page.get_by_role("button", name="Play the figures").click()
    page.wait_for_timeout(1600)
    after = page.locator(".count").all_inner_texts()
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


def test_nothing_moves_when_motion_is_unwanted(page: Page, site: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(site)
    expect(page.locator(".count").last).to_have_text(re.compile("step"))
    before = page.locator(".count").all_inner_texts()
    page.wait_for_timeout(1800)
    assert page.locator(".count").all_inner_texts() == before
    expect(page.get_by_role("button", name="Play the figures")).to_be_visible()


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (1920, 1080), (390, 844)])
def test_nothing_is_wider_than_the_window(page: Page, site: str, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(site)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    if width == 1366:
        assert page.evaluate("document.documentElement.scrollHeight") <= 768  # both rows, without scrolling
