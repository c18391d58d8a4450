"""The lessons' texts: every number is computed, every link lands where it says, every answer is right for any sizes."""

from __future__ import annotations

import importlib
import re
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
from digits import typed
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from readings import CASES, Sizes, reading, recorded, sizes_of
from web import Start

import flashstep as fs
from flashstep.app import closedforms, lessonpages, parameters
from flashstep.app.fields import NUMBERS
from flashstep.app.lessonfacts import Facts
from flashstep.app.lessons import FOLDER, LESSONS, MAX_STEPS, read
from flashstep.app.settings import Settings
from flashstep.kernels.registry import KERNELS, get
from flashstep.trace import words
from flashstep.trace.trace import Trace

ALL = pytest.mark.parametrize("name", list(LESSONS))
# A plural behind a lone 1, which may stand in a formula of its own: "B · H = 1 blocks", "all 1 scores", "1 query tiles".
MANY_OF_ONE = re.compile(
    r"(?<![\w.,^])1[ ]+(?:(?:query|key|row|column)[ ]+)?(?:rows|columns|keys|queries|tiles|blocks|splits|steps|numbers"
    r"|scores|heads|turns|times|matrices|sequences|SMs)\b|\ball[ ]+1\b(?!\.)"
)


# ---- the text


@ALL
def test_no_number_is_typed(name: str) -> None:
    _, _, text = (FOLDER / f"{name}.md").read_text("utf-8").split("---\n", 2)
    assert typed(text) == []


def test_a_typed_number_is_found() -> None:
    assert typed("It takes 12 steps.") == ["It takes 12 steps."]
    assert typed("$x = 1.25$") == ["1.25"]
    assert typed("| 3 | {{ x }} |") != []
    assert typed("{{ count(12) }} of row 0, $2NM$ in float32, `x[12]`") == []


@ALL
def test_a_lesson_holds_what_a_lesson_needs(name: str) -> None:
    _, text = reading(name, {})
    assert len(text.questions) >= 3
    assert len({question.id for question in text.questions}) == len(text.questions)
    chapters = " ".join(title for _, title in text.contents).lower()
    for word in ("problem", "tile", "step by step", "hbm", "edges", "next", "papers"):
        assert word in chapters, f"no chapter speaks of {word!r}: {chapters}"
    for section in text.html.split('<div class="of-step"')[1:]:
        assert 'class="cuda"' in section, section[:200]
    assert text.notes


@ALL
def test_every_kind_of_step_has_its_section(name: str) -> None:
    run, text = reading(name, {})
    marked = {int(kind) for kinds in re.findall(r'data-kinds="([^"]*)"', text.html) for kind in kinds.split()}
    missing = [info.name for kind, info in enumerate(run.trace.meta.steps) if kind not in marked and info.launch >= 0]
    assert not missing


# ---- any sizes


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_a_lesson_reads_well_at_any_sizes(name: str, sizes: Sizes) -> None:
    run, text = reading(name, sizes)
    plain = unescape(re.sub(r"<[^>]+>", " ", text.html))
    assert not re.search(r"\bNone\b(?! is near)", plain)  # a claim's own words apart
    assert "{{" not in plain
    assert "{%" not in plain
    assert ":::" not in plain
    assert MANY_OF_ONE.findall(plain) == []
    last = len(run.trace.steps) - 1
    for phrase, step in text.links:
        assert phrase
        assert 0 <= step <= last
    # What a link says of its step, looked up in the trace by its own words.
    for claim in text.claims:
        trace = claim.run.trace
        view = trace.steps[claim.step]
        assert view.name == claim.name.rpartition("/")[2]
        info = trace.meta.steps[int(trace.steps_kind[claim.step])]
        launch = trace.meta.launches[info.launch] if info.launch >= 0 else None
        if "/" in claim.name:
            assert launch is not None
            assert launch.name == claim.name.partition("/")[0]
        for where, wanted in claim.where.items():
            turns = dict(zip(info.loops, view.loops, strict=True))
            assert launch is not None
            stands = view.block if where == "block" else turns.get(where, launch.coordinates(view.block).get(where))
            assert stands == wanted, (claim, view)
    for question in text.questions:
        assert question.step is None or 0 <= question.step <= last
        assert question.prompt
        assert question.answer


