"""One recording step by step: what the page should show of it, and what it shows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from claims import check_claims
from shownnumbers import arithmetic, at, close, same

import flashstep as fs
from flashstep.trace.events import CROSSINGS
from flashstep.trace.layout import DTYPE_BYTES

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
        self.check_moves(t, words)
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

    def check_moves(self, t: int, words: dict[str, str]) -> None:
        """What stands under the slots of a step that computes nothing: what it moved, as its events have it."""
        shown = [text for key, text in words.items() if re.fullmatch(r"p0/moves/\d+", key)]
        if not shown:
            return
        events, (a, b) = self.trace.events, self.trace.event_range(t)
        moved = []
        for e in range(a, b):
            if events.kind[e] not in CROSSINGS:
                continue
            ends = [int(events.src[e]), int(events.dst[e])]
            array = self.meta.arrays[min(ends)]  # arrays are numbered before slots
            there = re.escape(array.name) + r"[\u2009\d,]*"
            names = [there if node == min(ends) else re.escape(self.meta.nodes[node].name) for node in ends]
            elements = int(events.elements[e])
            moved.append(rf"{names[0]} → {names[1]}: {elements:,} elements?, {elements * DTYPE_BYTES[array.dtype]:,} B")
        assert len(shown) == min(4, len(moved)), (shown, moved)
        for text, pattern in zip(shown, moved, strict=False):
            assert re.fullmatch(pattern, text), f"{text!r} is not {pattern!r}"
        self.sums += 1

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
