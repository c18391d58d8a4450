"""The stepping figure in a real Chromium, on a host of its own: what it shows is what the trace holds.

The tests put a figure on an otherwise empty page of the app (so the app's policy and stylesheets hold) and hand it
the bytes of a trace that Python recorded. Expected numbers come from Python's own replay.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

import flashstep as fs

pytestmark = pytest.mark.browser

DESK = (754, 536)
HALL = (1196, 839)
PHONE = (382, 0)

# Puts a figure on the page: window.stage = {trace, order, figure, show(position, more)}.
PUT = """
async ({bytes, width, height, together}) => {
  const [{parse}, {Replay}, order, {createFigure}] = await Promise.all(["trace", "replay", "order", "figure/figure"].map(
    (name) => import(`/static/player/${name}.js`)));
  const trace = parse(Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0)).buffer);
  const replay = new Replay(trace);
  document.body.innerHTML = '<button id="before">before</button><div id="host"></div>';
  const host = document.querySelector("#host");
  host.style.width = `${width}px`;
  if (height) host.style.height = `${height}px`;
  const chosen = [];
  for (const type of ["cell", "block"]) host.addEventListener(type, (event) => chosen.push([type, event.detail]));
  const figure = createFigure(host, {trace, replay});
  const run = together ? order.together(trace) : order.serial(trace);
  window.stage = {trace, order: run, figure, chosen, show: (position, more = {}) => figure.show({order: run, position, ...more})};
  window.stage.show(0);
  return run.length;
}
"""

# Every tile that shows numbers: key, texts and looks of its cells, row by row.
CELLS = """
(position) => {
  stage.show(position);
  return [...document.querySelectorAll(".figure-svg g.f-cells")].map((tile) => [tile.dataset.key,
    [...tile.querySelectorAll("text")].map((text) => text.textContent),
    [...tile.querySelectorAll("rect")].map((rect) => rect.getAttribute("class"))]);
}
"""

PLANE = "(node) => stage.figure.scene.targets.find((each) => each.node === node).plane"

LAYOUT = """
(position) => {
  stage.show(position);
  const svg = stage.figure.svg.getBoundingClientRect();
  const faults = [];
  const words = [...document.querySelectorAll(".figure-svg text")].filter((text) => text.textContent);
  const boxes = words.map((text) => text.getBoundingClientRect());
  const titles = words.map((text, n) => [text, boxes[n]]).filter(([text]) => text.dataset.key);
  const frames = [...document.querySelectorAll(".figure-svg .f-frame")].map((one) => [one, one.getBoundingClientRect()]);
  words.forEach((text, n) => {
    const at = boxes[n];
    if (at.left < svg.left - 1 || at.right > svg.right + 1 || at.top < svg.top - 1 || at.bottom > svg.bottom + 1) {
      faults.push(`${text.textContent} is outside the frame`);
    }
    const cell = text.dataset.key ? null : text.previousSibling.getBoundingClientRect();
    if (cell && at.width > cell.width + 0.5) faults.push(`${text.textContent} is wider than its cell`);
  });
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2.5;
  titles.forEach(([text, at], n) => {
    for (const [other, there] of titles.slice(n + 1)) {
      if (meet(at, there)) faults.push(`${text.textContent} lies on ${other.textContent}`);
    }
    for (const [frame, there] of frames) {
      const empty = frame.classList.contains("f-empty");
      if (meet(at, there) && !empty) faults.push(`${text.textContent} lies on ${frame.dataset.key}`);
    }
  });
  return {faults, nodes: document.querySelectorAll(".figure-svg *").length};
}
"""


class Stage:
    """A figure on a page, and the run that it shows."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.length = 0

    def put(self, run: fs.Run, size: tuple[int, int] = DESK, together: bool = False) -> Stage:
        width, height = size
        self.run = run
        self.length = self.page.evaluate(
            PUT,
            {
                "bytes": base64.b64encode(run.to_bytes()).decode(),
                "width": width,
                "height": height,
                "together": together,
            },
        )
        return self

    def js(self, expression: str, argument: Any = None) -> Any:
        return self.page.evaluate(expression, argument)

    def show(self, position: int, **more: Any) -> None:
        self.js("([position, more]) => stage.show(position, more)", [position, more])


