"""Comparing the CUDA kernel with its twin, as JSON and as numbers for the page.

A comparison is a job as a recording is (`jobs.py`): asked for, polled, cancelled; one at a time, because an engine may
compile. Engines run only the kernels that came with the package, never anything a visitor sends. What is kept of one
is a safetensors file in memory: the verdict as JSON in its header, and every compared number in its tensors.
"""

from __future__ import annotations

import hashlib
import json
import logging
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter
from numpy.typing import NDArray
from safetensors.numpy import save
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .. import EngineError, Run, record
from .. import engines as every_engine
from ..kernels import registry
from ..kernels.engines import compare as engine_compare
from ..kernels.engines import hostbuild
from ..kernels.engines.plan import Plan
from ..kernels.engines.source import Source
from ..kernels.kernel import Kernel
from ..kernels.problem import ParameterError
from ..kernels.record import Estimate, what_would_fit
from ..trace.agreement import Agreement, Divergence, SlotAgreement, plain
from . import files, parameters, tables, verdicts
from .api import (
    NO_LIMITS,
    Shared,
    answer,
    error_answer,
    find_kernel,
    queue_full,
    read_json,
    refused,
    unknown_kernel,
)
from .jobs import FAILED, Job, Jobs, Progress, QueueFull, RecordingStore
from .local import REFUSAL, is_here
from .settings import Settings

router = APIRouter(prefix="/api")
logger = logging.getLogger("flashstep")
UNKNOWN = "This comparison is not kept any more; ask for it again."
BUILDS, BUILDS_BYTES = 256, 256 * 2**20  # host builds that are kept between comparisons


def comparison_jobs(settings: Settings) -> Jobs:
    """The pool of comparisons: one worker, results in memory only."""
    mine = settings.model_copy(
        update={"workers": 1, "recordings_disk": 0, "recordings_memory": settings.comparisons_memory}
    )
    return Jobs(mine, RecordingStore(mine), fault)


def fault(problem: Exception) -> tuple[str, str] | None:
    """What a comparison raised, as (field, sentence)."""
    if isinstance(problem, EngineError):
        return "engine", str(problem)
    if isinstance(problem, ParameterError):
        return problem.field, str(problem)
    if isinstance(problem, MemoryError):
        return "", "The comparison needs more memory than there is; make it smaller."
    logger.error("a comparison failed", exc_info=problem)
    return "", FAILED.replace("recording", "comparison")


@router.get("/engines")
def engines(request: Request) -> Response:
    """The engines, and for each that cannot run here the sentence that says why."""
    return JSONResponse([
        {"name": name, "idea": verdicts.ENGINES[name], "available": why is None, "missing": why}
        for name, why in engines_for(request).items()
    ])  # fmt: skip


def engines_for(request: Request) -> dict[str, str | None]:
    """Why each engine cannot run for whoever asks, or None: people at other machines get what was captured, and start nothing."""
    here = is_here(request)
    return {name: why if here or name == "recorded" else REFUSAL for name, why in every_engine().items()}


@router.post("/comparisons")
async def begin(request: Request, shared: Shared) -> Response:
    """Ask for a comparison: `{kernel, engine, fmad, …parameters}`. Polled for as a recording is."""
    sent = await read_json(request)
    kernel = find_kernel(sent.get("kernel"))
    if kernel is None:
        return refused({"kernel": unknown_kernel(sent.get("kernel"))}, sent)
    if why := engine_compare.unready(kernel):
        return refused({"kernel": why}, sent)
    engine, fmad = sent.get("engine"), sent.get("fmad")
    fused = True if fmad is None or fmad == "" else parameters.truth(fmad)
    if not isinstance(engine, str) or engine not in verdicts.ENGINES:
        return refused({"engine": f"There is no such engine; choose one of {', '.join(verdicts.ENGINES)}."}, sent)
    if fused is None:
        return refused({"fmad": "fmad should be true or false."}, sent)
    parsed = await run_in_threadpool(parameters.parse, kernel, sent, shared.settings, shared.arrays.get)
    errors = dict(parsed.errors)
    if parsed.request is not None and parsed.sizes is not None:
        errors |= await run_in_threadpool(too_large, kernel, parsed.request, parsed.sizes, shared.settings)
    if errors or parsed.request is None or parsed.sizes is None:
        return refused(errors, sent)
    missing = (await run_in_threadpool(engines_for, request))[engine]
    if missing is not None:
        return refused({"engine": missing}, sent)
    asked, fused = parsed.request, fused or engine != "gpu"
    work = partial(make, asked, engine, fused, shared.settings.compare_probes)
    name = name_of(kernel, asked, engine, fused)
    try:
        job, ticket = shared.comparisons.ask(name, parsed.sizes.steps, work)
    except QueueFull:
        return queue_full()
    await shared.comparisons.wait(job, shared.settings.patience_seconds)
    if job.state == "failed" and job.at_fault:
        return refused({job.at_fault: job.fault}, sent)
    return answer(job, {**places(job), "ticket": ticket})


