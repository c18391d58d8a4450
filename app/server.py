"""The web app: `create_app(settings)` builds it; `serving.py` runs it on this machine.

Nothing that a visitor sends is run as code, and no page asks for anything outside this origin.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import AsyncIterator

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import FileResponse, JSONResponse, Response

from ..kernels.registry import KERNELS
from . import api, assets, compare, comparepage, follow, lecture, lessonpages, pages, splitspage, takeaway
from .arrays import ArrayStore
from .jobs import Jobs, RecordingStore
from .middleware import HEADERS, BodyLimit, Compress, Head, HostCheck, SecurityHeaders
from .parameters import code_hash
from .settings import Settings, read_settings
from .source import sources
from .templating import templates

BODY_BYTES = 64 * 1024
SWITCH_SECONDS = 0.001
QUIET_SECONDS = 3  # after the start: by then the first page has what it needs
TITLES = {404: "There is nothing here", 405: "That cannot be done here", 413: "That is too large"}


def create_app(settings: Settings | None = None, host: str = "127.0.0.1") -> FastAPI:
    """The app, listening as `host` (which its Host check then accepts). Settings default to the environment's."""
    settings = settings or read_settings()
    jobs = Jobs(settings, RecordingStore(settings), api.fault)
    comparisons = compare.comparison_jobs(settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # A recording is a loop of short Python steps. At the usual 5 ms a turn it would hold the interpreter before each
        # of the dozen turns that a request needs: beside a long recording a static file took 16 ms, now 7.
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        warm_up()
        colouring = threading.Timer(QUIET_SECONDS, colour_sources)
        colouring.daemon = True
        colouring.start()
        yield
        colouring.cancel()
        comparisons.close()
        jobs.close()
        sys.setswitchinterval(before)

    app = FastAPI(
        title="Flashstep",
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(Head),
            Middleware(HostCheck, host=host, allowed=settings.allowed_hosts),
            Middleware(
                BodyLimit,
                default=BODY_BYTES,
                # Room for a form's own lines around files of the allowed size.
                larger={"/api/arrays": settings.upload_bytes + BODY_BYTES},
            ),
            Middleware(Compress, minimum_size=1024, compresslevel=5),
        ],
    )
    app.state.host = host
    app.state.sessions = follow.Sessions(settings)
    app.state.turns = takeaway.Turns()
    app.state.services = api.Services(settings, ArrayStore(settings), jobs, comparisons)
    app.include_router(api.router)
    app.include_router(compare.router)
    app.include_router(splitspage.router)
    app.include_router(pages.router, include_in_schema=False)
    app.include_router(comparepage.router, include_in_schema=False)
    app.include_router(lessonpages.router, include_in_schema=False)
    app.include_router(lecture.router)
    app.include_router(follow.router)
    app.include_router(follow.page, include_in_schema=False)
    app.include_router(takeaway.router, include_in_schema=False)
    app.mount("/static", assets.StaticFiles(assets.STATIC), name="static")
    app.add_api_route("/favicon.ico", _favicon, include_in_schema=False)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _failed)
    return app


def warm_up() -> None:
    """Compile the templates and hash the code, which the first page would wait for."""
    for name in templates.list_templates():
        templates.get_template(name)
    code_hash()


def colour_sources() -> None:
    """Colour the kernels' sources: later, because it would take half the interpreter from the first page, which shows none."""
    for kernel in KERNELS.values():
        sources(kernel.source)


def _favicon() -> Response:
    return FileResponse(assets.STATIC / "favicon.svg", media_type="image/svg+xml")


async def _refused(request: Request, error: Exception) -> Response:
    """A refusal: JSON under /api/, a page elsewhere."""
    assert isinstance(error, HTTPException)
    sentence = error.detail
    if error.status_code == 404 and sentence == "Not Found":
        sentence = f"There is nothing at {request.url.path[:80]}; the kernels are listed on the first page."
    elif error.status_code == 405:
        sentence = f"{request.method} does nothing at {request.url.path[:80]}."
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": sentence}, error.status_code, error.headers)
    return pages.error_page(error.status_code, TITLES.get(error.status_code, "That did not work"), sentence)


async def _invalid(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "The address or its query holds something that is not understood."}, 422)


async def _failed(request: Request, error: Exception) -> Response:
    """An unforeseen failure. Starlette logs the traceback; a visitor sees none of it."""
    sentence = "Flashstep failed at this; the terminal it runs in says why."
    if request.url.path.startswith("/api/"):
        response: Response = JSONResponse({"error": sentence}, 500)
    else:
        response = pages.error_page(500, "Something broke", sentence)
    # This handler stands outside the middlewares, which therefore do not see its answer.
    response.headers.update(HEADERS)
    return response
