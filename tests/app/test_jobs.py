"""Recordings as jobs: shared, bounded, cancelled, and never half there."""

from __future__ import annotations

import asyncio
import gc
import os
import stat
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from flashstep.app import files
from flashstep.app.jobs import FAILED, Job, Jobs, Progress, QueueFull, RecordingStore
from flashstep.app.settings import Settings
from flashstep.kernels.problem import ParameterError

Make = Callable[..., Jobs]
WRITE = "flashstep.app.jobs.write_whole"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Pools that are closed in the end."""
    made: list[Jobs] = []

    def maker(**settings: Any) -> Jobs:
        chosen = Settings(**{"data_directory": tmp_path, **settings})
        made.append(Jobs(chosen, RecordingStore(chosen), fault))
        return made[-1]

    yield maker
    for jobs in made:
        jobs.close()


def fault(error: Exception) -> tuple[str, str] | None:
    return (error.field, str(error)) if isinstance(error, ParameterError) else None


class Work:
    """A recording that waits for the test before each of its three steps."""

    def __init__(self, data: bytes = b"trace") -> None:
        self.data = data
        self.begun = threading.Event()
        self.go = threading.Event()
        self.runs = 0

    def __call__(self, progress: Progress) -> bytes:
        self.runs += 1
        self.begun.set()
        for done in range(3):
            progress(done, 3)
            assert self.go.wait(10)
        return self.data


def ended(job: Job) -> str:
    job.finished.result(10)
    return job.state


def test_a_recording_runs_and_is_kept(make: Make) -> None:
    jobs, work = make(), Work()
    job, _ = jobs.ask("a", 3, work)
    assert work.begun.wait(10)
    assert (job.state, job.done, job.total) == ("running", 0, 3)
    work.go.set()
    assert ended(job) == "done"
    assert job.done == 3
    assert jobs.store.get("a") == b"trace"


def test_two_who_ask_for_the_same_get_one_recording(make: Make) -> None:
    jobs, work = make(), Work()
    first, one = jobs.ask("a", 3, work)
    second, two = jobs.ask("a", 3, work)
    assert first is second
    assert one != two
    work.go.set()
    assert ended(first) == "done"
    third, _ = jobs.ask("a", 3, work)
    assert third.state == "done"
    assert work.runs == 1


def test_a_cancelled_recording_stops_and_leaves_nothing(make: Make, tmp_path: Path) -> None:
    jobs, work = make(), Work()
    job, ticket = jobs.ask("a", 3, work)
    assert work.begun.wait(10)
    jobs.leave("a", ticket)
    work.go.set()
    assert ended(job) == "cancelled"
    assert jobs.store.get("a") is None
    assert list(tmp_path.rglob("*.*")) == []
    again, _ = jobs.ask("a", 3, work)
    assert ended(again) == "done"


def test_one_who_leaves_takes_nothing_from_the_other(make: Make) -> None:
    jobs, work = make(), Work()
    job, one = jobs.ask("a", 3, work)
    _, two = jobs.ask("a", 3, work)
    jobs.leave("a", one)
    jobs.leave("a", one)
    jobs.leave("a", "no such ticket")
    assert not job.stop.is_set()
    jobs.leave("a", two)
    assert job.stop.is_set()
    work.go.set()
    assert ended(job) == "cancelled"


@pytest.mark.parametrize("ticket", [None, "", "1", "2"])
def test_nobody_leaves_for_another(make: Make, ticket: str | None) -> None:
    jobs, work = make(), Work()
    job, mine = jobs.ask("a", 3, work)
    assert len(mine) >= 20  # not to be guessed
    jobs.leave("a", ticket)
    assert not job.stop.is_set()
    work.go.set()
    assert ended(job) == "done"


def test_whoever_asks_again_while_it_is_stopping_gets_a_new_one(make: Make) -> None:
    jobs, work = make(), Work()
    old, ticket = jobs.ask("a", 3, work)
    assert work.begun.wait(10)
    jobs.leave("a", ticket)
    new, _ = jobs.ask("a", 3, work)
    work.go.set()
    assert new is not old
    assert (ended(old), ended(new)) == ("cancelled", "done")


def test_the_queue_is_bounded_and_what_waits_can_be_cancelled(make: Make) -> None:
    jobs, work = make(workers=1, queue=2), Work()
    made = [jobs.ask(name, 3, work) for name in "abc"]
    assert work.begun.wait(10)
    assert [job.state for job, _ in made] == ["running", "queued", "queued"]
    with pytest.raises(QueueFull):
        jobs.ask("d", 3, work)
    assert jobs.ask("b", 3, work)[0] is made[1][0]  # it is under way already, so it takes no room
    jobs.leave("c", made[2][1])
    assert ended(made[2][0]) == "cancelled"
    last, _ = jobs.ask("d", 3, work)
    work.go.set()
    assert ended(last) == "done"
    assert work.runs == 3


def test_what_is_still_stopping_takes_a_place_until_it_has_stopped(make: Make) -> None:
    jobs, work = make(workers=1, queue=1), Work()
    old, ticket = jobs.ask("a", 3, work)
    assert work.begun.wait(10)
    jobs.leave("a", ticket)
    new, _ = jobs.ask("a", 3, work)  # runs when the old one has stopped
    with pytest.raises(QueueFull):
        jobs.ask("b", 3, work)
    work.go.set()
    assert (ended(old), ended(new)) == ("cancelled", "done")
    last, _ = jobs.ask("b", 3, work)
    assert ended(last) == "done"


def test_a_recording_that_leaves_the_queue_is_forgotten_with_its_arrays(make: Make) -> None:
    jobs, long = make(workers=1), Work()
    jobs.ask("long", 3, long)
    assert long.begun.wait(10)
    waiting = Work(bytes(100))
    held = weakref.ref(waiting)
    job, ticket = jobs.ask("a", 3, waiting)
    jobs.leave("a", ticket)
    assert ended(job) == "cancelled"
    del waiting
    gc.collect()
    assert held() is None
    long.go.set()


def test_a_slow_disk_piles_nothing_up(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = make(recordings_memory=250)
    begun, slow = threading.Event(), threading.Event()
    written: list[str] = []

    def write(path: Path, data: bytes, mode: int) -> None:
        written.append(path.stem)
        begun.set()
        assert slow.wait(10)

    monkeypatch.setattr(WRITE, write)
    for name in "abcde":
        work = Work(bytes(100))
        work.go.set()
        assert ended(jobs.ask(name, 3, work)[0]) == "done"
        assert begun.wait(10)  # the disk is busy with the first before the second is there
    slow.set()
    jobs.close()
    assert written[0] == "a"
    assert set(written[1:]) <= {"d", "e"}  # the rest had left the memory, and nothing held them for the disk


def test_a_small_recording_does_not_wait_for_long_ones(make: Make) -> None:
    jobs, long, short = make(workers=1), Work(), Work()
    jobs.ask("long", 3, long)
    short.go.set()
    job, _ = jobs.ask("short", 3, short, small=True)
    assert ended(job) == "done"
    long.go.set()


def test_a_fault_belongs_to_its_field_and_a_failure_tells_no_secrets(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = make()

    def faulty(progress: Progress) -> bytes:
        raise ParameterError("inputs", "Leave the sizes as they are.")

    def broken(progress: Progress) -> bytes:
        raise RuntimeError("a secret")

    job, _ = jobs.ask("a", 3, faulty)
    assert ended(job) == "failed"
    assert (job.at_fault, job.fault) == ("inputs", "Leave the sizes as they are.")
    job, _ = jobs.ask("b", 3, broken)
    assert ended(job) == "failed"
    assert job.fault == FAILED
    assert "a secret" in caplog.text
    assert jobs.find("b") is job


def test_waiting_ends_with_the_patience_or_with_the_job(make: Make) -> None:
    jobs, work = make(), Work()

    async def waits() -> tuple[str, str]:
        job, _ = jobs.ask("a", 3, work)
        await jobs.wait(job, 0.05)
        before = job.state
        work.go.set()
        await jobs.wait(job, 10)
        return before, job.state

    # In a thread of its own: in a process that has driven a browser, this one's event loop runs already.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: asyncio.run(waits())).result() == ("running", "done")


def test_closing_stops_what_runs(make: Make) -> None:
    jobs = make()

    def endless(progress: Progress) -> bytes:
        while True:
            progress(1, 2)
            time.sleep(0.001)

    job, _ = jobs.ask("a", 3, endless)
    jobs.close()
    assert ended(job) == "cancelled"


def test_closing_does_not_wait_for_a_long_step(make: Make) -> None:
    jobs, work = make(workers=1), Work()
    running, waiting = jobs.ask("a", 3, work)[0], jobs.ask("b", 3, work)[0]
    assert work.begun.wait(10)
    began = time.monotonic()
    jobs.close()
    assert time.monotonic() - began < 2
    assert (ended(running), ended(waiting)) == ("cancelled", "cancelled")
    work.go.set()
    assert work.runs == 1


LONG_STEP = """
import threading, time
from flashstep.app.jobs import Jobs, RecordingStore
from flashstep.app.settings import Settings
jobs, begun = Jobs(Settings(), RecordingStore(Settings())), threading.Event()
jobs.ask("a", 3, lambda progress: begun.set() or time.sleep(60))
begun.wait()
jobs.close()
"""


def test_the_process_ends_although_a_step_is_long() -> None:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", LONG_STEP], check=True, timeout=30)
    assert time.monotonic() - began < 15


# ------------------------------------------------------------------------------------------------ what is kept


def store(directory: Path, **settings: Any) -> RecordingStore:
    return RecordingStore(Settings(**{"data_directory": directory, **settings}))


def test_memory_is_bounded_and_the_longest_unused_goes(tmp_path: Path) -> None:
    kept = store(tmp_path, recordings_memory=250)
    for name in "ab":
        kept.remember(name, bytes(100))
    kept.get("a")
    kept.remember("c", bytes(100))
    assert [kept.get(name) is not None for name in "abc"] == [True, False, True]
    kept.remember("large", bytes(1000))  # the newest stays: somebody waits for it
    assert [kept.get(name) is not None for name in ("a", "c", "large")] == [False, False, True]


def test_disk_is_bounded_and_outlives_the_server(tmp_path: Path) -> None:
    kept = store(tmp_path, recordings_disk=350)
    names = [letter * 64 for letter in "abcd"]  # as hashes are
    others = tmp_path / "recordings" / "mine.safetensors"
    others.parent.mkdir()
    others.write_bytes(bytes(1000))  # a folder that somebody shares with the server
    os.utime(others, times=(0, 0))
    for age, name in zip((40, 30, 20, 10), names, strict=True):
        kept.remember(name, bytes(100))
        kept.keep(name)
        os.utime(tmp_path / "recordings" / f"{name}.safetensors", times=(time.time() - age,) * 2)
    huge = "e" * 64
    kept.remember(huge, bytes(1000))
    kept.keep(huge)
    again = store(tmp_path, recordings_disk=350)
    assert again.get(names[0]) is None
    assert again.get(huge) is None
    assert [again.get(name) for name in names[1:]] == [bytes(100)] * 3
    assert others.exists()
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / "recordings" / f"{names[1]}.safetensors").stat().st_mode) == 0o600


def test_what_was_read_stays_when_the_disk_lets_it_go(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.remember("a", b"trace")
    kept.keep("a")
    again = store(tmp_path)
    assert again.has("a")
    assert again.get("a") == b"trace"
    (tmp_path / "recordings" / "a.safetensors").unlink()
    assert again.get("a") == b"trace"
    assert not store(tmp_path).has("a")
    assert store(tmp_path).get("a") is None


def test_a_disk_that_cannot_be_written_costs_only_the_keeping(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: Path, data: bytes, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(WRITE, full)
    jobs, work = make(), Work()
    work.go.set()
    job, _ = jobs.ask("a", 3, work)
    assert ended(job) == "done"
    assert jobs.store.get("a") == b"trace"


KILLED = """
import os, sys
from pathlib import Path
from flashstep.trace.file import write_whole
vars(os).pop("O_TMPFILE", None)  # as where a file must have a name from the first
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)  # the power goes while the data are on their way
write_whole(Path(sys.argv[1]) / "recording.safetensors", b"x" * 1_000_000)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills itself with a signal")
@pytest.mark.parametrize("before", [None, b"older"])
def test_a_server_that_is_killed_while_it_writes_leaves_the_old_file_or_none(
    tmp_path: Path, before: bytes | None
) -> None:
    path = tmp_path / "recording.safetensors"
    if before is not None:
        path.write_bytes(before)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -9
    assert (path.read_bytes() if path.exists() else None) == before
    (left,) = tmp_path.glob(files.ABANDONED)
    os.utime(left, times=(time.time() - 2 * files.ABANDONED_SECONDS,) * 2)
    files.remove_abandoned(tmp_path)
    assert not left.exists()
