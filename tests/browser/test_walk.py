"""Every step of every kernel, in a real Chromium: no number on screen that is not in the trace.

At each step the figure's cells, the carries, the ledger and the caption are compared with the trace that Python
recorded, and the explanation of a cell of each slot and array written at that step is recomputed from the operands it
shows. The page is driven by one call a step, which presses the key and returns every text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

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

# Presses a key (or none), then explains the cells asked for, and returns every text of the player.
LOOK = """
({key, cells}) => {
  if (key) document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  const texts = (selector, read) => [...document.querySelectorAll(selector)].map(read);
  const text = (selector) => document.querySelector(selector)?.textContent ?? null;
  const found = {
    place: text(".place"),
    caption: text(".caption-text"),
    row: document.querySelector(".row.step.current")?.dataset.step ?? null,
    lit: texts("#panel-twin .line.lit", (line) => line.id),
    carries: texts("td[data-cell]", (td) =>
      [td.dataset.cell, td.querySelector(".old").textContent, td.querySelector(".now").textContent]),
    ledger: texts(".ledger td", (td) => [td.parentElement.dataset.array, td.parentElement.dataset.way, td.dataset.count,
      Number(td.dataset.now), Number(td.dataset.total), td.textContent]),
    figure: texts(".figure g.f-cells", (g) => [g.dataset.key, [...g.querySelectorAll("text")].map((one) => one.textContent)]),
    words: texts(".figure text[data-key]", (one) => [one.dataset.key, one.textContent]),
    nodes: document.querySelectorAll(".figure svg *").length,
  };
  const host = document.querySelector(".figure-host");
  found.explained = cells.map((cell) => {
    host.dispatchEvent(new CustomEvent("cell", {detail: cell}));
    return {
      name: text(".explanation-name b"), made: text(".explanation-name .made"), title: text(".formula-title, .explanation-title"),
      notes: texts(".explanation-note", (note) => note.textContent),
      lines: texts(".formula-line", (line) => [line.className.split(" ")[1],
        [...line.childNodes].map((piece) => [piece.textContent, piece.dataset?.cell ?? null, piece.dataset?.when ?? null])]),
    };
  });
  return found;
}
"""


BY_DEFINITION = " by definition"  # what a line ends with where its arithmetic gives no number and the kernel does


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
        assert found["caption"] == trace.steps[position].caption
        words = dict(found["words"])
        assert words["p0/title"].endswith("block 0")
        assert words["p1/title"].endswith("block 1")
        for key, texts in found["figure"]:
            panel = re.fullmatch(r"p(\d+)/s(\d+)(/old)?", key)
            if panel:
                step = position + ticks * int(panel[1])  # each block takes as many steps
                walk.check_slot(step - bool(panel[3]), int(panel[2]), texts)
    assert walk.numbers > 100, "the panels hardly showed a number"


class Walk:
    """What one recording should look like, step by step."""

    def __init__(self, run: fs.Run, carries: bool = True) -> None:
        self.carries = carries  # whether their panel is in sight
        self.run, self.trace, self.meta = run, run.trace, run.trace.meta
        self.last = len(run.trace.steps) - 1
        self.total = run.trace.ledger()
        self.numbers = 0  # shown by the figure so far
        self.sums = 0  # spelled out under the slots so far

    # ------------------------------------------------------------ one step

    def check(self, t: int, found: dict[str, Any]) -> None:
        trace = self.trace
        assert found["place"] == f"step {t} of {self.last}"
        assert found["row"] == str(t)
        assert found["caption"] == trace.steps[t].caption
        check_claims(trace, t, found["caption"])
        lines = trace.step_info(t).lines.get("twin")
        assert found["lit"] == ([f"twin-{n}" for n in range(lines[0], lines[1] + 1)] if lines else [])
        self.check_ledger(t, found["ledger"])
        if self.carries:
            self.check_carries(t, found["carries"])
        assert found["nodes"] <= 2000
        words = dict(found["words"])
        shared = self.meta.launches[max(0, trace.step_info(t).launch)].shared_bytes
        assert words["p0/bytes"].removeprefix("shared memory ") == f"{shared:,} of 49,152 B"
        self.check_sums(t, words)
        for key, texts in found["figure"]:
            if slot := re.fullmatch(r"p0/s(\d+)(/old)?", key):
                self.check_slot(t - bool(slot[2]), int(slot[1]), texts)
            elif tile := re.fullmatch(r"a(\d+)/(\d+)\.(\d+)", key):
                self.check_tile(t, int(tile[1]), int(tile[2]), int(tile[3]), texts, words)
            else:
                raise AssertionError(f"cells of nobody: {key}")

    def check_ledger(self, t: int, rows: list[list[Any]]) -> None:
        so_far = self.trace.ledger(t)
        for array, way, count, now, total, text in rows:
            assert now == so_far[array][way][count], f"{array} {way} {count}"
            assert total == self.total[array][way][count], f"{array} {way} {count}"
            assert text == f"{now:,} / {total:,}"
        shown = {(array, way) for array, way, *_ in rows}
        moved = {(array, way) for array, ways in self.total.items() for way in ways if ways[way]["transfers"]}
        assert moved <= shown

    def check_carries(self, t: int, rows: list[list[str]]) -> None:
        launch = self.trace.step_info(t).launch
        slots = self.meta.launches[launch].slots if launch >= 0 else ()
        carries = {slot.name: slot for slot in slots if slot.carry or slot.name == "alpha"}
        shown: dict[str, int] = dict.fromkeys(carries, 0)
        for cell, *_ in rows:
            shown[cell.split(".")[0]] += 1
        assert shown == {name: slot.rows * min(4, slot.cols) for name, slot in carries.items()}
        now = self.trace.state(t)
        before = self.trace.state(t - 1) if t else {}
        written = {name for _, name in self.written(t)}
        for cell, old_text, now_text in rows:
            name, row, col = cell.split(".")
            value = at(now, name, int(row), int(col))
            assert same(now_text, value, empty="·"), f"{cell} shows {now_text}, holds {value}"
            if old_text:
                assert name in written, f"{cell} shows an old value, but this step did not write it"
                assert same(old_text, at(before, name, int(row), int(col))), f"{cell} was {old_text}"

    def check_slot(self, t: int, index: int, texts: list[str]) -> None:
        # Before the first step the figure shows the first launch's slots, empty.
        slot = self.meta.launches[max(0, self.trace.step_info(t).launch)].slots[index]
        state = self.trace.state(t)
        assert len(texts) == slot.rows * slot.cols
        for place, text in enumerate(texts):
            row, col = divmod(place, slot.cols)
            value = at(state, slot.name, row, col)
            assert same(text, value), f"{slot.name}[{row}, {col}] shows {text!r}, holds {value}"
            self.numbers += text != ""

    def check_sums(self, t: int, words: dict[str, str]) -> None:
        """The arithmetic under the slots: each line comes to the number that the slot holds in that row."""
        lines: dict[str, str] = {}
        for key, text in words.items():
            if found := re.fullmatch(r"p0/sum/(\D+)\d*", key):  # a long line stands in several rows
                lines[found[1]] = f"{lines.get(found[1], '')} {text}".strip()
        row = int(lines.pop("row", "row 0").removeprefix("row "))
        for name, line in lines.items():
            assert name in {written for _, written in self.written(t)}, f"{line!r} is not of this step"
            held = self.trace.state(t)[name]
            holds = held.reshape(len(held), -1)[row]
            _, body, end = line.removesuffix(BY_DEFINITION).split(" = ")
            value = next((float(x) for x in holds if same(end.split(" ≈ ")[-1], float(x))), None)
            assert value is not None, f"{line!r}, but {name} holds {holds} in row {row}"
            self.sums += 1
            if " of " not in body:
                got = arithmetic(body)
                # What is agreed rather than computed says so, and nothing else does.
                assert math.isnan(got) if line.endswith(BY_DEFINITION) else close(got, value), f"{line!r} comes to {got}"

    def check_tile(self, t: int, array: int, row_tile: int, col_tile: int, texts: list[str], words: dict[str, str]) -> None:
        info = self.meta.arrays[array]
        head = re.search(r"(\d+) of \d+$", words.get(f"a{array}/of", ""))
        plane = int(head[1]) if head else 0  # a stack of several is shown one at a time, and says which
        state = self.trace.state(t)
        held = state[info.name].reshape(info.planes, info.rows, info.cols)[plane]
        written = state.written(info.name).reshape(info.planes, info.rows, info.cols)[plane]
        rows = slice(*info.row_edges[row_tile : row_tile + 2])
        cols = slice(*info.col_edges[col_tile : col_tile + 2])
        values, known = held[rows, cols].ravel(), written[rows, cols].ravel()
        assert len(texts) == len(values)
        for text, value, is_known in zip(texts, values, known, strict=True):
            assert same(text, float(value) if is_known else None), f"{info.name} shows {text!r}, holds {value}"
            self.numbers += text != ""

    # ------------------------------------------------------------ explanations

    def written(self, t: int) -> Iterator[tuple[int, str]]:
        """Node and name of what step t writes."""
        a, b = self.trace.event_range(t)
        nodes = [int(node) for node in self.trace.events.dst[a:b] if int(node) < len(self.meta.nodes)]
        for node in dict.fromkeys(nodes):
            yield node, self.meta.nodes[node].name

    def written_cells(self, t: int) -> Iterator[tuple[str, dict[str, int]]]:
        """One cell of everything that step t writes, another at each step."""
        a, b = self.trace.event_range(t)
        for node, name in self.written(t):
            event = max(e for e in range(a, b) if self.trace.events.dst[e] == node)
            rows, cols = int(self.trace.events.rows[event]), int(self.trace.events.cols[event])
            if not rows * cols:
                continue
            row, col = (t + node) % rows, (t * 3 + node) % cols
            if node < len(self.meta.arrays):
                info = self.meta.arrays[node]
                tile = int(self.trace.events.tile[event])
                row_tiles, col_tiles = len(info.row_edges) - 1, len(info.col_edges) - 1
                plane, rest = divmod(tile, row_tiles * col_tiles)
                row_tile, col_tile = divmod(rest, col_tiles)
                row, col = info.row_edges[row_tile] + row, info.col_edges[col_tile] + col
                yield name, {"node": node, "plane": plane, "row": row, "col": col}
            else:
                yield name, {"node": node, "row": row, "col": col}

    def exact(self, t: int, cell: str, when: str) -> float:
        """The number that an operand stands for, from the trace."""
        array = re.fullmatch(r"(.+)@(\d+)\.(\d+)\.(\d+)", cell)
        state = self.trace.state(t)
        if array:
            info = next(info for info in self.meta.arrays if info.name == array[1])
            held = state[array[1]].reshape(info.planes, info.rows, info.cols)
            return float(held[int(array[2]), int(array[3]), int(array[4])])
        name, row, col = cell.rsplit(".", 2)
        value = at(state if when == "new" else self.trace.state(t - 1), name, int(row), int(col))
        assert value is not None, f"the operand {cell} holds nothing"
        return value

    def check_explanation(self, t: int, name: str, cell: dict[str, int], shown: dict[str, Any]) -> None:
        assert shown["made"] == "made at this step", shown
        kind = name if "plane" not in cell else f"{name}@{cell['plane']}"
        value = self.exact(t, f"{kind}.{cell['row']}.{cell['col']}", "new")
        context = f"{name} {cell} = {value}: {shown}"

        def operand(text: str, of: str, when: str) -> str:
            number = self.exact(t, of, when)
            if text != cell_label(of, text):
                return f"({number!r})"
            assert same(text, number), f"the operand {of} shows {text}, holds {number}; {context}"
            return f"({number!r})"

        roles = [role for role, _ in shown["lines"]]
        results = [i for i, role in enumerate(roles) if role == "result"]
        assert results, context
        written = "".join(text for text, *_ in shown["lines"][results[0]][1])
        agreed = written.endswith(BY_DEFINITION)
        result = written.removesuffix(BY_DEFINITION).removeprefix("= ").split(" ≈ ")[-1].removesuffix(" in float32")
        assert same(result, value, digits=4), context
        for i, (role, pieces) in enumerate(shown["lines"]):
            text = "".join(piece for piece, *_ in pieces)
            if role == "result" or "the sum of" in text or "the largest of" in text:
                continue
            expression = "".join(piece if of is None else operand(piece, of, when) for piece, of, when in pieces)
            defined = agreed if role == "substituted" else expression.endswith(BY_DEFINITION)
            expression = expression.removesuffix(BY_DEFINITION)
            if role == "substituted":
                got = arithmetic(expression.removeprefix("= "))
                wanted = value
            elif " = " in expression:
                *_, body, end = expression.rsplit(" = ", 2) if role == "part" else ("", *expression.rsplit(" = ", 1))
                if re.fullmatch(r"\w+\[[\d, ]+\]", body):
                    continue  # a number under its name: "key_mask[2] = 0"
                got, wanted = arithmetic(body), arithmetic(end)
            else:
                continue  # numbers of a long sum, several to a line
            if defined:
                assert math.isnan(got), context
                continue
            assert close(got, wanted), f"line {i} comes to {got}, not {wanted}; {context}"


def cell_label(cell: str, text: str) -> str:
    """`text` where it is a number; an operand may also be written as its name ("K[0, 0]")."""
    return text if "[" not in text else cell


# ---------------------------------------------------------------- numbers


def at(state: Any, name: str, row: int, col: int) -> float | None:
    """A number of a slot; None where it holds nothing there."""
    if name not in state:
        return None
    values = state[name]
    values = values.reshape(len(values), -1)
    return float(values[row, col]) if row < values.shape[0] and col < values.shape[1] else None


def same(text: str, value: float | None, empty: str = "", digits: int | None = None) -> bool:
    """Whether a text is this number, rounded to as many places as it shows."""
    if value is None:
        return text in ("", empty)
    text = text.replace("−", "-")
    if not math.isfinite(value):
        return text == {math.inf: "∞", -math.inf: "-∞"}.get(value, "NaN")
    match = re.fullmatch(r"-?\d+(?:\.(\d+))?(?:e(-?\d+))?", text)
    if not match:
        return False
    if digits is not None and match[1] is not None and match[2] is None and len(match[1]) < digits:
        return False
    unit = 10.0 ** (int(match[2] or 0) - len(match[1] or ""))
    if match[1] is None and match[2] is None and abs(value) < 99.9:
        return float(text) == value  # a whole number is shown only where it is one
    return abs(float(text) - value) <= unit / 2 * (1 + 1e-6)


FUNCTIONS: dict[str, Any] = {
    "exp": np.exp,
    "log": np.log,
    "inf": np.inf,
    "nan": np.nan,
    "max": lambda *numbers: np.max(numbers) if numbers else -np.inf,
}


def arithmetic(text: str) -> float:
    """The value of an expression as the page writes it."""
    for sign, python in (("−", "-"), ("×", "*"), ("÷", "/"), ("∞", "inf"), ("ln(", "log("), ("NaN", "nan")):
        text = text.replace(sign, python)
    assert re.fullmatch(r"[-+*/(),.\d\se]*|[-+*/(),.\d\sa-z]*", text), text
    text = re.sub(r"(?<![\w.])(\d+(?:\.\d+)?(?:e-?\d+)?|inf|nan)", r"np.float64(\1)", text)
    with np.errstate(all="ignore"):
        return float(eval(text, {"__builtins__": {}, "np": np, **FUNCTIONS}))


def close(a: float, b: float) -> bool:
    """Equal within what four decimals of an intermediate sum can hide."""
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= 2e-4 * max(1.0, abs(a), abs(b))


# ---------------------------------------------------------------- captions and what they claim

Claim = Callable[[Any, int, re.Match[str]], bool]


def _carry(trace: Any, t: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    return trace.state(t - 1)[name], trace.state(t)[name]


def _rises(trace: Any, t: int, match: re.Match[str]) -> bool:
    old, new = _carry(trace, t, "mi")
    alpha = trace.state(t)["alpha"]
    return bool(new[0] > old[0]) and same(match[1], old[0]) and same(match[2], new[0]) and same(match[3], alpha[0])


def _keeps(trace: Any, t: int, match: re.Match[str]) -> bool:
    old, new = _carry(trace, t, "mi")
    return bool(new[0] == old[0]) and same(match[1], new[0]) and bool(trace.state(t)["alpha"][0] == 1)


def _first(trace: Any, t: int, match: re.Match[str]) -> bool:
    old, new = _carry(trace, t, "mi")
    return bool(old[0] == -np.inf) and same(match[1], new[0]) and bool(trace.state(t)["alpha"][0] == 0)


def _unseen(trace: Any, t: int, match: re.Match[str]) -> bool:
    old, new = _carry(trace, t, "mi")
    return bool(old[0] == new[0] == -np.inf) and bool(trace.state(t)["alpha"][0] == 1)


def _count(trace: Any, t: int, match: re.Match[str]) -> bool:
    old, new = _carry(trace, t, "mi")
    return int(match[1]) == int((new > old).sum()) and int(match[2]) == len(new)


def _scores(trace: Any, t: int, match: re.Match[str]) -> bool:
    scores = trace.state(t)["Sij"]
    hidden = int(np.isneginf(scores).sum())
    return int(match[1]) == scores.size and int(match[2] or 0) == hidden and same(match[3], float(scores.max()))


def _all_hidden(trace: Any, t: int, match: re.Match[str]) -> bool:
    scores = trace.state(t)["Sij"]
    return bool(np.isneginf(scores).all()) and int(match[1]) == scores.size


def _row_zero(name: str) -> Claim:
    def claim(trace: Any, t: int, match: re.Match[str]) -> bool:
        return all(same(text, float(held[0])) for text, held in zip(match.groups(), _carry(trace, t, name), strict=True))

    return claim


def _global(name: str, group: int) -> Claim:
    return lambda trace, t, match: same(match[group], float(trace.state(t)[name].ravel()[0]))


N = r"(−?(?:\d+(?:\.\d+)?(?:e−?\d+)?|∞)|NaN)"
CLAIMS: list[tuple[str, Claim]] = [
    (rf"maximum rises from {N} to {N}, so α = {N}", _rises),
    (rf"keeps its maximum {N}, so α = 1", _keeps),
    (rf"first keys: m rises from −∞ to {N}, so α = 0", _first),
    (r"has seen no key yet: m stays −∞, α = 1", _unseen),
    (r"The maximum rises in (\d+) of (\d+) rows?", _count),
    (rf": (\d+) scores?(?: in shared memory|, (\d+)(?: of them)? hidden \(−∞\)); the largest is {N}", _scores),
    (r"hides all (\d+) pairs", _all_hidden),
    (rf"largest score: row 0's goes from {N} to {N}", _row_zero("mi")),
    (rf"exp\(S − m\): row 0's goes from {N} to {N}", _row_zero("li")),
    (rf"partial maxima: m = {N}", _global("m", 1)),
    (rf"split 0 weighs {N}", _global("ws", 1)),
    (rf"The global l = Σ w · l_split = {N}", _global("l", 1)),
    (rf"not yet divided: m = {N}", _global("mi", 1)),
    (rf"not yet divided: m = {N}, l = {N}", _global("li", 2)),
]


def check_claims(trace: Any, t: int, caption: str) -> None:
    """Each claim that a caption makes, and no number that no claim explains where there are decimals."""
    explained: set[str] = set()
    for pattern, claim in CLAIMS:
        for match in re.finditer(pattern, caption):
            assert claim(trace, t, match), f"not so: {match[0]!r}"
            explained.update(text for text in match.groups() if text)
    decimals = set(re.findall(r"−?\d+\.\d+(?:e−?\d+)?", caption))
    assert decimals <= explained, f"nothing vouches for {decimals - explained} in {caption!r}"
