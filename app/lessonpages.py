"""The lessons' pages: the contents, a lesson with the player beside its text, and the walk in words."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.responses import Response

from ..kernels import registry
from ..kernels.kernel import Kernel
from ..kernels.record import Estimate, Run, record, what_would_fit
from ..trace import words
from ..trace.trace import Trace
from . import assets, links, parameters
from .api import NO_LIMITS, Services, Shared, find_kernel, unknown_kernel
from .lessons import FOLDER, LESSONS, MAX_STEPS, Lesson, Reading, read
from .pages import error_page, form_context, render

router = APIRouter()
KEPT = (links.THEME, *links.OWN)
LEFT_OUT = ("values", "focus")  # a lesson tells every number of the run
TOLD = 64  # a slot of more numbers is not written out in the walk


@router.get("/lessons/")
async def contents() -> Response:
    """The lessons in teaching order."""
    return render("lessons.html", current=None, place="lessons")


@router.get("/lessons")
async def contents_without_slash() -> Response:
    return await contents()


@router.get("/lessons/{name}")
async def lesson(name: str, request: Request, shared: Shared) -> Response:
    """One lesson on the reader's sizes, the player beside it."""
    found = LESSONS.get(name)
    if found is None:
        return _no_lesson(name)
    query = request.query_params
    context = await run_in_threadpool(_context, found, query, shared)
    return render("lesson.html", 422 if context["errors"] else 200, **context, modules=assets.modules("lesson/main.js"))


@router.get("/lessons/{name}/walk")
async def walk(name: str, request: Request, shared: Shared) -> Response:
    """Every step in words and numbers, as `flashstep show` tells it: the lesson's figure for whoever reads by ear."""
    found = LESSONS.get(name)
    if found is None:
        return _no_lesson(name)
    query = request.query_params
    parsed = await run_in_threadpool(asked, registry.get(name), query, shared)
    if parsed.request is None:
        return error_page(422, "There is nothing to walk through", " ".join(parsed.errors.values()))
    run = await run_in_threadpool(recorded, parsed.request)
    return render(
        "walk.html", current=name, place="lessons", lesson=found, query=query_of(query), last=len(run.trace.steps) - 1,
        entries=list(told(run.trace)),
    )  # fmt: skip


def _no_lesson(name: str) -> Response:
    kernel = find_kernel(name)
    if kernel is None:
        return error_page(404, "There is no such lesson", unknown_kernel(name))
    return error_page(404, "There is no lesson yet", f"{kernel.title} can be explored, and has no lesson.")


# ---- a lesson's sizes, run and reading


def asked(kernel: Kernel, query: Mapping[str, str], shared: Services) -> parameters.Parsed:
    """What the reader asks for, refused at its field where a lesson cannot tell all of it."""
    query = {name: text for name, text in query.items() if name not in LEFT_OUT}
    parsed = parameters.parse(kernel, query, shared.settings, shared.arrays.get)
    if parsed.request is None or parsed.sizes is None:
        return parsed
    request, sizes = parsed.request, parsed.sizes

    def tells(expected: Estimate) -> bool:
        return expected.steps <= MAX_STEPS + 1 and expected.fits("all", shared.settings.value_bytes)

    if tells(sizes):
        return parsed
    refusal = "A lesson keeps every number of its run, and this one has too many."
    if sizes.steps > MAX_STEPS + 1:
        refusal = f"This run would take {sizes.steps - 1:,} steps, and a lesson goes through {MAX_STEPS:,} at most."
    refusal += f"{what_would_fit(tells, kernel.name, *request.positional, **request.named)} The explorer takes it as it is."
    return replace(parsed, request=None, errors={"arrays" if request.arrays else "seqlen_k": refusal})


def query_of(query: Mapping[str, str]) -> str:
    """The part of a query that says what is recorded, for links."""
    mine = (*links.PLACE, links.THEME, *LEFT_OUT)
    return urlencode({name: text for name, text in query.items() if name not in mine})


def recorded(request: parameters.Request) -> Run:
    """The run of a request that `asked` let through."""
    return record(request.kernel, *request.positional, **{**request.named, "values": "all", **NO_LIMITS})


_readings: OrderedDict[tuple[str, str, int], Reading] = OrderedDict()
KEPT_READINGS = 32


def reading(lesson: Lesson, request: parameters.Request, query: str) -> Reading:
    """The lesson on this request's run; the last few are kept."""
    changed = (FOLDER / f"{lesson.kernel}.md").stat().st_mtime_ns
    key = (request.name(), query, changed)
    found = _readings.get(key)
    if found is None:
        found = _readings[key] = read(lesson, recorded(request), query)
        while len(_readings) > KEPT_READINGS:
            _readings.popitem(last=False)
    return found


def _context(lesson: Lesson, query: QueryParams, shared: Services) -> dict[str, Any]:
    kernel = registry.get(lesson.kernel)
    parsed = asked(kernel, query, shared)
    context = form_context("lessons", kernel, query, parsed, KEPT)
    context["form"] = [field for field in context["form"] if field.name not in LEFT_OUT]
    context |= {
        "lesson": lesson,
        "query": query_of(query),
        "reading": reading(lesson, parsed.request, query_of(query)) if parsed.request else None,
        "next": LESSONS.get(lesson.next or ""),
        "previous": next((other for other in LESSONS.values() if other.next == lesson.kernel), None),
    }
    return context


# ---- the walk


@dataclass(frozen=True)
class Entry:
    """A line of the walk: a heading (`depth` 0 launch, 1 block, 2 loop), or a step with the numbers that it wrote."""

    text: str
    depth: int = -1
    step: int = -1
    caption: str = ""
    numbers: tuple[tuple[str, list[list[str]]], ...] = ()  # (slot, rows of texts)
    left_out: tuple[str, ...] = ()


def told(trace: Trace) -> Iterator[Entry]:
    """The walk in the order and the words of `trace.walk()`, with the numbers that each step wrote on its block."""
    above: tuple[str, ...] = ()
    for t in range(len(trace.steps)):
        path = words.path(trace, t)
        shared = next((n for n, (a, b) in enumerate(zip(path, above, strict=False)) if a != b), min(len(path), len(above)))
        for depth in range(shared, len(path)):
            yield Entry(path[depth], depth=depth)
        above = path
        numbers, left_out = written(trace, t)
        yield Entry(words.label(trace, t), step=t, caption=words.caption(trace, t), numbers=numbers, left_out=left_out)


def written(trace: Trace, t: int) -> tuple[tuple[tuple[str, list[list[str]]], ...], tuple[str, ...]]:
    """The slots that step t wrote, with their numbers; and the names of those with too many."""
    nodes, arrays = trace.meta.nodes, len(trace.meta.arrays)
    first, end = trace.event_range(t)
    relabel = trace.step_info(t).relabel
    tables: dict[str, list[list[str]]] = {}
    left_out: list[str] = []
    for event in range(first, end):
        node, at = int(trace.events.dst[event]), int(trace.events.value[event])
        rows, cols = int(trace.events.rows[event]), int(trace.events.cols[event])
        if not arrays <= node < len(nodes) or at < 0:
            continue
        name = relabel.get(nodes[node].name, nodes[node].name)
        if rows * cols > TOLD:
            left_out.append(name)
            continue
        table = trace.values[at : at + rows * cols].reshape(rows, cols)
        tables[name] = [[words.number(float(x)) for x in row] for row in table]
    return tuple(tables.items()), tuple(dict.fromkeys(left_out))