def places(job: Job) -> dict[str, Any]:
    """Where a comparison's parts are found."""
    here = f"/api/comparisons/{job.id}"
    return {"result": f"{here}/result", "numbers": f"{here}/numbers"}


def too_large(kernel: Kernel, asked: parameters.Request, sizes: Estimate, settings: Settings) -> dict[str, str]:
    """A sentence by field when a comparison would take too long, with what would fit; else nothing."""
    if asked.kept == "none":
        return {"values": "A comparison needs the numbers of a run; choose values auto, all or focus, or a smaller problem."}

    def fit(size: Estimate) -> bool:
        return size.steps <= settings.compare_steps and size.value_bytes["all"] <= settings.compare_bytes

    if fit(sizes):
        return {}
    what = (
        f"{sizes.steps:,} steps are more than the {settings.compare_steps:,} that are compared here"
        if sizes.steps > settings.compare_steps
        else f"{tables.size(sizes.value_bytes['all'])} of numbers are more than the"
        f" {tables.size(settings.compare_bytes)} that are compared here"
    )
    place = "arrays" if asked.arrays else "seqlen_k"
    fitting = what_would_fit(fit, kernel.name, *asked.positional, **asked.named)
    return {place: f"{what}.{fitting} The command line has no such limit."}


def name_of(kernel: Kernel, asked: parameters.Request, engine: str, fmad: bool) -> str:
    """A comparison's id: everything that its verdict depends on, the source as it is now included."""
    parts = [asked.name(), engine, fmad, kernel.cuda_source.read_text("utf-8")]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def make(asked: parameters.Request, engine: str, fmad: bool, most: int, progress: Progress) -> bytes:
    """Record, run the kernel, compare, and pack what came of it.

    Raises ParameterError where the kernel would write more than `most` bytes of probes. They hold whole tiles where the
    recording holds the part in use, and loads besides: a tile of 1024 rows that holds one takes a thousand times as much.
    """
    named = {**asked.named, **asked.policy(), **NO_LIMITS}
    run = record(asked.kernel, *asked.positional, progress=lambda done, total: progress(0, total), **named)
    probes = 4 * Plan(run.trace, Source.read(registry.get(run.kernel).cuda_source)).probe_size
    if probes > most:
        sentence = f"The kernel would write {tables.size(probes)} of whole tiles to compare, and {tables.size(most)} are allowed"
        tile = max(("block_cols", "block_rows"), key=lambda name: asked.parameters.get(name, 0))
        raise ParameterError(tile, f"{sentence}; smaller tiles would fit.")
    waiting = partial(progress, 0, len(run.trace.steps_kind))
    plan, result, note = engine_compare.execute(run, engine, fmad, None, waiting)
    if engine == "cpu":
        forget_builds()
    agreement = engine_compare.judge(run, plan, result, engine, note, progress)
    return pack(run, agreement, result.times, fmad)


def forget_builds() -> None:
    """Keep the builds for the host within bounds. A cache that cannot be looked into keeps what it has."""
    folder = hostbuild.cache_folder()
    if folder is not None:
        with suppress(OSError):
            files.keep_newest(folder, "[0-9a-f]*", count=BUILDS, total=BUILDS_BYTES)


