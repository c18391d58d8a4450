"""Recordings as jobs: a bounded pool, a bounded queue, progress, cancelling, and a bounded store of what was recorded.

A recording is named by the hash of what was asked, so two people who ask for the same get one recording, and asking
again costs nothing. Everything in the store can be made again; nothing is ever half-written in it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from . import files
from .settings import Settings

State = Literal["queued", "running", "done", "failed", "cancelled"]
Progress = Callable[[int, int], None]
Work = Callable[[Progress], bytes]
Fault = Callable[[Exception], tuple[str, str] | None]

FAILED = "The recording failed; the server's log says why."
SMALL_WORKERS = 1
KEPT_FILES = 2000  # looked through at each write
logger = logging.getLogger("flashstep")


class QueueFull(Exception):
    """Too many recordings are waiting; try again in a few seconds."""


class Cancelled(Exception):
    """Raised inside a recording that nobody waits for any more."""


@dataclass(eq=False)
class Job:
    """One recording that was asked for. `done` of `total` steps are recorded."""

    id: str
    total: int
    state: State = "queued"
    done: int = 0
    fault: str = ""  # why it failed, in a sentence
    at_fault: str = ""  # the field it belongs to, when the recording itself found one
    tickets: set[str] = field(default_factory=set)  # who waits for it
    stop: threading.Event = field(default_factory=threading.Event)
    finished: Future[None] = field(default_factory=Future)

    @property
    def open(self) -> bool:
        """Whether it still waits or runs."""
        return self.state in ("queued", "running")


class RecordingStore:
    """Recorded traces by id: the most recently used in memory, more of them on disk, both bounded in bytes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._directory = settings.data_directory / "recordings"
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str) -> bytes | Path | None:
        """The trace as bytes, or as the file that holds it; None when it is not kept (any more)."""
        if not name.isalnum():  # it comes from an address, and becomes a file's name
            return None
        with self._lock:
            data = self._memory.get(name)
            if data is not None:
                self._memory.move_to_end(name)
                return data
        path = self._path(name)
        if not path.is_file():
            return None
        files.touch(path)
        return path

    def remember(self, name: str, data: bytes) -> None:
        """Keep a trace in memory, dropping the longest unused ones. The newest stays whatever its size."""
        with self._lock:
            self._memory[name] = data
            self._memory.move_to_end(name)
            while (
                len(self._memory) > 1
                and sum(map(len, self._memory.values())) > self._settings.recordings_memory
            ):
                self._memory.popitem(last=False)

    def keep(self, name: str, data: bytes) -> None:
        """Write a trace to disk, whole. A disk that is full or read-only costs only that it is recorded again."""
        limit = self._settings.recordings_disk
        if len(data) > limit:
            return
        try:
            files.private_directory(self._settings.data_directory)
            files.private_directory(self._directory)
            files.remove_abandoned(self._directory)
            files.write_whole(self._path(name), data)
            files.keep_newest(self._directory, "*.safetensors", count=KEPT_FILES, total=limit)
        except OSError as error:
            logger.warning("recording %s is kept in memory only: %s", name[:12], error)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.safetensors"


class Jobs:
    """The pool. Small recordings have a worker of their own, so that a long one never delays a first figure."""

    def __init__(self, settings: Settings, store: RecordingStore, fault: Fault = lambda error: None) -> None:
        """`fault` turns what a recording raised into (field, sentence), or None for an unforeseen failure."""
        self.store = store
        self._settings = settings
        self._fault = fault
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()
        self._tickets = itertools.count(1)
        self._small = ThreadPoolExecutor(SMALL_WORKERS, "flashstep-small")
        self._large = ThreadPoolExecutor(settings.workers, "flashstep-record")
        self._keeper = ThreadPoolExecutor(1, "flashstep-keep")  # the disk delays no recording

    def ask(self, name: str, total: int, work: Work, *, small: bool = False) -> tuple[Job, str]:
        """Ask for the recording `name`; returns its job, shared with whoever else asked, and a ticket.

        `work(progress)` makes the trace's bytes, calling `progress(done, total)` now and then. The ticket stands for
        this asker's interest: see `leave`. Raises `QueueFull`.
        """
        with self._lock:
            ticket = str(next(self._tickets))
            job = self._jobs.get(name)
            if job is not None and job.open and not job.stop.is_set():
                job.tickets.add(ticket)
                return job, ticket
            if self.store.get(name) is not None:
                job = Job(name, total, "done", total)
                job.finished.set_result(None)
                return job, ticket
            waiting = sum(other.open for other in self._jobs.values())
            if waiting >= self._settings.workers + self._settings.queue:
                raise QueueFull
            job = Job(name, total, tickets={ticket})
            self._jobs[name] = job
            self._jobs.move_to_end(name)
            self._forget()
            (self._small if small else self._large).submit(self._run, job, work)
        return job, ticket

    def find(self, name: str) -> Job | None:
        """The job of a recording that is waiting, running, done or lately failed; None if it is not known."""
        with self._lock:
            job = self._jobs.get(name)
        if (job is None or job.state == "done") and self.store.get(name) is None:
            return None
        if job is None:
            job = Job(name, 0, "done")
            job.finished.set_result(None)
        return job

    def leave(self, name: str, ticket: str | None) -> Job | None:
        """Give a ticket back. The recording is cancelled when nobody waits for it any more (or without a ticket)."""
        with self._lock:
            job = self._jobs.get(name)
            if job is None or not job.open:
                return job
            if ticket is None:
                job.tickets.clear()
            job.tickets.discard(ticket or "")
            if not job.tickets:
                job.stop.set()
                if job.state == "queued":  # it will not begin; a running one stops at its next report
                    self._end(job, "cancelled")
            return job

    async def wait(self, job: Job, seconds: float) -> None:
        """Wait until `job` has ended, at most `seconds`."""
        await asyncio.wait([asyncio.wrap_future(job.finished)], timeout=seconds)

    def close(self) -> None:
        """Stop every recording and the pool; what is finished is still written."""
        with self._lock:
            for job in self._jobs.values():
                job.stop.set()
        self._small.shutdown(cancel_futures=True)
        self._large.shutdown(cancel_futures=True)
        self._keeper.shutdown()

    def _run(self, job: Job, work: Work) -> None:
        def progress(done: int, total: int) -> None:
            job.done, job.total = done, total
            if job.stop.is_set():
                raise Cancelled

        with self._lock:
            if not job.open:
                return
            job.state = "running"
        try:
            data = work(progress)
            progress(job.total, job.total)
        except Cancelled:
            self._end(job, "cancelled")
        except Exception as error:
            found = self._fault(error)
            if found is None:
                logger.exception("recording %s failed", job.id[:12])
            job.at_fault, job.fault = found or ("", FAILED)
            self._end(job, "failed")
        else:
            self.store.remember(job.id, data)
            self._end(job, "done")
            self._keeper.submit(self.store.keep, job.id, data)

    def _end(self, job: Job, state: State) -> None:
        job.state = state
        if not job.finished.done():
            job.finished.set_result(None)

    def _forget(self) -> None:
        """Keep the last few ended jobs, so that a page that polls still learns how its job ended."""
        ended = [name for name, job in self._jobs.items() if not job.open]
        for name in ended[:-256]:
            del self._jobs[name]