@pytest.fixture
def stage(page: Page, site: str) -> Iterator[Stage]:
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{site}/explore/flash-attention-2")
    yield Stage(page)
    assert not faults


def shown(text: str) -> float:
    """What a cell's text says."""
    return float(text.replace("−", "-").replace("∞", "inf"))


def agrees(text: str, value: float) -> bool:
    """Is `text` this float32, rounded to the digits it shows?"""
    said = shown(text)
    if np.isnan(value) or np.isinf(value):
        return bool(np.isnan(said) if np.isnan(value) else said == value)
    mantissa, _, power = text.replace("−", "-").partition("e")
    digits = len(mantissa.partition(".")[2])
    return abs(said - value) <= 0.5000001 * 10.0 ** (int(power or 0) - digits)


KERNELS: list[tuple[str, dict[str, Any]]] = [
    ("standard", {}),
    ("online-softmax", {"seqlen_q": 5, "seqlen_k": 7, "block_rows": 2, "block_cols": 3}),
    ("flash-attention-1", {"seqlen_q": 7, "seqlen_k": 5, "head_dim": 3, "block_rows": 3, "block_cols": 2}),
    ("flash-attention-2", {"inputs": "first-tile-masked"}),
    ("flash-attention-2", {"heads": 2, "kv_heads": 1, "causal": True}),
    ("flash-decoding", {"seqlen_k": 7, "splits": 3}),
]


@pytest.mark.parametrize(("kernel", "parameters"), KERNELS)
def test_every_number_is_the_traces_own(stage: Stage, kernel: str, parameters: dict[str, Any]) -> None:
    run = fs.record(kernel, **parameters)
    stage.put(run, HALL)
    trace = run.trace
    arrays = trace.meta.arrays
    seen = 0
    for t in range(len(trace.steps)):
        state = trace.state(t)
        for key, texts, looks in stage.js(CELLS, t):
            cells = np.array(texts, dtype=object), np.array(looks, dtype=object)
            owner, _, rest = key.partition("/")
            if rest.endswith("/old"):
                continue
            if owner.startswith("a"):
                info = arrays[int(owner[1:])]
                row, col = map(int, rest.split("."))
                plane = stage.js(PLANE, int(owner[1:]))
                rows = slice(info.row_edges[row], info.row_edges[row + 1])
                cols = slice(info.col_edges[col], info.col_edges[col + 1])
                whole = state[info.name].reshape(info.planes, info.rows, info.cols)[plane, rows, cols]
                written = state.written(info.name).reshape(info.planes, info.rows, info.cols)[plane, rows, cols]
                for text, look, value, known in zip(*cells, whole.ravel(), written.ravel(), strict=True):
                    assert bool(text) == bool(known), (t, key)
                    assert agrees(text, float(value)) if known else "f-unwritten" in look, (t, key, text, value)
                    seen += 1
                continue
            slot = trace.meta.launches[max(0, trace.steps[t].launch)].slots[int(rest[1:])]
            if slot.name not in state:
                assert not any(texts), (t, slot.name)
                assert all("f-uninitialised" in look for look in looks), (t, slot.name)
                continue
            held = state[slot.name]
            held = held.reshape(held.shape[0], -1)
            full = tuple(part.reshape(slot.rows, slot.cols) for part in cells)
            for r in range(slot.rows):
                for c in range(slot.cols):
                    text, look = full[0][r, c], full[1][r, c]
                    if r < held.shape[0] and c < held.shape[1]:
                        assert agrees(text, held[r, c]), (t, slot.name, r, c, text, held[r, c])
                    else:
                        assert (text, "f-guarded" in look) == ("", True), (t, slot.name, r, c)
                    seen += 1
    assert seen > 100


