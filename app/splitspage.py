"""The reader's own decode: the form on the lesson's page with what it works out, and /api/splits, which answers it live."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from . import occupancy
from .templating import templates

router = APIRouter(prefix="/api")
COMMIT = re.compile(r"\b([0-9a-f]{10})[0-9a-f]{30}\b")
PARTS = ("idle", "choice")


@router.get("/splits")
def splits(request: Request) -> Response:
    """How many SMs a decode keeps busy and how often engines would split it: batch, heads, kv_heads, seqlen_k, head_dim, sms."""
    parsed = occupancy.parse(request.query_params)
    if parsed.errors:
        error = next(iter(parsed.errors.values()))
        return JSONResponse({"error": error, "errors": parsed.errors, "values": parsed.texts}, 422)
    return JSONResponse(occupancy.report(parsed.sizes))


def sizes_in(query: str) -> occupancy.Sizes:
    """The reader's decode in the query of a lesson's page."""
    return occupancy.parse(dict(parse_qsl(query)), occupancy.PREFIX).sizes


def fragment(part: str, query: str, path: str) -> str:
    """One part of the lesson's page as HTML: the form and what it works out. `query` is the page's, `path` its address.

    part: "idle", the SMs with and without splits, or "choice", what the engines would do. Each line is one line of HTML, and
    what a query holds never begins one.
    """
    asked = dict(parse_qsl(query))
    parsed = occupancy.parse(asked, occupancy.PREFIX)
    context: dict[str, Any] = {
        "part": part,
        "path": path,
        "parsed": parsed,
        "usual": occupancy.usual(),
        "fields": occupancy.FIELDS,
        "prefix": occupancy.PREFIX,
        "gpus": occupancy.GPUS,
        "kept": {name: " ".join(text.split()) for name, text in asked.items() if not name.startswith(occupancy.PREFIX)},
        "now": occupancy.report(parsed.sizes),
        "short": lambda source: COMMIT.sub(r"\1", source),
    }
    return templates.get_template("splits.html").render(context)
