"""What is taken away from a run: the run as one HTML file, and a handout of chosen steps for the printer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from . import assets, export, parameters
from .api import Shared, ask, find_kernel, unknown_kernel
from .jobs import QueueFull
from .local import is_here
from .pages import asked, error_page, form_context, render

router = APIRouter()
PLACE = ("step", "order", "focus", "cell")  # where the file opens
PATIENCE = 20  # seconds that a download waits for its recording
WAITING = 4  # downloads that may wait while another is made
BUSY = "Other files are being made; try again in a few seconds."


class Turns:
    """One file is made at a time, for a second or two of work each; a few wait, and whoever comes after those is refused.

    Someone at the machine itself always waits.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._asked = 0

    @contextlib.asynccontextmanager
    async def turn(self, here: bool) -> AsyncIterator[None]:
        """Within it, it is the asker's turn. Raises `Busy`."""
        if self._asked > WAITING and not here:
            raise Busy
        self._asked += 1
        try:
            async with self._lock:
                yield
        finally:
            self._asked -= 1


class Busy(Exception):
    """As many files are asked for at once as may wait."""


@router.get("/export/{name}")
async def one_file(name: str, request: Request, shared: Shared) -> Response:
    """The run that the query asks for, as one HTML file to keep; `lesson=1`: with the kernel's lesson on it."""
    kernel = find_kernel(name)
    if kernel is None:
        return error_page(404, "There is no such kernel", unknown_kernel(name))
    if request.headers.get("sec-fetch-site") == "cross-site" and request.headers.get("sec-fetch-dest") != "document":
        return error_page(403, "That cannot be done here", "Another site's page may not have this made; open Flashstep itself.")
    query = request.query_params
    parsed = await run_in_threadpool(asked, kernel, query, shared)
    if parsed.request is None or parsed.sizes is None:
        return error_page(422, "Nothing is recorded yet", " ".join(parsed.errors.values()))
    try:
        export.refuse_too_large(parsed.sizes.value_bytes[parsed.request.kept])
        job, ticket = ask(shared, parsed.request, parsed.sizes)
        await shared.jobs.wait(job, PATIENCE)
        trace = None if job.open else shared.jobs.store.get(job.id)
        if trace is None:
            shared.jobs.leave(job.id, ticket)
            sentence = job.fault or "It is still being recorded: open it in the explorer first."
            return error_page(503, "That takes a while", sentence)
        place = {name: query[name] for name in PLACE if name in query}
        lesson = parameters.truth(query.get("lesson"))
        turns: Turns = request.app.state.turns
        async with turns.turn(is_here(request)):
            made = run_in_threadpool(export.lesson_page, trace) if lesson else run_in_threadpool(export.page, trace, place)
            text = await made
    except export.TooLarge as error:
        return error_page(413, "That is too large", str(error))
    except export.NoLesson as error:
        return error_page(422, "There is no such lesson", str(error))
    except Busy:
        return error_page(503, "That takes a while", BUSY, {"Retry-After": "5"})
    except QueueFull:
        return error_page(503, "That takes a while", "Other recordings are being made; try again in a few seconds.")
    name = f"{kernel.name}-lesson" if lesson else kernel.name
    headers = {"Content-Disposition": f'attachment; filename="{name}.html"'}
    return Response(text, headers=headers, media_type="text/html")


@router.get("/handout/{name}")
async def handout(name: str, request: Request, shared: Shared) -> Response:
    """Chosen steps of a run, each a figure and its caption, laid out for paper. `steps=2,5,9-12`, `per=1` or 2 a page."""
    kernel = find_kernel(name)
    if kernel is None:
        return error_page(404, "There is no such kernel", unknown_kernel(name))
    query = request.query_params
    parsed = await run_in_threadpool(asked, kernel, query, shared)
    return render(
        "handout.html",
        422 if parsed.errors else 200,
        **form_context("handout", kernel, query, parsed),
        back=f"/explore/{kernel.name}" + (f"?{request.url.query}" if request.url.query else ""),
        modules=assets.modules("handout/main.js"),
    )
