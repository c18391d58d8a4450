"""A phrase of a lesson says something of the step that it leads to, and at every size the trace bears it out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
from numpy.typing import NDArray
from readings import CASES, Sizes, reading, recorded, sizes_of

from flashstep.app import parameters
from flashstep.app.lessons import LESSONS
from flashstep.app.settings import Settings
from flashstep.kernels.record import Run
from flashstep.kernels.registry import get

LINK = re.compile(r'<a href="([^"]*)" class="go( other)?"([^>]*)>(.*?)</a>', re.DOTALL)
Table = NDArray[np.float32]


@dataclass(frozen=True)
class At:
    """Where a phrase leads: a step of a run, and the cell that is selected there."""

    run: Run
    step: int
    cell: str = ""

    def now(self, slot: str) -> Table:
        table = np.asarray(self.run.trace.state(self.step)[slot], np.float32)
        return table.reshape(len(table), -1)

    def array(self, name: str) -> Table:
        """An array in HBM, head by head."""
        info = self.run.trace.meta.array(name)
        shape = (info.planes, info.rows, info.cols)
        return np.asarray(self.run.trace.state(self.step)[name], np.float32).reshape(shape)

    def before(self, slot: str) -> Table:
        """The slot after the step before, in the same block."""
        assert self.block == At(self.run, self.step - 1).block
        return At(self.run, self.step - 1).now(slot)

    @property
    def block(self) -> int:
        return int(self.run.trace.steps_block[self.step])

    @property
    def row(self) -> int:
        return int(self.cell.split(".")[1])

    def place(self, axis: str) -> int:
        """The turn of a loop, or the block's place along an axis of its grid."""
        trace = self.run.trace
        info = trace.step_info(self.step)
        if axis in info.loops:
            return trace.loops_of(self.step)[info.loops.index(axis)]
        return trace.meta.launches[info.launch].coordinates(self.block)[axis]

    @property
    def tiles(self) -> tuple[int, int]:
        """(Tr, Tc)."""
        p, t = self.run.problem, self.run.tiling
        return -(-p.seqlen_q // t.block_rows), -(-p.seqlen_k // t.block_cols)

    @property
    def splits_keys(self) -> int:
        return -(-self.run.problem.seqlen_k // self.run.tiling.splits)

    @property
    def caption(self) -> str:
        return self.run.trace.steps[self.step].caption


def rises(at: At) -> bool:
    old, new, factor = at.before("mi")[at.row, 0], at.now("mi")[at.row, 0], at.now("alpha")[at.row, 0]
    return bool(-np.inf < old < new and abs(factor - np.exp(np.float64(old) - new)) < 1e-6)


def stays(at: At) -> bool:
    return bool(-np.inf < at.before("mi")[0, 0] == at.now("mi")[0, 0] and at.now("alpha")[0, 0] == 1)


def starts_late(at: At) -> bool:
    return bool(at.before("mi")[0, 0] == -np.inf < at.now("mi")[0, 0] and at.now("alpha")[0, 0] == 0)


def same_as_the_first(at: At, slot: str, name: str) -> bool:
    """Another block has loaded what the first such step loaded."""
    first = next(t for t, step in enumerate(at.run.trace.steps) if step.name == name)
    return at.block != At(at.run, first).block and np.array_equal(at.now(slot), At(at.run, first).now(slot), equal_nan=True)


def keys_of(at: At, split: int) -> bool:
    """The tile is where the split's keys begin."""
    start = split * at.splits_keys
    held = at.now("Kj")
    return at.place("split") == split and np.array_equal(held, at.array("K")[0][start : start + len(held)])


def sees_nothing(at: At) -> bool:
    return bool(at.now("mi")[0, 0] == -np.inf)


def of_name(*names: str) -> Callable[[At], bool]:
    return lambda at: at.run.trace.steps[at.step].name in names


def stands_in_hbm(at: At) -> bool:
    held = at.now("Oi")
    return np.array_equal(at.array("O")[0][: len(held)], held, equal_nan=True)


def last_of_all(at: At) -> bool:
    return (at.place("i"), at.place("j")) == (at.tiles[0] - 1, at.tiles[1] - 1)


def overflows(at: At) -> bool:
    return bool(at.now("Xij").min() > np.log(np.finfo(np.float32).max))


def of_the_softmax(at: At) -> bool:
    return at.run.trace.meta.launches[at.run.trace.step_info(at.step).launch].name == "softmax"


def comes_back(at: At) -> bool:
    return at.place("j") == 1 and stands_in_hbm(at)


def largest(at: At) -> bool:
    return np.array_equal(at.now("m")[0, 0], at.array("m_partial")[0].max(), equal_nan=True)


def weighted_sum(at: At) -> bool:
    return np.allclose(at.now("l"), (at.now("ws") * at.array("l_partial")[0]).sum(), equal_nan=True)


def weighted_columns(at: At) -> bool:
    columns = (at.now("ws") * at.array("O_partial")[0]).sum(axis=0)
    return np.allclose(at.now("Oi"), columns, atol=1e-6, equal_nan=True)


def left_as_partial(at: At) -> bool:
    return np.array_equal(at.array("O_partial")[0][0], at.now("Oi")[0], equal_nan=True)


def starts_and_ends_at_zero(at: At) -> bool:
    return not at.now("Oi").any() and stands_in_hbm(at)


def rest_of_the_split(at: At) -> bool:
    return at.place("j") == 1 and len(at.now("Kj")) == at.splits_keys - at.run.tiling.block_cols


def narrow(at: At) -> bool:
    return len(at.now("Kj")) == at.splits_keys < at.run.tiling.block_cols


def empty_split(at: At) -> bool:
    return at.place("split") == at.run.tiling.splits - 1 and "no keys" in at.caption


def same_keys(at: At) -> bool:
    return same_as_the_first(at, "Kj", "load K, V")


# (lesson, phrase) -> what it says. A phrase that says no more than its step's name is held to that.
CLAIMS: list[tuple[str, str, Callable[[At], bool]]] = [
    (".*", r"raises the maximum( of a row)?", rises),
    (".*", r"here in row 0", stays),
    (".*", r"(its|the) maximum is still −∞ after (it|the update)", sees_nothing),
    (".*", r"the first queries see no key", sees_nothing),
    (".*", r"[Aa] tile beyond the diagonal", lambda at: bool((at.now("Sij") == -np.inf).all())),
    ("flash-attention-.|flash-decoding", r"[Tt]he (second|next) tile", starts_late),
    ("online-softmax", r"The next tile", starts_late),
    (".*", r"scores near .*", lambda at: bool(at.now("Sij").max() > 1_000)),
    ("online-softmax", r"plain exponentials would all be infinite", overflows),
    (".*", r"the last tile", lambda at: at.place("j") == at.tiles[1] - 1),
    (".*", r"the last (query tile|block)", lambda at: at.place("i") == at.tiles[0] - 1),
    # standard
    ("standard", r"the same queries again", lambda at: same_as_the_first(at, "Qi", "load Q, K")),
    ("standard", r"weights of zero", lambda at: not at.now("Sij")[0].any()),
    ("standard", r"row 0 of the weights", lambda at: at.now("Sij")[0].tolist() == [1, 0, 0, 0]),
    ("standard", r"stores what it started with", starts_and_ends_at_zero),
    ("standard", r"The second launch", of_the_softmax),
    ("standard", r"The finished tile goes to HBM", stands_in_hbm),
    # online softmax
    ("online-softmax", r"the run with equal numbers", lambda at: at.now("li")[0, 0] == at.run.problem.seqlen_k),
    ("online-softmax", r"See it in that run", lambda at: at.now("li")[0, 0] == 0 and sees_nothing(at)),
    ("online-softmax", r"the kernel writes zeros", lambda at: not at.now("Xij")[0].any() and sees_nothing(at)),
    ("online-softmax", r"the last tile of the first sweep", lambda at: at.place("j") == at.tiles[1] - 1),
    # FlashAttention 1
    ("flash-attention-1", r"its second turn", comes_back),
    ("flash-attention-1", r"the last turn", lambda at: at.place("j") == at.tiles[1] - 1),
    ("flash-attention-1", r"the last tile of queries has left", last_of_all),
    ("flash-attention-1", r"row 0 has", stays),
    ("flash-attention-1", r"with no case of its own in the kernel", starts_late),
    ("flash-attention-1", r"The block appears and ends", lambda at: at.step == len(at.run.trace.steps) - 1),
    ("flash-attention-1", r"tiles of 2 × 2", lambda at: (at.run.tiling.block_rows, at.run.tiling.block_cols) == (2, 2)),
    ("flash-attention-1", r"the run with tiles of (\d+) keys?", of_name("load K, V")),
    # FlashAttention 2
    ("flash-attention-2", r"The next block loads the same tile|so does the next", same_keys),
    ("flash-attention-2", r"taken in for nothing", stays),
    ("flash-attention-2", r"−∞|that run", lambda at: at.now("lsei")[0, 0] == -np.inf),
    ("flash-attention-2", r"The block stores", lambda at: not at.now("Oi").any() and at.now("lsei")[0, 0] == -np.inf),
    ("flash-attention-2", r"A run with 1 query and \d+ heads", lambda at: at.run.problem.seqlen_q == 1 < at.run.problem.heads),
    ("flash-attention-2", r"at the next it undoes the division", lambda at: at.place("j") == 1),
    # flash decoding
    ("flash-decoding", r"the block of the next split", lambda at: at.place("split") == 1),
    ("flash-decoding", r"The first tile of split 0", lambda at: keys_of(at, 0)),
    ("flash-decoding", r"the first tile of the next split", lambda at: keys_of(at, 1)),
    ("flash-decoding", r"its one tile is that narrow", narrow),
    ("flash-decoding", r"its second tile", rest_of_the_split),
    ("flash-decoding", r"the other split", lambda at: at.place("split") == 1),
    ("flash-decoding", r"the last split", empty_split),
    ("flash-decoding", r"It writes", lambda at: "empty split writes" in at.caption),
    ("flash-decoding", r"in the combine|See it in that run", lambda at: at.now("ws")[at.row, 0] == 0),
    ("flash-decoding", r"the only weight is", lambda at: at.now("ws").tolist() == [[1]]),
    ("flash-decoding", r"the global one", largest),
    ("flash-decoding", r"[Tt]he sum( under these weights)?", weighted_sum),
    ("flash-decoding", r"(every thread sums) one column", weighted_columns),
    ("flash-decoding", r"The (output|combine|kernel wrote)|Nothing over nothing", stands_in_hbm),
    ("flash-decoding", r"writes its partial", left_as_partial),
    ("flash-decoding", r"(the one) with one split", lambda at: at.run.tiling.splits == 1),
    ("flash-decoding", r"With two", lambda at: at.run.tiling.splits == 2),
]  # fmt: skip


def told(phrase: str) -> str:
    """A phrase's words: its mathematics in letters."""
    return " ".join(unescape(re.sub(r"<[^>]+>", "", phrase)).split())


def led_to(kernel: str, own: Run, href: str, other: bool, rest: str) -> At:
    """Where a link leads, read from its address as a browser has it."""
    address = urlsplit(unescape(href))
    query = dict(parse_qsl(address.query))
    step, cell = int(query.pop("step")), query.pop("cell", "")
    if not other:
        assert f'data-step="{step}"' in rest
        return At(own, step, cell)
    name = address.path.rpartition("/")[2]
    parsed = parameters.parse(get(name), query, Settings(), lambda _: None)
    assert parsed.request is not None, href
    return At(once(name, tuple(sorted(parsed.request.parameters.items()))), step, cell)


@cache
def once(name: str, pairs: tuple[tuple[str, Any], ...]) -> Run:
    return recorded(name, dict(pairs))


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_a_phrase_is_true_of_the_step_that_it_leads_to(name: str, sizes: Sizes) -> None:
    run, text = reading(name, sizes)
    checked = 0
    for href, other, rest, phrase in LINK.findall(text.html):
        words = told(phrase)
        if words.startswith("See it in the figure"):
            continue
        at = led_to(name, run, href, bool(other), rest)
        assert 0 <= at.step < len(at.run.trace.steps)
        if at.cell:  # what is selected is there
            slot, row, col = at.cell.rsplit(".", 2)
            table = at.now(slot)
            assert int(row) < table.shape[0], (words, at.cell)
            assert int(col) < table.shape[1], (words, at.cell)
        for lesson, said, holds in CLAIMS:
            if re.fullmatch(lesson, name) and re.fullmatch(said, words):
                assert holds(at), (words, at.step, at.caption)
                checked += 1
    assert checked >= 5


def test_every_claim_is_made_somewhere() -> None:
    made: dict[str, set[str]] = {name: set() for name in LESSONS}
    for name in LESSONS:
        for sizes in sizes_of(name):
            made[name] |= {told(phrase) for *_, phrase in LINK.findall(reading(name, sizes)[1].html)}
    for lesson, said, _ in CLAIMS:
        assert any(re.fullmatch(said, words) for name in LESSONS if re.fullmatch(lesson, name) for words in made[name]), said