def pack(run: Run, agreement: Agreement, times: list[NDArray[np.uint64]], fmad: bool) -> bytes:
    """The verdict and its grounds in one safetensors file, for the page.

    `index` (n, 5) int32: step (-1: an array at the end), slot, rows, cols, where its numbers begin; `stats` (n, 4)
    float64: largest absolute, relative and ULP difference, largest share of what is allowed; `wrong` (n, 3) int32:
    non-finite disagreements, and row and column of the first element that differs or -1. `got`, `want` float32 and
    `allowed` float64: the numbers. `times.k` (blocks, 3) float64: start and end in nanoseconds after the first start,
    and SM, of the k-th launch that has blocks. The header's `verdict` is JSON.
    """
    entries = list(_entries(agreement))
    slots = list(dict.fromkeys(slot.slot for _, slot in entries))
    sizes = [slot.got.size for _, slot in entries]
    offsets = np.cumsum([0, *sizes])[:-1]
    tensors: dict[str, NDArray[Any]] = {
        "index": np.array(
            [
                (step, slots.index(slot.slot), *slot.got.shape, at)
                for (step, slot), at in zip(entries, offsets, strict=True)
            ],
            np.int32,
        ).reshape(-1, 5),
        "stats": np.array(
            [(slot.max_abs, slot.max_rel, slot.max_ulp, slot.used) for _, slot in entries], np.float64
        ).reshape(-1, 4),
        "wrong": np.array(
            [
                (slot.nonfinite, *((slot.first.row, slot.first.col) if slot.first else (-1, -1)))
                for _, slot in entries
            ],
            np.int32,
        ).reshape(-1, 3),
        "got": _joined([slot.got for _, slot in entries], np.float32),
        "want": _joined([slot.want for _, slot in entries], np.float32),
        "allowed": _joined([slot.allowed for _, slot in entries], np.float64),
    }
    begun = min((int(clock[:, 0].min()) for clock in times if len(clock)), default=0)
    for number, clock in enumerate(times):
        relative = clock[:, :2].astype(np.int64) - begun
        tensors[f"times.{number}"] = np.column_stack([relative, clock[:, 2]]).astype(np.float64)
    verdict = {
        "kernel": run.kernel,
        "title": run.trace.meta.title,
        "engine": agreement.engine,
        "fmad": fmad,
        "ok": agreement.ok,
        "verdict": verdicts.sentence(agreement),
        "worst": plain(agreement.worst),
        "percent": verdicts.percent(agreement.worst),
        "first_divergence": _divergence(agreement.first_divergence),
        "device": agreement.device,
        "place": verdicts.place(agreement),
        "note": " ".join([*(f"{found}." for found in verdicts.said(agreement)[1:]), agreement.note]).strip(),
        "last_step": len(run.trace.steps) - 1,
        "compared_steps": len(agreement.steps),
        "compared_numbers": int(sum(sizes)),
        "slots": slots,
        "launches": [n for n, launch in enumerate(run.trace.meta.launches) if launch.blocks],
        "steps": [[step.step, step.ok, plain(step.worst)] for step in agreement.steps],
        "worst_by_slot": [
            {name: plain(value) for name, value in asdict(worst).items()} for worst in verdicts.worst_by_slot(agreement)
        ],
    }
    text = json.dumps(verdict, allow_nan=False)
    return save({name: np.ascontiguousarray(array) for name, array in tensors.items()}, {"verdict": text})


def _entries(agreement: Agreement) -> Iterator[tuple[int, SlotAgreement]]:
    """Every compared slot with its step, then the arrays at the end under -1."""
    for step in agreement.steps:
        for slot in step.slots:
            yield step.step, slot
    for output in agreement.outputs:
        yield -1, output


def _joined(arrays: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *(array.ravel() for array in arrays)]).astype(dtype, copy=False)


def _divergence(found: Divergence | None) -> dict[str, Any] | None:
    if found is None:
        return None
    element = {name: plain(value) for name, value in asdict(found.element).items()}
    return {"step": found.step, "label": found.label, "path": list(found.path), "slot": found.slot, **element}


def verdict_of(data: bytes) -> str:
    """The verdict, as JSON text, of what `pack` made."""
    (length,) = struct.unpack("<Q", data[:8])
    return str(json.loads(data[8 : 8 + length])["__metadata__"]["verdict"])


@router.get("/comparisons/{name}")
def look(name: str, shared: Shared) -> Response:
    """How far a comparison is."""
    job = shared.comparisons.find(name)
    return error_answer(404, UNKNOWN) if job is None else answer(job, places(job))


@router.delete("/comparisons/{name}")
async def leave(name: str, shared: Shared, ticket: str | None = None) -> Response:
    """Wait no longer for a comparison; it stops when nobody else waits for it."""
    job = shared.comparisons.leave(name, ticket) or shared.comparisons.find(name)
    return error_answer(404, UNKNOWN) if job is None else answer(job, places(job))


@router.get("/comparisons/{name}/result")
def result(name: str, shared: Shared) -> Response:
    """The verdict: where it agrees, how much of what rounding allows was used, where it first differs."""
    kept = shared.comparisons.store.get(name)
    if not isinstance(kept, bytes):
        return error_answer(404, UNKNOWN)
    return Response(verdict_of(kept), media_type="application/json")


@router.get("/comparisons/{name}/numbers")
def numbers(name: str, shared: Shared) -> Response:
    """Every compared number and the blocks' times, as `pack` describes."""
    kept = shared.comparisons.store.get(name)
    if not isinstance(kept, bytes):
        return error_answer(404, UNKNOWN)
    return Response(kept, media_type="application/octet-stream")


