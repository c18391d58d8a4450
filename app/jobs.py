"""Recordings as jobs: a bounded pool, a bounded queue, progress, cancelling, and a bounded store of what was recorded.

A recording is named by the hash of what was asked, so two people who ask for the same get one recording, and asking
again costs nothing. Everything in the store can be made again; nothing is ever half-written in it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from ..trace.file import write_whole
from ..trace.layout import TraceError
from . import files
from .settings import Settings

State = Literal["queued", "running", "done", "failed", "cancelled"]
Progress = Callable[[int, int], None]
Work = Callable[[Progress], bytes]
Fault = Callable[[Exception], tuple[str, str] | None]

FAILED = "The recording failed; the server's log says why."
SMALL_WORKERS = 1
KEPT_FILES = 2000  # looked through at each write
CLOSE_SECONDS = 1.0  # a step that takes longer is left behind
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

    def has(self, name: str) -> bool:
        """Whether the trace is kept at this moment."""
        with self._lock:
            if name in self._memory:
                return True
        return name.isalnum() and self._path(name).is_file()

    def get(self, name: str) -> bytes | None:
        """The trace; None when it is not kept (any more). Read whole, because a file may be removed at any moment."""
        if not name.isalnum():  # it comes from an address, and becomes a file's name
            return None
        with self._lock:
            data = self._memory.get(name)
            if data is not None:
                self._memory.move_to_end(name)
                return data
        path = self._path(name)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        files.touch(path)
        self.remember(name, data)
        return data

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

    def keep(self, name: str) -> None:
        """Write a remembered trace to disk, whole. A disk that is slow, full or read-only costs only that it is
        recorded again: what has left the memory meanwhile is not written, so that nothing piles up before the disk.
        """
        limit = self._settings.recordings_disk
        with self._lock:
            data = self._memory.get(name)
        if data is None or len(data) > limit:
            return
        try:
            files.private_directory(self._settings.data_directory)
            files.private_directory(self._directory)
            files.remove_abandoned(self._directory)
            write_whole(self._path(name), data, files.PRIVATE)
            files.keep_newest(self._directory, files.OWN, count=KEPT_FILES, total=limit)
        except (OSError, TraceError) as error:
            logger.warning("recording %s is kept in memory only: %s", name[:12], error)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.safetensors"


class Lane:
    """A queue, and at most so many threads that take from it. They are daemons and end when nothing waits, so that
    neither an idle server nor one that is stopped waits for them."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], None]) -> None:
        """Queue `work`. What it raises is logged, and ends nothing else."""
        with self._lock:
            self._waiting.append(work)
            if len(self._threads) < self._most:
                thread = threading.Thread(target=self._take, name=self._name, daemon=True)
                self._threads.add(thread)
                thread.start()

    def withdraw(self, work: Callable[[], None]) -> None:
        """Forget `work`, with the arrays that it holds, if it has not begun."""
        with self._lock, suppress(ValueError):
            self._waiting.remove(work)

    def finish(self, until: float) -> None:
        """Wait for what was submitted, until `time.monotonic()` is `until` at most."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _take(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads.discard(threading.current_thread())
                    return
                work = self._waiting.popleft()
            try:
                work()
            except Exception:
                logger.exception("%s failed", self._name)


class Jobs:
    """The pool. Small recordings have a worker of their own, so that a long one never delays a first figure."""

    def __init__(self, settings: Settings, store: RecordingStore, fault: Fault = lambda error: None) -> None:
        """`fault` turns what a recording raised into (field, sentence), or None for an unforeseen failure."""
        self.store = store
        self._settings = settings
        self._fault = fault
        self._jobs: OrderedDict[str, Job] = OrderedDict()  # the newest of each name
        # All that wait or run, also what is stopping and was asked for again; and how each leaves its queue.
        self._open: dict[Job, Callable[[], None]] = {}
        self._lock = threading.RLock()
        self._small = Lane(SMALL_WORKERS, "flashstep-small")
        self._large = Lane(settings.workers, "flashstep-record")
        self._keeper = Lane(1, "flashstep-keep")  # the disk delays no recording

    def ask(self, name: str, total: int, work: Work, *, small: bool = False) -> tuple[Job, str]:
        """Ask for the recording `name`; returns its job, shared with whoever else asked, and a ticket.

        `work(progress)` makes the trace's bytes, calling `progress(done, total)` now and then. The ticket stands for
        this asker's interest: see `leave`. Raises `QueueFull`.
        """
        with self._lock:
            ticket = secrets.token_urlsafe(16)
            job = self._jobs.get(name)
            if job is not None and job.open and not job.stop.is_set():
                job.tickets.add(ticket)
                return job, ticket
            if self.store.has(name):
                job = Job(name, total, "done", total)
                job.finished.set_result(None)
                return job, ticket
            if len(self._open) >= self._settings.workers + self._settings.queue:
                raise QueueFull
            job = Job(name, total, tickets={ticket})
            self._jobs[name] = job
            self._jobs.move_to_end(name)
            lane, run = self._small if small else self._large, partial(self._run, job, work)
            self._open[job] = partial(lane.withdraw, run)
            self._forget()
            lane.submit(run)
        return job, ticket

    def find(self, name: str) -> Job | None:
        """The job of a recording that is waiting, running, done or lately failed; None if it is not known."""
        with self._lock:
            job = self._jobs.get(name)
        if (job is None or job.state == "done") and not self.store.has(name):
            return None
        if job is None:
            job = Job(name, 0, "done")
            job.finished.set_result(None)
        return job

    def leave(self, name: str, ticket: str | None) -> Job | None:
        """Give a ticket back. The recording is cancelled when nobody waits for it any more."""
        with self._lock:
            job = self._jobs.get(name)
            if job is None or not job.open or ticket not in job.tickets:
                return job
            job.tickets.discard(ticket)
            if not job.tickets:
                job.stop.set()
                if job.state == "queued":  # it will not begin; a running one stops at its next report
                    self._end(job, "cancelled")
            return job

    async def wait(self, job: Job, seconds: float) -> None:
        """Wait until `job` has ended, at most `seconds`."""
        await asyncio.wait([asyncio.wrap_future(job.finished)], timeout=seconds)

    def close(self) -> None:
        """Stop every recording. What is finished is still written, if that takes no longer than `CLOSE_SECONDS`."""
        with self._lock:
            for job in list(self._open):
                job.stop.set()
                self._end(job, "cancelled")
        until = time.monotonic() + CLOSE_SECONDS
        for lane in (self._small, self._large, self._keeper):
            lane.finish(until)

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
            self._keeper.submit(partial(self.store.keep, job.id))

    def _end(self, job: Job, state: State) -> None:
        with self._lock:
            job.state = state
            self._open.pop(job, lambda: None)()
            if not job.finished.done():
                job.finished.set_result(None)

    def _forget(self) -> None:
        """Keep the last few ended jobs, so that a page that polls still learns how its job ended."""
        ended = [name for name, job in self._jobs.items() if not job.open]
        for name in ended[:-256]:
            del self._jobs[name]
