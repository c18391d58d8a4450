"""The pages: home, a kernel's explorer, and what is shown when something is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, Response

from ..kernels import registry
from ..kernels.inputs import PRESETS
from ..kernels.kernel import Kernel
from . import assets, links, parameters
from .api import Services, Shared, find_kernel, unknown_kernel
from .fields import Field, fields, spoken
from .lessons import LESSONS
from .middleware import FRAMEABLE
from .source import highlighted
from .templating import templates

router = APIRouter()
# What a link may hold besides parameters, and the form hands on.
KEPT = ("order", links.THEME)


def render(name: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page from its template; every page knows the kernels and the lessons for its header."""
    html = templates.get_template(name).render(kernels=list(registry.KERNELS.values()), lessons=LESSONS, **context)
    return HTMLResponse(html, status)


EXAMPLE = """import flashstep as fs

run = fs.record("flash-attention-2", q, k, v)
run.trace.steps[8].caption
run.trace.state(8)["Oi"]
run.trace.ledger()["K"]["loads"]
"""
COMMANDS = """
$ flashstep show flash-decoding
$ flashstep ledger flash-attention-1
"""


@router.get("/")
async def home() -> Response:
    """The kernels in teaching order, each with a small figure of what its twin did on the textbook's sizes."""
    return render(
        "home.html",
        current=None,
        example=highlighted(EXAMPLE),
        commands=COMMANDS,
        modules=assets.modules("home/home.js"),
    )


@router.get("/explore/{name}")
async def explore(name: str, request: Request, shared: Shared) -> Response:
    """The player of one kernel, with its parameters as a form; `embed=1`: the player alone, for another page's frame."""
    query = request.query_params
    embed = parameters.truth(query.get("embed"))
    kernel = find_kernel(name)
    if kernel is None:
        return error_page(404, "There is no such kernel", unknown_kernel(name), FRAMEABLE if embed else None)
    parsed = await run_in_threadpool(asked, kernel, query, shared)
    context = form_context("explore", kernel, query, parsed)
    if embed:
        context["embedded"]["regions"] = []  # figure, caption and controls
        modules = [*assets.modules("player/main.js"), "player/embed.js"]
    else:
        modules = assets.modules("player/main.js")
    page = render("embed.html" if embed else "explore.html", 422 if parsed.errors else 200, **context, modules=modules)
    page.headers.update(FRAMEABLE if embed else {})
    return page


def asked(kernel: Kernel, query: Mapping[str, str], shared: Services) -> parameters.Parsed:
    """What a link asks for. Whom to follow is the player's matter: it says so, and the rest of the link works."""
    parsed = parameters.parse(kernel, query, shared.settings, shared.arrays.get)
    if "focus" in parsed.errors:
        followed = {name: value for name, value in query.items() if name != "focus"}
        parsed = parameters.parse(kernel, followed, shared.settings, shared.arrays.get)
    return parsed


def form_context(
    place: str, kernel: Kernel, query: QueryParams, parsed: parameters.Parsed, kept: tuple[str, ...] = KEPT
) -> dict[str, Any]:
    """What a page with the parameter bar needs; it stands at /`place`/<kernel>, and hands on what the link holds of `kept`.

    query: the whole link, also what it says twice: `in_vain` tells what of it nothing heeds.
    """
    form = fields(kernel, parsed)
    return {
        "place": place,
        "kernel": kernel,
        "current": kernel.name,
        "form": form,
        "arrays": _arrays(parsed),
        "kept": {name: query[name] for name in kept if name in query},
        "in_vain": links.in_vain(kernel, query.multi_items(), told=() if place == "compare" else ("order",)),
        "bare": f"/{place}/{kernel.name}",
        "errors": faults(form, parsed),
        "embedded": _embedded(kernel, parsed, form),
    }


def faults(form: list[Field], parsed: parameters.Parsed) -> list[tuple[str, str]]:
    """What is wrong, as (the field's label, a sentence)."""
    labels = {field.name: field.label for field in form} | {"arrays": "your arrays"}
    return [(labels.get(name, name), spoken(sentence, labels)) for name, sentence in parsed.errors.items()]


def error_page(status: int, title: str, sentence: str, headers: dict[str, str] | None = None) -> HTMLResponse:
    """A page that says what is wrong and leads on."""
    page = render("error.html", status, title=title, sentence=sentence, current=None)
    page.headers.update(headers or {})
    return page


def _arrays(parsed: parameters.Parsed) -> dict[str, Any] | None:
    """The person's arrays as the form shows them; None when there are none."""
    name = parsed.texts.get("arrays", "")
    if not name:
        return None
    given = parsed.request.given if parsed.request else {}
    shapes = "  ".join(f"{key} {'×'.join(map(str, array.shape))}" for key, array in given.items())
    return {"name": name, "shapes": shapes, "error": parsed.errors.get("arrays")}


def _embedded(kernel: Kernel, parsed: parameters.Parsed, form: list[Field]) -> dict[str, Any]:
    """The page's data for the player and the form: JSON, not code."""
    request = parsed.request
    return {
        "kernel": kernel.name,
        "title": kernel.title,
        "idea": kernel.idea,
        "request": request.body() if request else None,
        "parameters": {key: value for key, value in request.body().items() if key != "kernel"}
        if request
        else {},
        "errors": parsed.errors,
        "presets": {
            preset: {
                "about": PRESETS[preset],
                "defaults": {
                    key: parameters.as_text(value) for key, value in kernel.defaults(preset).items()
                },
            }
            for preset in kernel.presets
        },
    }
