"""The lessons: which there are, and the reading of one on a recorded run.

A lesson is `templates/lessons/<kernel>.md`: a few lines `key: value` between `---` (title, summary), then Markdown in Jinja.
A kernel without that file has no lesson, and nothing else needs to know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..kernels.record import Run
from ..kernels.registry import KERNELS
from . import assets, lessontext
from .lessonfacts import Claim, Facts
from .lessontext import Question

FOLDER = assets.TEMPLATES / "lessons"
MAX_STEPS = 2_000

texts = Environment(
    loader=FileSystemLoader(FOLDER), autoescape=False, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


@dataclass(frozen=True)
class Lesson:
    """One lesson of the course. `number` counts from 0, `summary` is a sentence, `next` the kernel of the next one."""

    kernel: str
    number: int
    title: str
    summary: str
    next: str | None = None


@dataclass(frozen=True)
class Reading:
    """A lesson's text on one run, as HTML.

    questions in the order of the text; notes: step -> HTML for the lecturer (-1: of the lesson as a whole); links: (phrase,
    step) of each link that moves the figure; contents: (id, title) of each chapter; claims: what the links say of their steps.
    """

    title: str
    number: int
    html: str
    questions: tuple[Question, ...]
    notes: dict[int, str]
    links: tuple[tuple[str, int], ...]
    contents: tuple[tuple[str, str], ...] = ()
    claims: tuple[Claim, ...] = field(default=(), repr=False)


def split(source: str) -> tuple[dict[str, str], str]:
    """(head, text) of a lesson's file."""
    _, head, text = source.split("---\n", 2)
    pairs = (line.partition(":") for line in head.splitlines() if line.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}, text


def _lessons() -> dict[str, Lesson]:
    """The kernels' lessons in teaching order."""
    names = [name for name in KERNELS if (FOLDER / f"{name}.md").is_file()]
    found = {}
    for number, name in enumerate(names):
        head, _ = split((FOLDER / f"{name}.md").read_text("utf-8"))
        following = names[number + 1] if number + 1 < len(names) else None
        found[name] = Lesson(name, list(KERNELS).index(name), head["title"], head["summary"], following)
    return found


LESSONS: dict[str, Lesson] = _lessons()


def read(lesson: Lesson, run: Run, query: str = "") -> Reading:
    """The lesson on this run, which should keep all its numbers. Pure: same run, same reading.

    `query` is the part of the address that says what is recorded, and what the reader's own decode is (`occupancy`).
    """
    path = FOLDER / f"{lesson.kernel}.md"
    _, source = split(path.read_text("utf-8"))
    facts = Facts(run, KERNELS[lesson.kernel], query)
    text = _compiled(source).render(facts.names())
    written = lessontext.write(text, place(facts))
    return Reading(
        lesson.title, lesson.number, written.html, tuple(written.questions), _by_step(run, written.notes), tuple(written.links),
        tuple(written.contents), tuple(facts.claims),
    )  # fmt: skip


@lru_cache(maxsize=16)
def _compiled(source: str) -> Any:
    return texts.from_string(source)


def place(facts: Facts) -> lessontext.Place:
    """What a text on this run is set in."""

    def lines(name: str) -> tuple[str, int, int]:
        meta = facts.run.trace.meta
        first, last = meta.steps[facts.kinds(name)[0]].lines["cuda"]
        return "\n".join(meta.sources["cuda"].splitlines()[first - 1 : last]), first, last

    there = {int(kind) for kind in facts.run.trace.steps_kind}
    return lessontext.Place(
        f"/lessons/{facts.kernel.name}", facts.query, facts.kinds, lines, lambda kinds: not there.isdisjoint(kinds)
    )


def _by_step(run: Run, notes: list[tuple[tuple[int, ...], str]]) -> dict[int, str]:
    found: dict[int, str] = {}
    kinds = run.trace.steps_kind
    for wanted, html in notes:
        for t in [t for t, kind in enumerate(kinds) if kind in wanted] if wanted else [-1]:
            found[t] = found.get(t, "") + html
    return found


__all__ = ["FOLDER", "LESSONS", "MAX_STEPS", "Lesson", "Question", "Reading", "read"]