SEEN = re.compile(
    r'<section class="question" id="q-([^"]+)">(?:(?!</section>).)*?data-step="(\d+)"([^>]*)>See it in the figure', re.DOTALL
)


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_what_an_answer_lets_see_in_the_figure_is_that_answer(name: str, sizes: Sizes) -> None:
    """The step's own cell holds it; without a cell it is what the figure says was loaded or stored so far."""
    run, text = reading(name, sizes)
    results = {question.id: question.result for question in text.questions}
    found = SEEN.findall(text.html)
    for question, step, rest in found:
        cell = re.search(r'data-cell="([^"]+)"', rest)
        if cell is None:
            moved = run.trace.ledger(int(step))
            totals = [sum(entry[way]["elements"] for entry in moved.values()) for way in ("loads", "stores")]
            assert results[question] in [f"{total:,}" for total in totals], question
            continue
        slot, row, col = cell[1].rsplit(".", 2)
        table = run.trace.state(int(step))[slot]
        number = float(table.reshape(len(table), -1)[int(row), int(col)])
        assert results[question] == words.number(number), question
    if not sizes:
        assert found


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_a_section_says_so_where_no_step_is_its_own(name: str, sizes: Sizes) -> None:
    run, text = reading(name, sizes)
    there = {int(kind) for kind in run.trace.steps_kind}
    sections = re.findall(r'<div class="of-step" data-kinds="([^"]*)">\n(<p class="absent">)?', text.html)
    assert sections
    for kinds, absent in sections:
        assert bool(absent) == there.isdisjoint(map(int, kinds.split())), kinds
    if sizes == {"seqlen_k": 0}:
        assert any(absent for _, absent in sections)


@pytest.mark.parametrize("name", list(closedforms.FORMS))
def test_closed_form_and_ledger_agree(name: str) -> None:
    for sizes in sizes_of(name):
        run = recorded(name, sizes)
        facts = Facts(run, get(name))
        found = run.trace.ledger()
        counted = {(array, way): found[array][way]["elements"] for array in found for way in ("loads", "stores")}
        terms = closedforms.terms(name, run.problem, run.tiling, facts.masked)
        formed = {(term.array, term.way): term.elements for term in terms}
        assert formed == {key: counted[key] for key in formed}, sizes
        assert {key for key, elements in counted.items() if elements} <= formed.keys(), sizes


def test_a_run_too_long_for_a_lesson_is_not_led_to() -> None:
    asked: Sizes = {"seqlen_q": 32, "seqlen_k": 32, "block_rows": 2, "block_cols": 2}
    facts = Facts(recorded("flash-attention-1", asked), get("flash-attention-1"))
    beside = facts.alike("standard")
    assert len(beside.run.trace.steps) > MAX_STEPS + 1
    assert beside.first("store S") is not None
    assert beside.go("store S") == "step:none"
    assert facts.alike("flash-attention-2").go("fill Sij").startswith("/lessons/flash-attention-2?step=")


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("seqlen_q=512&seqlen_k=512", "a lesson goes through 2,000 at most"),
        ("seqlen_q=512&seqlen_k=512&head_dim=512&block_rows=512&block_cols=16", "this one has too many"),
    ],
)
def test_what_a_lesson_cannot_tell_is_refused_with_sizes_that_it_can(start: Start, query: str, why: str) -> None:
    client = start(value_bytes=8 * 2**20)
    refused = client.get(f"/lessons/flash-attention-2?{query}")
    assert refused.status_code == 422
    said = re.search(r"(?s)These sizes are not told.*? It would fit with (.*?)\. The explorer takes it as it is\.", refused.text)
    assert said, refused.text
    assert why in refused.text
    for change in said[1].split(", or with "):
        names, _, size = change.partition(" of ")
        fields = {label: name for name, (label, _, _) in NUMBERS.items()}  # the sentence calls them as the form does
        sizes = {fields[label]: size.replace(",", "") for label in names.split(" and ")}
        fitting = {**dict(parse_qsl(query)), **sizes}
        assert client.get("/lessons/flash-attention-2", params=fitting).status_code == 200, change
    assert client.get(f"/explore/flash-attention-2?{query}").status_code == 200


