"""The step list: a tree that follows, folds, filters and floats."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from explorer import FA2, LARGE, WIDE, Player, box, until
from playwright.sync_api import expect

import flashstep as fs


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
        until(player.page, f"() => ({HOLE})() < 1")
    player.page.reload()
    player.at(17)
    until(player.page, f"() => ({HOLE})() < 1")
    expect(player.page.locator(".row.step.current")).to_be_in_viewport()


NAMES = """() => [...document.querySelectorAll(".row")].map((row) => {
  const { scrollWidth, clientWidth, textContent } = row.querySelector(".row-text");
  return { text: textContent, cut: scrollWidth > clientWidth, title: row.title };
})"""

SCROLL = """(tree, top) => new Promise((seen) => {
  tree.scrollTop = top;
  requestAnimationFrame(() => requestAnimationFrame(seen));
})"""


@pytest.mark.parametrize("kernel", ["standard", "online-softmax", "flash-attention-2", "flash-decoding"])
def test_a_step_is_named_whole(player: Player, kernel: str) -> None:
    player.page.set_viewport_size(WIDE)
    player.open(f"/explore/{kernel}?step=2")
    tree = player.page.locator(".tree")
    named: dict[str, Any] = {}
    for top in range(0, tree.evaluate("tree => tree.scrollHeight"), 300):
        tree.evaluate(SCROLL, top)
        named |= {row["text"]: row for row in player.page.evaluate(NAMES)}
    assert len(named) > 8
    assert not [row["text"] for row in named.values() if row["cut"]]
    assert all(row["title"] == row["text"] for row in named.values() if len(row["text"]) > 22)  # a narrower list may cut these


@pytest.mark.parametrize("width", [1366, 700])
def test_rows_stand_one_under_the_other_in_any_window(player: Player, width: int) -> None:
    """How far apart they stand hangs on the pointer, and a narrow window may have a mouse."""
    player.open(FA2 + "?step=5")
    player.page.set_viewport_size({"width": width, "height": 768})
    if width < 900:
        player.page.get_by_role("button", name="Steps", exact=True).click()
    expect(player.page.locator(".row.step.current")).to_be_visible()
    rows = player.page.locator(".tree .row").evaluate_all(
        "(rows) => rows.map((row) => row.getBoundingClientRect()).map(({top, bottom}) => [top, bottom])"
    )
    assert len(rows) > 5
    assert all(below[0] >= above[1] - 0.5 for above, below in pairwise(sorted(rows)))
