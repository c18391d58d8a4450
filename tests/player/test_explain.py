"""explain.js answers "where did this number come from?" with arithmetic that holds.

Every cell that a step writes is explained, at every step of every kernel. Each explanation's operands must be the
trace's own numbers at the steps it names, and its arithmetic, done again here from those operands, must give the
number it shows.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import runs

import flashstep as fs
from flashstep.trace import words

FLOAT32 = 2.0**-23


def evaluated(tree: list[Any], operands: list[Any]) -> float:
    """A substituted formula, done in double: FORMAT.md's functions, written once more."""
    match tree:
        case ["num", value]:
            return float(value)
        case ["operand", index]:
            return float(operands[index]["value"])
        case ["op", sign, a, b]:
            return _operated(sign, evaluated(a, operands), evaluated(b, operands))
        case ["call", "sum", ["list", *parts]]:
            return sum(_all(parts, operands))
        case ["call", "max", ["list", *parts]]:
            return float(np.max(values)) if (values := _all(parts, operands)) else -math.inf
        case ["call", "exp", a]:
            return float(np.exp(evaluated(a, operands)))
        case ["call", "log", a]:
            return float(np.log(evaluated(a, operands)))
        case ["call", "rescale", old, new]:
            top = evaluated(new, operands)
            return 1.0 if top == -math.inf else float(np.exp(evaluated(old, operands) - top))
        case ["call", "weight", s, m]:
            score = evaluated(s, operands)
            return 0.0 if score == -math.inf else float(np.exp(score - evaluated(m, operands)))
        case ["call", "ratio", a, b]:
            below = evaluated(b, operands)
            return 0.0 if below == 0 else evaluated(a, operands) / below
        case ["call", "lse", m, l]:
            total = evaluated(l, operands)
            return -math.inf if total == 0 else evaluated(m, operands) + math.log(total)
    raise AssertionError(f"an unknown part of a formula: {tree}")


def _plain(tree: list[Any], operands: list[Any]) -> float:
    """The formula as it is written, nothing agreed: NaN where that is what comes out."""
    with np.errstate(all="ignore"):
        match tree:
            case ["op", sign, a, b]:
                return _operated(sign, _plain(a, operands), _plain(b, operands))
            case ["call", "sum", ["list", *parts]]:
                return sum(_plain(part, operands) for part in parts)
            case ["call", "rescale" | "weight", a, b]:
                return float(np.exp(_plain(a, operands) - _plain(b, operands)))
            case ["call", "ratio", a, b]:
                return float(np.float64(_plain(a, operands)) / _plain(b, operands))
            case ["call", "lse", m, l]:
                return _plain(m, operands) + float(np.log(np.float64(_plain(l, operands))))
    return evaluated(tree, operands)


def _all(parts: list[Any], operands: list[Any]) -> list[float]:
    return [evaluated(part, operands) for part in parts]


def _operated(sign: str, a: float, b: float) -> float:
    with np.errstate(all="ignore"):
        x, y = np.float64(a), np.float64(b)
        return float({"+": x + y, "-": x - y, "*": x * y, "/": x / y if y else np.float64(math.nan)}[sign])


def close(a: float, b: float, size: float) -> bool:
    """Equal within what float32 rounding of `size` can account for."""
    return (math.isnan(a) and math.isnan(b)) or a == b or abs(a - b) <= 64 * FLOAT32 * size


def size_of(explained: dict[str, Any]) -> float:
    values = [abs(one["value"]) for one in [explained, *explained["operands"]] if math.isfinite(one["value"])]
    return float(max([1.0, *values])) * max(len(values), 1)


class States:
    """A run's states, each asked for once."""

    def __init__(self, run: fs.Run) -> None:
        self.run, self.known = run, dict[int, Any]()

    def at(self, t: int) -> Any:
        if t not in self.known:
            self.known[t] = self.run.trace.state(t)
        return self.known[t]

    def number(self, t: int, where: dict[str, Any]) -> float:
        numbers = self.at(t)[where["array"]]
        if where["slot"]:
            return float(numbers[where["row"]] if numbers.ndim == 1 else numbers[where["row"], where["col"]])
        info = self.run.trace.meta.array(where["array"])
        return float(numbers.reshape(info.planes, info.rows, info.cols)[where["plane"], where["row"], where["col"]])


