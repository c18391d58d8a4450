"""Where the figure's parts stand: nothing lies on another thing, and nothing moves without a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from figurestage import DESK, LARGE, LONG, PHONE, Stage

import flashstep as fs

FAULTS = Path(__file__).with_name("faults.js").read_text(encoding="utf-8")

#: Sizes of a figure, and whether it is in a hall, where words are larger.
SIZES = [
    *[(size, False) for size in (DESK, LARGE, PHONE, (312, 0), (640, 420))],
    *[(size, True) for size in ((1366, 560), (1900, 830))],
]

HEADS: dict[str, Any] = {"batch": 2, "heads": 4, "kv_heads": 2}
SPLITS: dict[str, Any] = {"seqlen_k": 192, "splits": 48}
BIG: list[tuple[str, dict[str, Any]]] = [
    ("flash-attention-2", {**LONG, "block_rows": 16, "block_cols": 16}),
    ("standard", {**LONG, "block_rows": 32, "block_cols": 32}),
    ("flash-attention-2", {"batch": 4, "heads": 8}),
    ("flash-decoding", {"batch": 4, "heads": 8, "seqlen_k": 64, "splits": 8}),
    ("standard", {"seqlen_q": 16, "seqlen_k": 16}),
    ("standard", HEADS),
    ("flash-attention-1", HEADS),
    ("flash-attention-2", {**HEADS, "seqlen_q": 6, "seqlen_k": 7, "head_dim": 3, "block_cols": 3}),
    ("flash-decoding", HEADS),
    ("flash-decoding", SPLITS),
    ("flash-decoding", {"seqlen_k": 240, "splits": 120}),
    ("flash-attention-2", {"seqlen_q": 24}),
    ("flash-attention-2", {"seqlen_q": 64}),
    ("online-softmax", {"seqlen_q": 64, "seqlen_k": 256, "block_rows": 16, "block_cols": 64}),
]


def check(stage: Stage, positions: list[int], where: object) -> None:
    for position in positions:
        found = stage.js(FAULTS, position)
        assert not found["faults"], (where, position, found["faults"][:8])
        assert found["nodes"] <= 2000, (where, position)


@pytest.mark.parametrize("together", [False, True], ids=["serial", "together"])
@pytest.mark.parametrize(("kernel", "parameters"), BIG)
def test_many_blocks_keep_to_their_places(stage: Stage, kernel: str, parameters: dict[str, Any], together: bool) -> None:
    run = fs.record(kernel, **parameters)
    for size, hall in SIZES[together::3]:
        stage.put(run, size, together, hall)
        parts = (0.0, 0.31, 0.83, 1.0)
        check(stage, [int(part * (stage.length - 1)) for part in parts], (size, hall))


@pytest.mark.parametrize("together", [False, True], ids=["serial", "together"])
@pytest.mark.parametrize("kernel", list(fs.kernels))
def test_nothing_overlaps_at_any_step(stage: Stage, kernel: str, together: bool) -> None:
    run = fs.record(kernel)
    for size, hall in SIZES[together::2]:  # half of them in each order
        stage.put(run, size, together, hall)
        check(stage, list(range(stage.length)), (size, hall))


def test_blocks_together_stand_side_by_side(stage: Stage) -> None:
    stage.put(fs.record("flash-attention-2", seqlen_q=16), together=True)
    stage.show(4)
    titles = [text.text_content() for text in stage.page.locator("text[data-key$='/title']").all()]
    assert [f"SRAM of block {block}" for block in range(4)] == [title for title in titles if title and title.startswith("SRAM")]
    assert stage.page.locator(".f-leader").count() == 4
    assert "4 of 4 blocks advance together" in (stage.page.locator("[data-key='grid/sentence0']").text_content() or "")


def test_on_a_phone_only_the_upper_panel_has_lines(stage: Stage) -> None:
    """The other stands under it: lines to that would cross its numbers."""
    stage.put(fs.record("flash-attention-2"), PHONE, together=True)
    stage.show(4)
    assert stage.js("() => stage.figure.scene.shown.length") == 2
    assert stage.page.locator(".f-leader").count() == 1


@pytest.mark.parametrize("together", [False, True], ids=["serial", "together"])
def test_the_squares_and_the_panels_stand_still_within_a_launch(stage: Stage, together: bool) -> None:
    stage.put(fs.record("flash-decoding", **SPLITS), DESK, together)
    places: dict[int, set[str]] = {}
    for position in (*range(1, stage.length - 9, 4), *range(stage.length - 9, stage.length)):
        stage.show(position)
        launch, at = stage.js(
            """() => {
              const {launch, items} = stage.figure.scene;
              const boxes = items.filter(({key}) => /^(g\\d+\\/\\d+|p\\d+|hbm)$/.test(key));
              return [launch, boxes.map(({x, y, w, h}) => [x, y, w, h].map(Math.round).join()).join("; ")];
            }"""
        )
        places.setdefault(launch, set()).add(at)
    assert {launch: len(kept) for launch, kept in places.items()} == {0: 1, 1: 1}


def size_of(stage: Stage, key: str) -> tuple[float, float]:
    """Width and height of a tile."""
    found = "(key) => stage.figure.scene.items.filter((one) => one.key === key).flatMap(({w, h}) => [w, h])"
    width, height = stage.js(found, key)
    return width, height


def test_numbers_of_a_lone_block_are_read_with_ease(stage: Stage) -> None:
    """Beside sixteen tiles in HBM the slots keep their size, rather than room for old values."""
    run = fs.record("flash-attention-2", seqlen_q=64)
    for size in (DESK, LARGE):
        stage.put(run, size)
        stage.show(5)
        width, _ = size_of(stage, "p0/s0")
        assert width / 4 >= 35 * stage.js("() => stage.figure.scene.m.k"), size


def test_a_heat_map_of_low_tiles_is_as_wide_as_there_is_room(stage: Stage) -> None:
    stage.put(fs.record("flash-attention-2", seqlen_q=64), LARGE, together=True)
    stage.show(5)
    width, height = size_of(stage, "a0/0.0/frame")
    assert width / height >= 8  # a tile of four by four cells
