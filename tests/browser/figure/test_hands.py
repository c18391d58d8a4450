"""The figure under a pointer and a keyboard, and what flies in it at a step."""

from __future__ import annotations

import numpy as np
from figurestage import LONG, Stage

import flashstep as fs


def test_hover_says_the_exact_number_index_and_name(stage: Stage) -> None:
    run = fs.record("flash-attention-2", seqlen_q=64, seqlen_k=64, head_dim=32, block_rows=16, block_cols=16)
    stage.put(run)
    stage.show(9)
    x, y = stage.js(
        """() => {
          const scene = stage.figure.scene, svg = stage.figure.svg.getBoundingClientRect();
          const tile = scene.targets.find((each) => each.name === "K").tiles[1];
          return [svg.left + tile.x + tile.w * 5.5 / tile.cols, svg.top + tile.y + tile.h * 3.5 / tile.rows];
        }"""
    )
    stage.page.mouse.move(x, y)
    tip = stage.page.locator(".figure-tip")
    assert tip.locator("b").text_content() == "K[19][5]"
    said = float((tip.locator(".figure-tip-value").text_content() or "").replace("−", "-"))
    assert np.float32(said) == run.trace.state(9)["K"][0, 0, 19, 5]
    assert "HBM" in (tip.text_content() or "")


def test_a_click_chooses_a_cell_or_a_block_and_leaves_the_focus(stage: Stage) -> None:
    stage.put(fs.record("flash-attention-2"))
    stage.show(8)
    stage.page.locator("#before").focus()
    for name, row in (("li", 2), ("Q", 5)):
        x, y = stage.js(
            """([name, row]) => {
              const svg = stage.figure.svg.getBoundingClientRect();
              const target = stage.figure.scene.targets.find((each) => each.name === name);
              const tile = target.tiles.find((part) => row >= part.row && row < part.row + part.rows);
              return [svg.left + tile.x + tile.w / tile.cols / 2, svg.top + tile.y + tile.h * (row - tile.row + 0.5) / tile.rows];
            }""",
            [name, row],
        )
        stage.page.mouse.click(x, y)
    stage.page.locator("[data-key='g0/1']").click(force=True)
    (_, li), (_, q), (kind, block) = stage.js("() => stage.chosen")
    assert (li["row"], li["col"], li["block"]) == (2, 0, 0)
    assert (q["row"], q["col"], q["plane"]) == (5, 0, 0)
    assert (kind, block) == ("block", {"launch": 0, "block": 1})
    assert stage.js("() => document.activeElement.id") == "before"


def test_the_keyboard_reaches_every_cell(stage: Stage) -> None:
    run = fs.record("flash-attention-2")
    stage.put(run)
    stage.show(8)
    press = stage.page.keyboard.press
    stage.page.locator("#before").focus()
    press("Tab")
    says = """() => document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))
      .getAttribute('aria-label')"""
    assert stage.js(says).startswith("Q, row 0, column 0: 1.1")
    press("ArrowRight")
    press("ArrowDown")
    assert stage.js(says).startswith("Q, row 1, column 1: minus 0.0")
    press("End")
    assert stage.js(says).startswith("Q, row 1, column 3")
    reached = []
    for _ in range(15):
        press("]")
        reached.append(stage.js(says).partition(":")[0])
    assert reached[-1].startswith("Q, row")  # around, and back
    assert {name.partition(",")[0] for name in reached} == {
        *("Q", "K", "V", "O", "lse", "Qi", "Kj", "Vj", "Pij", "mi", "li", "Oi", "alpha", "lsei"),
        "block 0 of " + run.trace.meta.launches[0].title,
    }
    press("[")
    press("[")
    press("Enter")
    kind, cell = stage.js("() => stage.chosen.at(-1)")
    assert (kind, cell["node"]) == ("cell", stage.js("() => stage.trace.node('alpha', 0).id"))
    press("Escape")
    assert stage.js("() => document.activeElement === document.body")