def visible(run: fs.Run, batch: int, query: int, key: int) -> bool:
    """The mask's rule, once more: causal aligned bottom-right, and the key mask."""
    p = run.problem
    if p.causal and key > query + p.seqlen_k - p.seqlen_q:
        return False
    mask = next((array for array in run.trace.meta.arrays if array.name == "key_mask"), None)
    return mask is None or bool(run.trace.state(0)["key_mask"].reshape(p.batch, -1)[batch, key])


@pytest.mark.parametrize("name", runs.NAMES)
def test_every_written_cell_is_explained_by_its_operands(player: Any, name: str) -> None:
    run = runs.run(name)
    player.add(name, run)
    states = States(run)
    found = player("explanations", name=name)
    arrays = {array.name for array in run.trace.meta.arrays}
    assert len(found) > 100
    for one in found:
        where = f"step {one['step_shown']}: {one['name']}"
        assert one["same"], where
        assert one["status"] in ("formula", "hidden", "loaded", "stored"), where
        assert one["step"] == one["step_shown"], where
        assert one["title"], where
        assert one["place"], where
        value = one["value"]
        # The number explained is the trace's.
        cell = one["cell"] | {"array": one["node"], "slot": one["node"] not in _arrays(run) or "plane" not in one["cell"]}
        assert close(value, states.number(one["step_shown"], cell), 0), where
        # What has an index is named in full: K[1] is a row of the array, Kj[1] of the slot.
        rows_of_arrays = {operand["name"].split("[")[0] for operand in one["operands"] if operand.get("plane") is not None}
        if one["status"] in ("formula", "hidden"):
            assert not set(re.findall(r"(\w+)\[", one["title"])) & (arrays - rows_of_arrays), where
        # Its operands are the trace's, at the step that is shown and at the step that wrote them.
        for operand in one["operands"]:
            assert operand["text"] == words.number(operand["value"]), where
            assert operand.get("plane") is not None or operand["name"].split("[")[0] not in arrays, where
            before = one["step"] - (operand["when"] == "old")
            assert close(operand["value"], states.number(before, operand), 0), f"{where}: {operand['name']}"
            assert operand["step"] <= before, where
            assert close(operand["value"], states.number(max(operand["step"], 0), operand), 0), f"{where}: {operand['name']}"
        # Its arithmetic holds: in double from the operands, and within float32 of the trace.
        if one["substituted"] is not None:
            again = evaluated(one["substituted"], one["operands"])
            assert close(one["computed"], again, 1e-6 * size_of(one)), where
            assert close(value, again, size_of(one)), f"{where}: {value} is not {again}"
        check_lines(one, where)


def _arrays(run: fs.Run) -> set[str]:
    return {array.name for array in run.trace.meta.arrays if array.space == "hbm"}


def check_lines(one: dict[str, Any], where: str) -> None:
    """What is shown: every linked piece is its operand's text; the last number is the computed one."""
    assert len(one["lines"]) == len(one["roles"]), where
    for index, text in one["pieces"]:
        assert text == one["operands"][index]["text"], where
    result = one["lines"][one["roles"].index("result")]
    shown = words.number(one["computed"])
    # Where the arithmetic alone gives no number and the kernel does, the line says that it was agreed.
    agreed = not math.isnan(one["computed"]) and comes_to_nothing(one)
    expected = f"= {shown}{' by definition' if agreed else ''}"
    if shown != words.number(one["value"]):
        expected += f" ≈ {words.number(one['value'])} in float32"
    assert result == expected, where
    for line, role in zip(one["lines"], one["roles"], strict=True):
        if role == "substituted" and "the largest of" not in line and "the sum of" not in line:
            check_arithmetic(line.removeprefix("= "), one["computed"], one["notes"], where)
        if role == "part" and line.count(" = ") == 2:
            _, terms, total = line.removesuffix(" by definition").split(" = ")
            check_arithmetic(terms, number_of(total), one["notes"], where)


def number_of(text: str) -> float:
    return float(text.replace("−", "-").replace("∞", "inf").replace("NaN", "nan"))