def test_minus_infinity_infinity_and_nan_have_looks_of_their_own(stage: Stage) -> None:
    q = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    v = q.copy()
    v[2, 1], v[5, 0] = np.nan, np.inf
    stage.put(fs.record("flash-attention-2", q, q, v))
    looks = {
        (look, text)
        for _, texts, classes in stage.js(CELLS, 2)
        for text, look in zip(texts, classes, strict=True)
        if text in ("NaN", "∞", "−∞")
    }
    assert looks == {("f-cell f-nan", "NaN"), ("f-cell f-inf", "∞"), ("f-cell f-ninf", "−∞")}


def test_an_update_rings_the_carries_and_shows_old_and_new(stage: Stage) -> None:
    run = fs.record("flash-attention-2")
    stage.put(run)
    t = next(t for t, step in enumerate(run.trace.steps) if step.label == "update m, l, O" and t > 6)
    tiles = {key: texts for key, texts, _ in stage.js(CELLS, t)}
    slots = [slot.name for slot in run.trace.meta.launches[0].slots]
    for name in ("mi", "li", "Oi"):
        key = f"p0/s{slots.index(name)}"
        before, after = run.trace.state(t - 1)[name].ravel(), run.trace.state(t)[name].ravel()
        assert all(agrees(text, float(value)) for text, value in zip(tiles[f"{key}/old"], before, strict=True))
        assert all(agrees(text, float(value)) for text, value in zip(tiles[key], after, strict=True))
        assert stage.js("(key) => document.querySelector(`[data-key='${key}/ring']`) !== null", key)
    assert stage.page.locator("text[data-key='p0/s3/name']").text_content() == "Pij (was Sij)"


def test_a_tile_left_from_before_looks_stale(stage: Stage) -> None:
    run = fs.record("flash-decoding")
    stage.put(run)
    t = next(t for t, step in enumerate(run.trace.steps) if step.name.startswith("write the partial"))
    stage.show(t)
    assert "f-stale" in (stage.page.locator("[data-key='p0/s1/frame']").get_attribute("class") or "")
    assert "stale" in (stage.page.locator("[data-key='p0/s1/note']").text_content() or "")
    parts = stage.page.locator("[data-key='p0/s1'], [data-key='p0/s1/frame']")
    keys = parts.evaluate_all("(nodes) => nodes.map((node) => node.dataset.key)")
    assert keys == ["p0/s1/frame", "p0/s1"]  # the hatching lies under the numbers


