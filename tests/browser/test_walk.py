"""Every step of every kernel, in a real Chromium: no number on screen that is not in the trace.

At each step the figure's cells, the carries, the ledger and the caption are compared with the trace that Python
recorded, and the explanation of a cell of each slot and array written at that step is recomputed from the operands it
shows. The page is driven by one call a step, which presses the key and returns every text.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from walk import LOOK, Walk

import flashstep as fs

pytestmark = pytest.mark.browser

TEXTBOOK: dict[str, Any] = {}
RAGGED = {"seqlen_q": 7, "seqlen_k": 5, "head_dim": 3, "block_rows": 3, "block_cols": 2}
MASKED = {"seqlen_q": 7, "seqlen_k": 5, "block_rows": 3, "block_cols": 3, "causal": True}
WALKS: list[tuple[str, dict[str, Any]]] = [
    *[(kernel, TEXTBOOK) for kernel in fs.kernels],
    ("standard", RAGGED),
    ("online-softmax", {"seqlen_q": 5, "seqlen_k": 7, "block_rows": 2, "block_cols": 3}),
    ("flash-attention-1", RAGGED),
    ("flash-attention-2", {**RAGGED, "heads": 2, "kv_heads": 1, "head_dim": 6}),
    ("flash-decoding", {"seqlen_k": 7, "head_dim": 3, "block_cols": 2, "splits": 3}),
    ("standard", MASKED),
    ("online-softmax", {"inputs": "fully-masked-row"}),
    ("flash-attention-1", MASKED),
    ("flash-attention-1", {"inputs": "fully-masked-row"}),
    ("flash-attention-2", MASKED),
    ("flash-attention-2", {"inputs": "first-tile-masked"}),
    ("flash-decoding", {"inputs": "first-tile-masked"}),
    ("flash-decoding", {"seqlen_k": 3, "splits": 5}),
]

def query(parameters: dict[str, Any]) -> str:
    return "&".join(f"{name}={str(value).lower()}" for name, value in parameters.items())


@pytest.fixture
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": {"width": 1920, "height": 1200}, "reduced_motion": "reduce"}


def name_of(value: str | dict[str, Any]) -> str:
    return value if isinstance(value, str) else query(value) or "textbook"


@pytest.mark.parametrize(("kernel", "parameters"), WALKS, ids=name_of)
def test_every_step_shows_the_trace(page: Page, site: str, kernel: str, parameters: dict[str, Any]) -> None:
    take_the_walk(page, site, kernel, parameters, Walk(fs.record(kernel, **parameters)))


def test_every_step_shows_the_trace_on_a_small_screen(page: Page, site: str) -> None:
    """There the carries stand behind their tab, beside the sources: they are checked where they are in sight."""
    page.set_viewport_size({"width": 1366, "height": 768})
    take_the_walk(page, site, "flash-attention-2", TEXTBOOK, Walk(fs.record("flash-attention-2"), carries=False))


def take_the_walk(page: Page, site: str, kernel: str, parameters: dict[str, Any], walk: Walk) -> None:
    page.goto(f"{site}/explore/{kernel}?{query(parameters)}")
    expect(page.locator(".place")).to_have_text(f"step 0 of {walk.last}")
    page.get_by_role("tab", name="NumPy twin").click()
    for step in range(walk.last + 1):
        cells = list(walk.written_cells(step))
        found = page.evaluate(LOOK, {"key": "ArrowRight" if step else "", "cells": [cell for _, cell in cells]})
        try:
            walk.check(step, found)
            for (name, cell), explained in zip(cells, found["explained"], strict=True):
                walk.check_explanation(step, name, cell, explained)
        except AssertionError as error:
            raise AssertionError(f"step {step}, {walk.trace.steps[step].label}: {error}") from error
    assert walk.numbers > 100, "the figure hardly showed a number"
    assert walk.sums, "no arithmetic stood under the slots"


@pytest.mark.parametrize(("kernel", "ticks"), [("flash-attention-2", 9), ("online-softmax", 9)])
def test_blocks_shown_together_show_their_own_steps(page: Page, site: str, kernel: str, ticks: int) -> None:
    walk = Walk(fs.record(kernel))
    trace = walk.trace
    page.goto(f"{site}/explore/{kernel}?order=together")
    expect(page.locator(".place")).to_have_text(f"step 0 of {ticks}")
    expect(page.locator(".listing").first).to_be_visible()
    for position in range(1, ticks + 1):
        found = page.evaluate(LOOK, {"key": "ArrowRight", "cells": []})
        caption = trace.steps[position].caption
        assert found["caption"] == (caption if caption.startswith("Block 0") else f"Block 0 · {caption}")
        words = dict(found["words"])
        assert words["p0/title"].endswith("block 0")
        assert words["p1/title"].endswith("block 1")
        for key, texts in found["figure"]:
            panel = re.fullmatch(r"p(\d+)/s(\d+)(/old)?", key)
            if panel:
                step = position + ticks * int(panel[1])  # each block takes as many steps
                walk.check_slot(step - bool(panel[3]), int(panel[2]), texts)
    assert walk.numbers > 100, "the panels hardly showed a number"


# ---------------------------------------------------------------- numbers
