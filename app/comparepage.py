"""The compare page: a kernel's CUDA source against its twin, with the engines, the captures and what was measured."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ..kernels.engines import capture, recorded
from ..kernels.engines.compare import unready
from ..kernels.kernel import Kernel
from ..trace import bounds
from . import assets, links, parameters, verdicts
from .api import Shared, find_kernel, unknown_kernel
from .compare import engines_for
from .measured import facts
from .pages import KEPT, error_page, form_context, render

router = APIRouter()


@router.get("/compare/{name}")
async def compare(name: str, request: Request, shared: Shared) -> Response:
    """One kernel's comparison, with the same parameters, step and cell as its explorer."""
    kernel = find_kernel(name)
    if kernel is None:
        return error_page(404, "There is no such kernel", unknown_kernel(name))
    if why := unready(kernel):
        return error_page(404, "There is nothing to compare yet", why)
    query = request.query_params
    parsed = await run_in_threadpool(parameters.parse, kernel, query, shared.settings, shared.arrays.get)
    engines = await run_in_threadpool(engines_for, request)
    problem = captured_name(kernel, parsed.request)
    chosen = choose(query.get("engine"), engines, problem if problem and not recorded.stale_file(kernel, problem) else None)
    context = form_context("compare", kernel, query, parsed, (*KEPT, *links.COMPARED))
    context["embedded"] |= {
        "engine": chosen,
        "fmad": parameters.truth(query.get("fmad") or "on") is not False,
        "limits": {"steps": shared.settings.compare_steps},
    }
    return render(
        "compare.html",
        422 if parsed.errors else 200,
        **context,
        modules=assets.modules("compare/main.js"),
        engines=[
            {"name": name, "idea": verdicts.ENGINES[name], "missing": why, "chosen": name == chosen}
            for name, why in engines.items()
        ],
        problem=problem,
        captures=captures(kernel, problem),
        measured=facts(kernel.name, problem),
        derivation=(bounds.__doc__ or "").strip(),
        percent=verdicts.percent,
    )


def choose(asked: str | None, engines: dict[str, str | None], problem: str | None) -> str:
    """The engine to begin with: what the link asks for, else the nearest to a GPU that has this problem.

    problem: the name of its capture of the present source, or None.
    """
    if asked in engines:
        return str(asked)
    if engines["gpu"] is None:
        return "gpu"
    if problem is not None and engines["recorded"] is None:
        return "recorded"
    return "cpu" if engines["cpu"] is None else "recorded"


def captured_name(kernel: Kernel, request: parameters.Request | None) -> str | None:
    """The name of the capture of these very parameters, or None."""
    if request is None or request.arrays is not None:
        return None
    for name, asked in shipped(kernel).items():
        if {**kernel.defaults(asked.get("inputs", "random")), **asked} == request.parameters:
            return name
    return None


def shipped(kernel: Kernel) -> dict[str, dict[str, Any]]:
    """The captured problems that came with the package: name -> parameters."""
    there = {path.name for path in capture.paths(kernel)}
    return {
        name: asked
        for name, asked in capture.problems(kernel).items()
        if f"{kernel.name}.{name}.safetensors" in there
    }


def captures(kernel: Kernel, current: str | None) -> list[dict[str, Any]]:
    """The captured problems as links."""
    return [
        {
            "name": name.replace("-", " "),
            "current": name == current,
            "address": f"/compare/{kernel.name}?"
            + urlencode({"engine": "recorded", **{key: parameters.as_text(value) for key, value in asked.items()}}),
        }
        for name, asked in shipped(kernel).items()
    ]
