"""The JSON the page asks for: recordings, the person's arrays, sources. Every error is `{"error": a sentence}`."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.responses import JSONResponse, Response

from .. import record
from ..kernels import registry
from ..kernels.kernel import Kernel
from ..kernels.problem import ParameterError
from ..kernels.record import Estimate
from ..trace.layout import TraceError
from . import parameters
from .arrayfiles import read_file
from .arrays import GONE, ArrayStore
from .arraytext import read_text
from .jobs import Job, Jobs, Progress, QueueFull
from .local import ONLY_HERE
from .ownarrays import Array, Arrays, ArraysError, settle
from .settings import Settings
from .source import sources

router = APIRouter(prefix="/api")
logger = logging.getLogger("flashstep")
MAX_FILES = 8
MAX_DIGITS = 400  # Python refuses to read thousands of them
# Up to here a recording takes a fraction of a second, and its own worker.
SMALL_EVENTS = 20_000
SMALL_BYTES = 8 * 2**20
SMALL_FLOPS = 500_000_000
UNKNOWN_RECORDING = "This recording is not kept any more; ask for it again."
NO_LIMITS: dict[str, Any] = {"budget_bytes": 2**62, "max_steps": 2**62, "max_hbm_bytes": 2**62}  # `parse` set them
IMMUTABLE = "private, max-age=31536000, immutable"


class Services:
    """What the handlers share: the settings, the stores and the pools."""

    def __init__(self, settings: Settings, arrays: ArrayStore, jobs: Jobs, comparisons: Jobs) -> None:
        self.settings = settings
        self.arrays = arrays
        self.jobs = jobs
        self.comparisons = comparisons


def services(request: Request) -> Services:
    """The services of the app that answers `request`."""
    found: Services = request.app.state.services
    return found


Shared = Annotated[Services, Depends(services)]


def fault(error: Exception) -> tuple[str, str] | None:
    """What a recording raised, as (field, sentence)."""
    if isinstance(error, ParameterError):
        return error.field, str(error)
    if isinstance(error, MemoryError):
        return "", "The recording needs more memory than there is; make it smaller."
    return None


def find_kernel(name: object) -> Kernel | None:
    """The kernel of this name, or None."""
    return registry.KERNELS.get(name) if isinstance(name, str) else None


def unknown_kernel(name: object) -> str:
    """The sentence for a kernel that there is not."""
    shown = str(name)[:40]
    return f"There is no kernel called “{shown}”; the kernels are {', '.join(registry.KERNELS)}."


@router.post("/recordings")
async def begin(request: Request, shared: Shared) -> Response:
    """Ask for a recording. A small one is made before the answer; a long one is polled for, with the ticket."""
    sent = await read_json(request)
    kernel = find_kernel(sent.get("kernel"))
    if kernel is None:
        return refused({"kernel": unknown_kernel(sent.get("kernel"))}, sent)
    parsed = await run_in_threadpool(parameters.parse, kernel, sent, shared.settings, shared.arrays.get)
    asked, sizes = parsed.request, parsed.sizes
    if asked is None or sizes is None:
        return refused(parsed.errors, sent)
    try:
        job, ticket = ask(shared, asked, sizes)
    except QueueFull:
        return queue_full()
    await shared.jobs.wait(job, shared.settings.patience_seconds)
    if job.state == "failed" and job.at_fault:
        return refused({job.at_fault: job.fault}, sent)
    estimate = {"steps": sizes.steps, "events": sizes.events, "value_bytes": sizes.value_bytes}
    return answer(job, {**place(job), "ticket": ticket, "estimate": estimate})


def ask(shared: Services, asked: parameters.Request, sizes: Estimate) -> tuple[Job, str]:
    """Ask for a recording: its job, and the ticket to leave it with. Raises QueueFull."""
    small = (
        sizes.events <= SMALL_EVENTS
        and sizes.value_bytes[asked.kept] <= SMALL_BYTES
        and sizes.hbm_bytes <= SMALL_BYTES
        and sizes.flops <= SMALL_FLOPS
    )
    return shared.jobs.ask(asked.name(), sizes.steps, partial(make, asked), small=small)


def queue_full() -> Response:
    """The answer while too much is asked at once: ask again."""
    sentence = "Other recordings are being made and the queue is full; try again in a few seconds."
    return JSONResponse({"error": sentence}, 503, {"Retry-After": "3"})


def place(job: Job) -> dict[str, str]:
    """Where a recording's bytes are found."""
    return {"trace": f"/api/recordings/{job.id}/trace"}


def make(asked: parameters.Request, progress: Progress) -> bytes:
    """Record, and return the trace file's bytes. The limits were checked when it was asked for."""
    named = {**asked.named, **asked.policy(), **NO_LIMITS}
    return record(asked.kernel, *asked.positional, progress=progress, **named).to_bytes()


@router.get("/recordings/{name}")
def look(name: str, shared: Shared) -> Response:
    """How far a recording is."""
    job = shared.jobs.find(name)
    return error_answer(404, UNKNOWN_RECORDING) if job is None else answer(job, place(job))


@router.delete("/recordings/{name}")
async def leave(name: str, shared: Shared, ticket: str | None = None) -> Response:
    """Wait no longer for a recording; it stops when nobody else waits for it."""
    job = shared.jobs.leave(name, ticket)
    if job is None:
        job = shared.jobs.find(name)
    return error_answer(404, UNKNOWN_RECORDING) if job is None else answer(job, place(job))