def test_the_selected_cell_and_its_operands_are_marked(stage: Stage) -> None:
    stage.put(fs.record("flash-attention-2"))
    node = stage.js("() => stage.trace.node('li', 0).id")
    stage.show(8, cell={"node": node, "row": 2, "col": 0})
    assert stage.page.locator("[data-key='selected']").count() == 1
    stage.js("(node) => stage.figure.mark([{node, row: 0, col: 0}, {node: 0, plane: 0, row: 1, col: 1}])", node)
    assert stage.page.locator(".f-mark").count() == 2
    stage.js("() => stage.figure.mark([])")
    assert stage.page.locator(".f-mark").count() == 0


def test_an_array_turns_to_its_other_tiles_and_heads(stage: Stage) -> None:
    long = {**LONG, "seqlen_q": 64, "block_rows": 64, "block_cols": 64}
    stage.put(fs.record("flash-attention-2", heads=2, kv_heads=2, **long))
    stage.show(2)
    first = "() => stage.figure.scene.targets.find((each) => each.name === 'K').tiles[0].row"
    plane = "() => stage.figure.scene.targets.find((each) => each.name === 'K').plane"
    assert stage.js(first) == 0
    stage.page.locator("[data-key='a1/more/below']").click(force=True)
    assert stage.js(first) > 0
    stage.page.locator("[data-key='a1/of']").click(force=True)
    assert stage.js(plane) == 1
    stage.show(3)
    assert (stage.js(first), stage.js(plane)) == (0, 0)


LOOK = "() => stage.figure.svg.querySelector('.fig-layer').outerHTML"


def test_every_step_is_whole_at_once_whatever_flew_before(stage: Stage) -> None:
    run = fs.record("flash-attention-2")
    stage.put(run)
    still = []
    for t in range(12):
        stage.show(t)
        still.append(stage.js(LOOK))
    for t in range(12):
        stage.show(t, animate=True, previousPosition=t - 1)  # no waiting: as fast as a person can press
    assert stage.js("() => stage.figure.svg.getAnimations({subtree: true}).length") > 0
    stage.js("() => stage.figure.finish()")
    assert stage.js(LOOK) == still[11]
    assert stage.js("() => stage.figure.svg.getAnimations({subtree: true}).length") == 0
    assert stage.page.locator(".f-flight").count() == 0
    stage.show(3, animate=True, previousPosition=2)
    assert stage.page.locator(".f-flight").count() == 2  # K and V
    stage.show(7)
    assert stage.page.locator(".f-flight").count() == 0
    assert stage.js(LOOK) == still[7]


def test_a_flight_goes_from_tile_to_slot_and_a_frame_of_it_is_exact(stage: Stage) -> None:
    run = fs.record("flash-attention-2")
    stage.put(run)
    t = next(t for t, step in enumerate(run.trace.steps) if step.label == "load K0, V0")
    stage.show(t, animate=True)
    where = """(ms) => {
      stage.figure.seek(ms);
      const at = document.querySelector(".f-flight").getBoundingClientRect();
      return [at.left, at.top];
    }"""
    box = """(key) => {
      const at = document.querySelector(`[data-key='${key}']`).getBoundingClientRect();
      return [at.left, at.top];
    }"""
    source, slot = stage.js(box, "a1/0.0/frame"), stage.js(box, "p0/s1/frame")
    start, middle, end = (stage.js(where, ms) for ms in (0, 175, 349))
    assert np.allclose(start, source, atol=4)
    assert np.allclose(end, slot, atol=4)
    assert source[1] < middle[1] < slot[1]
    assert stage.js(where, 175) == middle
    before = stage.js("() => getComputedStyle(document.querySelector(\"[data-key='p0/s1']\")).opacity")
    assert float(before) < 0.5  # what it lands on waits for it


def test_reduced_motion_flies_nothing(stage: Stage) -> None:
    stage.page.emulate_media(reduced_motion="reduce")
    stage.put(fs.record("flash-attention-2"))
    stage.show(3, animate=True, previousPosition=2)
    assert stage.js("() => stage.figure.svg.getAnimations({subtree: true}).length") == 0
