"""What the figure shows is what the trace holds: expected numbers come from Python's own replay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from figurestage import LARGE, Stage
from shownnumbers import same

import flashstep as fs

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
    stage.put(run, LARGE)
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
                    assert same(text, float(value)) if known else "f-unwritten" in look, (t, key, text, value)
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
                        assert same(text, float(held[r, c])), (t, slot.name, r, c, text, held[r, c])
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
        assert all(same(text, float(value)) for text, value in zip(tiles[f"{key}/old"], before, strict=True))
        assert all(same(text, float(value)) for text, value in zip(tiles[key], after, strict=True))
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


def test_small_cells_become_one_picture_an_array(stage: Stage) -> None:
    stage.put(fs.record("flash-attention-2", seqlen_q=64, seqlen_k=64, head_dim=32, block_rows=16, block_cols=16))
    stage.show(9)
    pictures = [image.get_attribute("data-key") for image in stage.page.locator(".figure-svg image").all()]
    assert {"a0/heat", "a1/heat", "a2/heat"} <= set(pictures)
    assert len([key for key in pictures if key and key.startswith("a1/")]) == 1
    href = stage.page.locator("[data-key='a1/heat']").get_attribute("href")
    stage.show(10)
    assert stage.page.locator("[data-key='a1/heat']").get_attribute("href") == href  # drawn once a change


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