def comes_to_nothing(one: dict[str, Any]) -> bool:
    """Whether the line that stands for the value gives NaN on a calculator; of a long one, which is listed, its formula."""
    lines = [line for line, role in zip(one["lines"], one["roles"], strict=True) if role == "substituted"]
    if not lines:
        return False
    if " of " in lines[0]:
        return math.isnan(_plain(one["substituted"], one["operands"]))
    return math.isnan(typed(lines[0].removeprefix("= ")))


def typed(text: str) -> float:
    """What a calculator makes of a line as the page writes it."""
    python = re.sub(r"∞", "inf", text.replace("−", "-").replace("×", "*").replace("÷", "/"))
    python = re.sub(r"(?<![\w.])(\d+(?:\.\d+)?(?:e-?\d+)?)", r"f(\1)", python)
    names = {"exp": np.exp, "ln": np.log, "inf": np.float64(np.inf), "NaN": math.nan, "f": np.float64}
    with np.errstate(all="ignore"):
        return float(eval(python, {"__builtins__": {}, "max": lambda *a: np.max(a)}, names))


def check_arithmetic(text: str, expected: float, notes: list[str], where: str) -> None:
    """The line as a person would type it into a calculator: right within the digits shown."""
    if any("by definition" in note for note in notes):
        return  # the note says why the line is not to be computed as it stands
    got = typed(text)
    same = (math.isnan(got) and math.isnan(expected)) or got == expected
    assert same or abs(got - expected) <= 2e-3 * max(1, abs(expected)), f"{where}: {text} is {got}, not {expected}"


@pytest.mark.parametrize("name", [name for name in runs.NAMES if "masked" in name or "hidden" in name])
def test_hidden_keys_are_called_hidden_and_nothing_else_is(player: Any, name: str) -> None:
    run = runs.run(name)
    player.add(name, run)
    p = run.problem
    seen = set()
    for one in player("explanations", name=name):
        computed = one["status"] == "formula" and "dot" in one["title"]
        if one["node"] != "Sij" or not (computed or one["status"] == "hidden"):
            continue
        query = int(re.search(r"query (\d+)", one["place"])[1])  # type: ignore[index]
        key = int(re.search(r"key (\d+)", one["place"])[1])  # type: ignore[index]
        expected = visible(run, 0, query, key)
        seen.add(expected)
        assert (one["status"] == "formula") == expected, one["place"]
        if not expected:
            assert one["value"] == one["computed"] == -math.inf
            causal = p.causal and key > query + p.seqlen_k - p.seqlen_q
            assert any(f"Key {key} is hidden by the {'causal' if causal else 'key'} mask" in note for note in one["notes"])
            if not causal:
                assert any(line == f"key_mask[{key}] = 0" for line in one["lines"])
    assert False in seen


@pytest.mark.parametrize("name", [name for name in runs.NAMES if "masked" in name and "standard" not in name])
def test_hidden_keys_are_left_out_and_named(player: Any, name: str) -> None:
    """O takes in the values of visible keys only: the others are no operands, and a note says which they are."""
    run = runs.run(name)
    player.add(name, run)
    noted = 0
    for one in player("explanations", name=name):
        if one["node"] != "Oi" or "P · V" not in one["title"]:
            continue
        query = int(re.search(r"query (\d+)", one["place"])[1])  # type: ignore[index]
        keys = of_step(run, one["step"])
        left_out = [key for key in keys if not visible(run, 0, query, key)]
        rows = [operand["row"] for operand in one["operands"] if operand["array"] == "Vj"]
        assert [keys[row] for row in rows] == [key for key in keys if key not in left_out]
        assert any("left out" in note for note in one["notes"]) == bool(left_out)
        noted += bool(left_out)
    assert noted


def of_step(run: fs.Run, t: int) -> range:
    """The keys whose V tile is in shared memory at step t."""
    array = run.trace.meta.array("V")
    node = run.trace.meta.arrays.index(array)
    loads = np.flatnonzero((run.trace.events.src == node) & (run.trace.events.kind == 0))
    last = loads[loads < run.trace.event_range(t)[1]][-1]
    _, rows, _ = array.tile(int(run.trace.events.tile[last]))
    return range(rows.start, rows.stop)


def texts(one: dict[str, Any]) -> tuple[str, list[str]]:
    return one["title"], one["lines"]


