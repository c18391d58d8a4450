"""The lecture hall: a kernel's run on a full screen, its presenter's window, and the questions and notes of its lesson."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from ..kernels import registry
from ..kernels.kernel import Kernel
from . import assets, lessonpages, links, parameters
from .api import Services, Shared, error_answer, find_kernel, unknown_kernel
from .fields import Field, fields
from .lessons import LESSONS, Lesson, Reading
from .pages import error_page, faults, render

router = APIRouter()


@router.get("/lecture/{name}", include_in_schema=False)
async def hall(name: str, request: Request, shared: Shared) -> Response:
    """The hall's screen."""
    return await page("lecture.html", "lecture/hall.js", name, request, shared)


@router.get("/lecture/{name}/presenter", include_in_schema=False)
async def presenter(name: str, request: Request, shared: Shared) -> Response:
    """The window on the lecturer's own screen."""
    return await page("presenter.html", "lecture/presenter.js", name, request, shared)


async def page(template: str, entry: str, name: str, request: Request, shared: Services) -> Response:
    """One of the lecture's two pages."""
    kernel = find_kernel(name)
    if kernel is None:
        return error_page(404, "There is no such lecture", unknown_kernel(name))
    query = request.query_params
    parsed = await run_in_threadpool(parameters.parse, kernel, query, shared.settings, shared.arrays.get)
    form = fields(kernel, parsed)
    search = urlencode(query)
    lesson = LESSONS.get(name)
    return render(
        template,
        422 if parsed.errors else 200,
        current=kernel.name,
        kernel=kernel,
        lesson=lesson,
        sizes=sizes(form),
        begins="step" if "step" in query or "card" in query else "title",
        errors=faults(form, parsed),
        explore=f"/explore/{kernel.name}" + (f"?{search}" if search else ""),
        embedded={
            "kernel": kernel.name,
            "title": kernel.title,
            "query": recording_query(query),
            "request": parsed.request.body() if parsed.request else None,
            "next": following(kernel),
        },
        modules=assets.modules(entry),
    )


@router.get("/api/lecture/{name}")
async def reading(name: str, request: Request, shared: Shared) -> Response:
    """The questions and notes of a kernel's lesson, on the recording that the query asks for; none where it has no lesson."""
    kernel = find_kernel(name)
    if kernel is None:
        return error_answer(404, unknown_kernel(name))
    found = await run_in_threadpool(read, LESSONS.get(name), request.query_params, shared)
    if found is None:
        return JSONResponse({"questions": [], "notes": {}})
    return JSONResponse({"questions": [vars(one) for one in found.questions], "notes": found.notes})


def read(lesson: Lesson | None, query: Mapping[str, str], shared: Services) -> Reading | None:
    """The lesson on these sizes; None where there is none, or where a lesson does not tell so long a run."""
    if lesson is None:
        return None
    request = lessonpages.asked(registry.get(lesson.kernel), query, shared).request
    return lessonpages.reading(lesson, request, lessonpages.query_of(query)) if request else None


def recording_query(query: Mapping[str, str]) -> str:
    """The part of an address that says what is recorded, in one order of its parameters."""
    return urlencode(sorted((key, value) for key, value in query.items() if key not in (*links.PLACE, links.THEME)))


def sizes(form: list[Field]) -> list[tuple[str, str]]:
    """What is recorded, for the title: the form's numbers, and what is switched on."""
    shown = [field for field in form if field.on_bar and field.name != "seed"]
    return [
        (field.label, "on" if field.kind == "toggle" else field.text)
        for field in shown
        if field.kind != "toggle" or parameters.truth(field.text)
    ]


def following(kernel: Kernel) -> dict[str, Any] | None:
    """The next lecture of the course."""
    course = sorted(registry.KERNELS.values(), key=lambda one: one.order)
    after = course[course.index(kernel) + 1 :]
    return {"kernel": after[0].name, "title": after[0].title} if after else None