@pytest.mark.parametrize("inputs", ["random", "first-tile-masked", "fully-masked-row"])
def test_a_kernel_alike_stands_on_the_same_inputs(inputs: str) -> None:
    facts = Facts(recorded("flash-attention-2", {"inputs": inputs}), get("flash-attention-2"), f"inputs={inputs}&seed=0")
    other = facts.alike("flash-attention-1", block_cols=2)
    assert other.Bc == 2
    assert other.masked == facts.masked
    at = other.first("load K, V", j=2)
    assert other.go("load K, V", j=2) == f"/lessons/flash-attention-1?inputs={inputs}&seed=0&block_cols=2&step={at}"
    assert facts.apart(other) < 1e-6
    assert facts.apart(Facts(recorded("flash-attention-2", {"seed": 1}), get("flash-attention-2"))) > 0.1


@ALL
def test_a_link_to_another_run_opens_that_run(name: str) -> None:
    _, text = reading(name, {})
    told = [claim for claim in text.claims if claim.run is not reading(name, {})[0]]
    links = re.findall(r'href="(/lessons/[^"?]+\?[^"]*)" class="go other"', text.html)
    assert len(links) >= 3
    steps = {(claim.run.kernel, len(claim.run.trace.steps), claim.step) for claim in told}
    for link in links:
        address = urlsplit(unescape(link))
        query = dict(parse_qsl(address.query))
        kernel = address.path.rpartition("/")[2]
        parsed = parameters.parse(get(kernel), query, Settings(), lambda _: None)
        assert parsed.request is not None, link
        opened = recorded(kernel, parsed.request.parameters)
        assert (kernel, len(opened.trace.steps), int(query["step"])) in steps, link


NAN, INF = float("nan"), float("inf")


@ALL
@pytest.mark.parametrize("key", [0.5, NAN, INF, -INF])
@pytest.mark.parametrize("masked", [False, True])
def test_a_lesson_reads_a_persons_own_arrays(name: str, key: float, masked: bool) -> None:
    numbers = np.random.default_rng(1)
    q, k, v = (numbers.standard_normal((5, 4)).astype(np.float32) for _ in range(3))
    k[1, 0] = key
    if KERNELS[name].matrix:
        run = fs.record(name, np.full((3, 6), key) if masked else k, values="all", block_rows=2, block_cols=2)
    else:
        asked: Any = {"key_mask": np.arange(5) > 2} if masked else {}
        run = fs.record(name, q[:1] if KERNELS[name].one_query else q, k, v, values="all", block_rows=2, block_cols=2, **asked)
    assert read(LESSONS[name], run, "arrays=0").html


# ---- the pages


@ALL
def test_the_pages_answer(client: TestClient, name: str) -> None:
    page = client.get(f"/lessons/{name}?seqlen_k=6&step=3")
    assert page.status_code == 200
    assert 'data-step="' in page.text
    assert "seqlen_k=6&amp;step=" in page.text
    assert client.get(f"/lessons/{name}").text.count('href="/lessons/') >= len(LESSONS)


@ALL
def test_the_walk_says_what_show_says(client: TestClient, name: str) -> None:
    page = client.get(f"/lessons/{name}/walk?seqlen_k=6")
    assert page.status_code == 200
    plain = unescape(re.sub(r"<[^>]+>", "", page.text))
    run = recorded(name, {"seqlen_k": 6})
    at = 0
    for line in run.trace.walk():
        found = plain.find(line.strip(), at)
        assert found >= 0, line
        at = found


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_the_walk_tells_the_numbers_of_the_figure(name: str, sizes: Sizes) -> None:
    """What a step wrote on its block, as the slots stand after it; and no number that changed is passed over."""
    trace = recorded(name, sizes).trace
    stood: dict[str, list[list[str]]] = {}
    for entry in lessonpages.told(trace):
        if entry.step < 0:
            continue
        t = entry.step
        assert (entry.text, entry.caption) == (trace.steps[t].label, trace.steps[t].caption)
        relabel = trace.step_info(t).relabel
        slots = {slot: shown(table) for slot, table in trace.state(t).items() if not is_array(trace, slot)}
        told = dict(entry.numbers)
        for slot, rows in slots.items():
            name_now = relabel.get(slot, slot)
            if name_now in told:
                assert told[name_now] == rows, (t, slot)
            elif t and trace.steps_block[t] == trace.steps_block[t - 1]:
                assert rows == stood.get(slot) or name_now in entry.left_out, (t, slot)
        assert told.keys() <= {relabel.get(slot, slot) for slot in slots}
        stood = slots


def shown(table: NDArray[np.generic]) -> list[list[str]]:
    return [[words.number(float(x)) for x in row] for row in table.reshape(len(table), -1)]