LUMINANCE = """
(selector) => [...document.querySelectorAll(selector)].map((node) => {
  const style = getComputedStyle(node).fill;
  const [r, g, b] = style.match(/[\\d.]+/g).map((x) => Number(x) / (style.startsWith("color(") ? 1 : 255))
    .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
})
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nan_reads_well_on_its_pattern(stage: Stage, theme: str) -> None:
    q = np.full((8, 4), np.nan, np.float32)
    stage.put(fs.record("flash-attention-2", q, q, q))
    stage.page.evaluate("(theme) => { document.documentElement.dataset.theme = theme }", theme)
    stage.show(2)
    (text,) = set(stage.page.evaluate(LUMINANCE, ".f-cell.f-nan + text"))
    for ground in stage.page.evaluate(LUMINANCE, ".fig-nan-ground, .fig-nan-square"):
        low, high = sorted((text, ground))
        assert (high + 0.05) / (low + 0.05) >= 4.5


# As many tiles as 8,192 rows in tiles of 128 have, and no more arithmetic than they need.
LONG: dict[str, Any] = {"seqlen_q": 1024, "seqlen_k": 1024, "head_dim": 16, "values": "none"}
BIG: list[tuple[str, dict[str, Any]]] = [
    ("flash-attention-2", {**LONG, "block_rows": 16, "block_cols": 16}),
    ("standard", {**LONG, "block_rows": 32, "block_cols": 32}),
    ("flash-attention-2", {"batch": 4, "heads": 8}),
    ("flash-decoding", {"batch": 4, "heads": 8, "seqlen_k": 64, "splits": 8}),
    ("standard", {"seqlen_q": 16, "seqlen_k": 16}),
]


@pytest.mark.parametrize(("kernel", "parameters"), BIG)
@pytest.mark.parametrize("together", [False, True])
def test_the_figure_keeps_to_its_nodes_and_its_frame(
    stage: Stage, kernel: str, parameters: dict[str, Any], together: bool
) -> None:
    run = fs.record(kernel, **parameters)
    for size in (DESK, HALL, PHONE):
        stage.put(run, size, together)
        last = stage.length - 1
        for part in (0.0, 0.07, 0.31, 0.5, 0.83, 1.0):
            found = stage.js(LAYOUT, int(part * last))
            assert found["nodes"] <= 2000, (size, part)
            assert not found["faults"], (size, part)


@pytest.mark.parametrize("kernel", list(fs.kernels))
def test_nothing_overlaps_and_nothing_is_off_the_frame(stage: Stage, kernel: str) -> None:
    run = fs.record(kernel)
    for size in (DESK, HALL, PHONE):
        stage.put(run, size)
        for position in range(stage.length):
            found = stage.js(LAYOUT, position)
            assert not found["faults"], (size, position)
            assert found["nodes"] <= 2000


def test_small_cells_become_one_picture_an_array(stage: Stage) -> None:
    stage.put(fs.record("flash-attention-2", seqlen_q=64, seqlen_k=64, head_dim=32, block_rows=16, block_cols=16))
    stage.show(9)
    pictures = [image.get_attribute("data-key") for image in stage.page.locator(".figure-svg image").all()]
    assert {"a0/heat", "a1/heat", "a2/heat"} <= set(pictures)
    assert len([key for key in pictures if key and key.startswith("a1/")]) == 1
    href = stage.page.locator("[data-key='a1/heat']").get_attribute("href")
    stage.show(10)
    assert stage.page.locator("[data-key='a1/heat']").get_attribute("href") == href  # drawn once a change


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
    said = shown(tip.locator(".figure-tip-value").text_content() or "")
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


def test_blocks_together_stand_side_by_side(stage: Stage) -> None:
    stage.put(fs.record("flash-attention-2", seqlen_q=16), together=True)
    stage.show(4)
    titles = [text.text_content() for text in stage.page.locator("text[data-key$='/title']").all()]
    assert [f"SRAM of block {block}" for block in range(4)] == [title for title in titles if title and title.startswith("SRAM")]
    assert stage.page.locator(".f-leader").count() == 4
    assert "4 of 4 blocks advance together" in (stage.page.locator("[data-key='grid/sentence0']").text_content() or "")


def test_split_colours_come_from_the_grid(stage: Stage) -> None:
    stage.put(fs.record("flash-decoding"))
    stage.show(4)
    tile = """() => [...document.querySelectorAll('.figure-svg .f-frame')]
      .map((each) => [each.dataset.key, each.getAttribute('class')])"""
    looks = dict(stage.js(tile))
    for array in (1, 2):
        assert all(f"f-hue-split-{split}" in looks[f"a{array}/{row}.0/frame"] for row, split in enumerate((0, 0, 1, 1)))
    assert "f-hue-q" in looks["a0/0.0/frame"]


def test_dark_repaints_the_heat_maps(stage: Stage) -> None:
    stage.put(fs.record("flash-attention-2", seqlen_q=64, seqlen_k=64, head_dim=32, block_rows=16, block_cols=16))
    href = "() => document.querySelector(\"[data-key='a1/heat']\").getAttribute('href')"
    light = stage.js(href)
    stage.js("() => new Promise((done) => { document.documentElement.dataset.theme = 'dark'; setTimeout(done, 50); })")
    assert stage.js(href) != light