def test_the_lessons_formulas_read_as_in_the_lesson(player: Any) -> None:
    name = "flash-attention-2 textbook"
    player.add(name, runs.run(name))
    state = runs.run(name).trace.state
    l_old, alpha, l_new = (words.number(float(x)) for x in (state(7)["li"][2], state(8)["alpha"][2], state(8)["li"][2]))
    row = state(8)["Sij"][2]
    total = words.number(float(row.astype(float).sum()))
    shown = [words.number(float(x)) for x in row]
    assert texts(player("one", name=name, position=8, cell="li.2.0")) == (
        "l = α · l_old + sum(P)",
        [f"= {alpha} × {l_old} + {total}", f"= {l_new}", f"sum(P) = {' + '.join(shown)} = {total}"],
    )
    cells = ("mi.0.0", "alpha.0.0", "Sij.0.1", "Oi.0.1", "Kj.1.2")
    titles = {cell: player("one", name=name, position=8, cell=cell)["title"] for cell in cells}
    assert titles == {
        "mi.0.0": "m = max(m_old, S)",
        "alpha.0.0": "α = exp(m_old − m)",
        "Sij.0.1": "P = exp(S − m)",
        "Oi.0.1": "O = α · O_old + sum(P · Vj[:, 1])",
        "Kj.1.2": "Kj[1, 2] is a copy of K[5, 2].",
    }
    assert player("one", name=name, position=7, cell="Sij.0.1")["title"] == "S = scale · dot(Q, Kj[1])"
    assert player("one", name=name, position=9, cell="Oi.0.1")["title"] == "O = O_old ÷ l"
    assert player("one", name=name, position=9, cell="lsei.0.0")["title"] == "lse = m + ln(l)"
    assert player("one", name=name, position=9, cell="O@0.1.2")["title"] == "O[1, 2] was stored from Oi[1, 2] by block 0."


@pytest.mark.parametrize("name", [name for name in runs.NAMES if "textbook" in name])
def test_every_hop_arrives_at_the_number_it_left_with(player: Any, name: str) -> None:
    """From each cell of the last step, hop by hop along every operand, down to the numbers that were given."""
    run = runs.run(name)
    player.add(name, run)
    found = player("hops", name=name)
    assert len(found["hops"]) > 100
    for hop in found["hops"]:
        assert close(hop["arrived"], hop["left"], 0), hop
        assert hop["step"] == hop["expected"], hop
    ends = set(found["ends"])
    assert ends <= {"given", "filled", "formula"}
    assert "given" in ends


def test_what_is_not_there_has_an_answer(player: Any) -> None:
    name = "flash-attention-2 textbook"
    player.add(name, runs.run(name))

    def title(position: int, cell: str, **more: Any) -> tuple[str, str]:
        one = player("one", name=name, position=position, cell=cell, **more)
        return one["status"], one["title"]

    assert title(1, "Oi.0.0") == ("empty", "Oi holds nothing: block 0 has not written it yet.")
    assert title(5, "Oi.0.0", block=1) == ("empty", "Oi holds nothing: block 1 has not begun.")
    assert title(3, "O@0.0.0") == ("empty", "O[0, 0] holds nothing yet: no block has written this tile.")
    assert title(3, "Q@0.0.0") == ("given", "Q is given: random numbers, seed 0.")
    assert title(3, "S@0.0.0") == ("empty", "S is never in HBM: its tiles live in shared memory only, one at a time.")
    assert title(2, "mi.0.0") == ("formula", "m starts at −∞: this block has seen nothing yet.")
    stale = player("one", name=name, position=6, cell="Sij.0.0")
    assert stale["notes"] == ["Pij still holds an earlier tile's numbers: nothing reads them any more."]


def test_the_launchers_fill_is_no_kernels_work(player: Any) -> None:
    name = "flash-attention-1 textbook"
    player.add(name, runs.run(name))
    one = player("one", name=name, position=2, cell="m@0.3.0")
    assert one["status"] == "filled"
    assert one["title"] == "The launcher fills it before the kernel starts; that fill is not counted."
    assert one["lines"] == ["= −∞"]


def test_guarded_lanes_say_so(player: Any) -> None:
    name = "flash-attention-2 ragged"
    player.add(name, runs.run(name))
    found = player("explanations", name=name, guarded=True)
    assert len(found) > 20
    assert {one["status"] for one in found} == {"guarded"}
    assert all(one["value"] is None and "never read and never counted" in one["title"] for one in found)