def is_array(trace: Trace, name: str) -> bool:
    return any(info.name == name for info in trace.meta.arrays)


# ---- what holds at some sizes and not at others


def plain(name: str, sizes: Sizes) -> str:
    _, text = reading(name, sizes)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", text.html)))


@pytest.mark.parametrize("name", ["online-softmax", "flash-attention-1", "flash-attention-2", "flash-decoding"])
def test_no_other_seed_is_promised_to_raise_what_the_inputs_keep_level(name: str) -> None:
    run, _ = reading(name, {"inputs": "equal"})
    trace = run.trace
    factors = {float(x) for t in range(len(trace.steps)) for x in trace.state(t).get("alpha", np.empty(0)).ravel()}
    assert factors == {0.0, 1.0}
    said = plain(name, {"inputs": "equal"})
    assert "1$ throughout" not in said
    assert "nothing to correct" in said or "corrects nothing: it is zero where a row sees its first" in said
    assert "will show" not in said


@pytest.mark.parametrize("name", ["flash-attention-1", "flash-attention-2"])
def test_a_rise_that_cannot_be_read_is_not_told(name: str) -> None:
    """Scores that are equal but for rounding: a later, narrower tile may lie a last bit higher."""
    q, k, v = (np.zeros((1, 2), np.float32) + 1, np.ones((4, 2), np.float32), np.ones((4, 2), np.float32))
    k[2:, 0] += 4 * np.finfo(np.float32).eps
    run = fs.record(name, q, k, v, values="all", block_rows=1, block_cols=2)
    facts = Facts(run, get(name))
    assert facts.rises("mi") is not None
    assert facts.watch("mi") is None
    assert "raises the maximum of a row" not in read(LESSONS[name], run, "arrays=0").html


@pytest.mark.parametrize("size", [1, 5, 7, 8])
def test_tiles_double_only_where_they_are_full(size: int) -> None:
    asked = {"seqlen_q": size, "seqlen_k": size}
    said = plain("standard", asked)
    rows = recorded("standard", asked).tiling.block_rows
    now, then = (-(-times * size // rows) for times in (1, 2))
    assert ("twice the rows are read by twice the tiles" in said) == (then == 2 * now)
    if then < 2 * now:
        assert re.search(rf"but {then} tiles? of queries in place of {now} and", said)


@pytest.mark.parametrize(("keys", "splits", "size"), [(8, 2, 4), (0, 2, 0), (5, 4, 2), (5, 8, 1)])
def test_a_splits_keys_are_as_the_formula_has_them(keys: int, splits: int, size: int) -> None:
    said = plain("flash-decoding", {"seqlen_k": keys, "splits": splits})
    assert rf"C = \lceil M / n_s \rceil keys, {size} here" in said
    assert f"So C = {size}, and" in said


def test_splits_of_one_maximum_are_not_told_apart() -> None:
    assert "All splits have the same maximum" in plain("flash-decoding", {"inputs": "equal"})
    assert "has the lowest maximum" in plain("flash-decoding", {})


@pytest.mark.parametrize("name", [name for name in LESSONS if not KERNELS[name].matrix])
def test_a_key_mask_is_counted_in_words_too(name: str) -> None:
    said = {inputs: plain(name, {"inputs": inputs}) for inputs in ("random", "first-tile-masked")}
    trips = {inputs: text.partition("Trips across HBM")[2].partition("The edges")[0] for inputs, text in said.items()}
    told = re.compile(r"The key mask: with the keys|The mask, which this run has, is read with the keys")
    assert told.search(trips["first-tile-masked"])
    assert not told.search(trips["random"])


# ---- the answers, worked out again


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_every_answer_is_right(name: str, sizes: Sizes) -> None:
    answers = importlib.import_module(f"answers_{name.replace('-', '_')}").ANSWERS
    run, text = reading(name, sizes)
    for question in text.questions:
        if not question.result:
            continue
        wanted = answers[question.id](run)
        if isinstance(wanted, str):
            assert question.result == wanted, question.id
        else:
            told = float(question.result.replace(",", "").replace("−", "-").replace("∞", "inf").replace(" %", "e-2"))
            digits = len(question.result.partition(".")[2].partition("e")[0].rstrip(" %"))
            scale = 0.01 if question.result.endswith("%") else 1
            assert told == pytest.approx(wanted, abs=0.51 * scale * 10**-digits if digits else 1e-9, rel=1e-6), question.id