@router.get("/recordings/{name}/trace")
def trace(name: str, request: Request, shared: Shared) -> Response:
    """The trace file. It never changes under this address."""
    etag = f'"{name}"'
    headers = {"ETag": etag, "Cache-Control": IMMUTABLE}
    if shared.jobs.store.has(name) and etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    kept = shared.jobs.store.get(name)
    if kept is None:
        return error_answer(404, UNKNOWN_RECORDING)
    return Response(kept, headers=headers, media_type="application/octet-stream")


def answer(job: Job, more: Mapping[str, Any]) -> Response:
    """How far a job is, and why it failed if it did."""
    body: dict[str, Any] = {"id": job.id, "state": job.state, "done": job.done, "total": job.total, **more}
    if job.fault:
        body["error"] = job.fault
        if job.at_fault:
            body["errors"] = {job.at_fault: job.fault}
    return JSONResponse(body)


def refused(errors: dict[str, str], sent: dict[str, Any]) -> Response:
    """What was asked cannot be: a sentence by field, and what was sent."""
    values = {
        key: value
        for key, value in sent.items()
        if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    }
    return JSONResponse({"error": next(iter(errors.values())), "errors": errors, "values": values}, 422)


def error_answer(status: int, sentence: str) -> Response:
    """A plain refusal."""
    return JSONResponse({"error": sentence}, status)


async def read_json(request: Request) -> dict[str, Any]:
    """The body, a JSON object. Raises HTTPException 400."""
    refusal = HTTPException(400, 'The body should be a JSON object, such as {"kernel": "flash-attention-2"}.')
    try:
        sent = json.loads(await request.body(), parse_int=_parse_int)
        json.dumps(sent, ensure_ascii=False).encode()  # halves of characters could not be sent back
    except (ValueError, RecursionError):
        raise refusal from None
    if not isinstance(sent, dict):
        raise refusal
    return sent


def _parse_int(digits: str) -> int | str:
    """A whole number; one that no field could hold stays text, and is refused beside its field."""
    return int(digits) if len(digits) <= MAX_DIGITS else digits


@router.post("/arrays", dependencies=ONLY_HERE)
async def keep_arrays(request: Request, shared: Shared) -> Response:
    """Keep a person's arrays: multipart files (.npy, .npz, .safetensors, .csv) and a `text` field, or a plain text."""
    limit = shared.settings.upload_bytes
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    files: list[tuple[str, bytes]] = []
    if kind == "multipart/form-data":
        try:
            async with request.form(max_files=MAX_FILES, max_fields=4, max_part_size=limit) as form:
                for key, part in form.multi_items():
                    if isinstance(part, UploadFile):
                        if part.filename:
                            files.append((part.filename, await part.read()))
                    elif key == "text" and part.strip():
                        files.append(("pasted.txt", part.encode()))
        except (MultiPartException, HTTPException, UnicodeError) as error:
            if isinstance(error, HTTPException) and error.status_code == 413:
                raise
            return error_answer(
                400, f"Send at most {MAX_FILES} files, as a form does with enctype multipart/form-data."
            )
    elif kind == "text/plain":
        files.append(("pasted.txt", await request.body()))
    else:
        return error_answer(415, "Send files as multipart/form-data, or numbers as text/plain.")
    try:
        settled = await run_in_threadpool(_read, files, limit)
        name = await run_in_threadpool(shared.arrays.put, settled)
    except ArraysError as error:
        return JSONResponse({"error": str(error), "errors": {"arrays": str(error)}}, 422)
    except (OSError, TraceError) as error:
        logger.warning("arrays cannot be kept in %s: %s", shared.settings.data_directory, error)
        return error_answer(507, "The server cannot write to its data folder; its log says why.")
    fits = await run_in_threadpool(_fits, name, settled, shared.settings)
    return JSONResponse({"arrays": name, "shapes": settled.shapes, "notes": settled.notes, "fits": fits})


def _read(files: list[tuple[str, bytes]], limit: int) -> Arrays:
    if not files:
        raise ArraysError("Choose a file or paste numbers.")
    found: dict[str, Array] = {}
    left = limit
    for file, data in files:
        arrays = read_text(_decode(data)) if file == "pasted.txt" else read_file(file, data, left)
        left -= sum(array.nbytes for array in arrays.values())
        for name, array in arrays.items():
            if name in found:
                raise ArraysError(f"{name} comes twice; send it once.")
            found[name] = array
    return settle(found, limit)


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ArraysError("The text is not UTF-8; paste plain numbers.") from None


def _fits(name: str, kept: Arrays, settings: Settings) -> dict[str, bool | str]:
    """For each kernel, whether these arrays can be recorded with its defaults, or the sentence that says why not."""
    fits: dict[str, bool | str] = {}
    for kernel in registry.KERNELS.values():
        parsed = parameters.parse(kernel, {"arrays": name}, settings, lambda _: kept.arrays)
        fits[kernel.name] = next(iter(parsed.errors.values())) if parsed.errors else True
    return fits


@router.get("/arrays/{name}")
def look_at_arrays(name: str, shared: Shared) -> Response:
    """The shapes of kept arrays, or a plain word that they are gone."""
    found = shared.arrays.get(name)
    if found is None:
        return error_answer(404, GONE)
    kept = Arrays(found)
    return JSONResponse({"arrays": name, "shapes": kept.shapes, "fits": _fits(name, kept, shared.settings)})


@router.get("/source/{kernel}")
def source(kernel: str, request: Request) -> Response:
    """A kernel's highlighted sources."""
    found = find_kernel(kernel)
    if found is None:
        return error_answer(404, unknown_kernel(kernel))
    body = json.dumps(sources(found.source)).encode()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"ETag": etag})
    return Response(body, headers={"ETag": etag}, media_type="application/json")