def test_values_that_were_not_kept_are_pointed_to(player: Any) -> None:
    run = fs.record("flash-attention-2", values="focus", focus=1)
    player.add("focus", run)
    one = player("one", name="focus", position=8, cell="li.2.0", block=0)
    assert one["status"] == "unkept"
    assert one["title"] == "l = α · l_old + sum(P)"
    assert one["notes"] == ["This block's values were not kept: focus block 0 to see them."]
    assert one["lines"] == []
    assert {operand["text"] for operand in one["operands"]} == {"?"}
    assert {operand["step"] for operand in one["operands"]} == {5, 8}
    stored = player("one", name="focus", position=9, cell="O@0.1.2")
    assert stored["status"] == "stored"  # what reaches HBM is kept for every block
    none = fs.record("flash-attention-2", values="none")
    player.add("none", none)
    one = player("one", name="none", position=8, cell="li.2.0")
    assert one["notes"] == ["No numbers were kept: record it with values, or smaller."]


def test_long_dots_and_sums_list_every_number(player: Any) -> None:
    sizes: dict[str, Any] = {"seqlen_q": 32, "seqlen_k": 32, "head_dim": 64, "block_rows": 32, "block_cols": 32}
    run = fs.record("flash-attention-2", **sizes)
    player.add("wide", run)
    score = player("one", name="wide", position=4, cell="Sij.3.5")
    assert score["roles"].count("term") == 64
    assert score["lines"][score["roles"].index("part")].startswith("dot(Q, Kj[5]) = the sum of 64 products = ")
    products = [line for line, role in zip(score["lines"], score["roles"], strict=True) if role == "term"]
    assert sum(number_of(line.split(" = ")[1]) for line in products) * 0.125 == pytest.approx(score["value"], abs=1e-3)
    total = player("one", name="wide", position=5, cell="li.3.0")
    numbers = [line for line, role in zip(total["lines"], total["roles"], strict=True) if role == "term"]
    assert len(re.findall(r"[\d.]+", " ".join(numbers))) == 32
    top = player("one", name="wide", position=5, cell="mi.3.0")
    assert top["lines"][0] == "= the largest of 33 numbers"


@pytest.mark.parametrize("inputs", ["large", "equal", "first-tile-masked"])
def test_odd_inputs_are_explained_too(player: Any, inputs: str) -> None:
    run = fs.record("flash-attention-2", inputs=inputs)
    player.add(inputs, run)
    for one in player("explanations", name=inputs):
        if one["substituted"] is not None:
            again = evaluated(one["substituted"], one["operands"])
            assert close(one["computed"], again, 1e-6 * size_of(one)), one["name"]
            assert close(one["value"], again, size_of(one)), one["name"]


def test_a_visible_nan_is_explained_as_nan(player: Any) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((4, 4)).astype(np.float32) for _ in range(3))
    k[1, 2] = np.nan
    run = fs.record("flash-attention-2", q, k, v, block_rows=2, block_cols=2)
    player.add("nan", run)
    one = player("one", name="nan", position=4, cell="Sij.0.1")
    assert one["lines"][-1] == "= NaN"
    assert math.isnan(one["computed"])
    assert math.isnan(one["value"])
    assert player("one", name="nan", position=5, cell="mi.0.0")["lines"][-1] == "= NaN"
    assert player("one", name="nan", position=5, cell="K@0.1.2")["title"] == "K is given: your own array."


def test_a_key_that_both_masks_hide_names_both_and_says_minus_infinity_once(player: Any) -> None:
    mask = np.array([True] * 6 + [False] * 2)
    player.add("both", fs.record("flash-attention-2", key_mask=mask, causal=True))
    one = player("one", name="both", position=7, cell="Sij.0.3")  # query 0, key 7
    assert one["title"] == "S is hidden"
    assert one["lines"] == ["= −∞", "key_mask[7] = 0"]
    assert "causal mask" in one["notes"][0]
    assert "key mask" in one["notes"][1]
    early = player("one", name="both", position=7, cell="Sij.0.0")  # key 4: visible to the key mask
    assert len(early["notes"]) == 1
    assert "causal mask" in early["notes"][0]
    given = player("one", name="both", position=7, cell="Q@0.0.0")
    assert given["title"] == "Q is given: random numbers, seed 0."  # the mask alone was the person's own
