"""The child process that a kernel or its compiler runs in: how long it may take, what it leaves behind when this
process is ended (nothing), and what is said when it does not end well.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .result import EngineError

MEMORY_BYTES = 4 * 2**30
Reached = tuple[int, int, int]  # launch, block and the number of the last probed step in its function, or -1
Waiting = Callable[[], object]
_REACHED = re.compile(r"^fs reached (\d+) (-?\d+) (-?\d+)$", re.M)
FAULT = re.compile(r"^fs fault (.+)$", re.M)
_POLL = 0.1  # seconds
_GRACE = 2.0  # for a child that was asked to end
_MOST_SAID = 2**20
OUTSIDE = "it read or wrote outside its arrays"
SIGNALS = {
    "SIGSEGV": f"{OUTSIDE} (segmentation fault)",
    "SIGBUS": f"{OUTSIDE} (bus error)",
    "SIGFPE": "it divided an integer by zero (SIGFPE)",
    "SIGILL": "it ran into an illegal instruction, as a function does that ends without its return (SIGILL)",
    "SIGTRAP": "it ran into a trap, as a function does that ends without its return (SIGTRAP)",
    "SIGABRT": f"the C library stopped it, mostly because {OUTSIDE} (abort)",
    "SIGKILL": "it was killed from outside, mostly for want of memory (SIGKILL)",
    "SIGXCPU": "it took more of the processor's time than it may (SIGXCPU)",
}


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code (negative: the signal that ended it) or None if it was stopped, and what it said."""

    code: int | None
    said: str

    @property
    def reached(self) -> Reached | None:
        """Where it said that its kernel was, if it did."""
        found = _REACHED.search(self.said)
        return (int(found[1]), int(found[2]), int(found[3])) if found else None


def run(
    command: Sequence[str], seconds: float, waiting: Waiting | None = None, *, memory: int | None = None,
    files: Sequence[int] = (), environment: dict[str, str] | None = None,
) -> Ended:
    """Run a command to its end, or for `seconds`; what `waiting` raises stops it too, and so does the end of this process.

    memory: the most bytes that it may have; None for no limit. files: descriptors that it inherits under their numbers.
    """
    with tempfile.TemporaryFile() as errors:  # a file: a pipe that nobody empties would stop a child that says much
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=files,
            env={**os.environ, **(environment or {})}, preexec_fn=_prepare(seconds, memory),
            process_group=0 if os.name == "posix" else None,  # so that what it starts (a compiler's passes) is ended with it
        )  # fmt: skip
        try:
            ended = _wait(child, seconds, waiting)
        finally:
            _end(child)
        errors.seek(0)
        said = errors.read(_MOST_SAID).decode("utf-8", "replace")
    return Ended(child.returncode if ended else None, said)


def spawn(
    command: Sequence[str], seconds: float, waiting: Waiting | None, *, place: Callable[[Reached], str],
    memory: int | None = MEMORY_BYTES, files: Sequence[int] = (),
) -> None:
    """Run a kernel's program to its end. Raises EngineError where it fails or is stopped after `seconds`; what `waiting` raises stops it too.

    place: the words for where the kernel was last seen, such as "in split, after the step 'load K, V' of block 0".
    """
    ended = run(command, seconds, waiting, memory=memory, files=files)
    last = place(ended.reached) if ended.reached else ""
    if ended.code is None:
        seen = f" It was last seen {last}." if last else ""
        raise EngineError(f"The kernel ran for {seconds:.3g} seconds on the host and was stopped: does it end?{seen}")
    if fault := FAULT.search(ended.said):
        raise EngineError(f"The kernel was stopped on the host{f' {last}' if last else ''}: {fault[1]}.")
    if ended.code < 0:
        raise EngineError(f"The kernel crashed on the host{f' {last}' if last else ''}: {signal_words(-ended.code)}.")
    if ended.code:
        said = ended.said
        line = next((line for line in said.splitlines() if "Sanitizer" in line or "error" in line), said.strip()[:300])
        raise EngineError(f"The kernel failed on the host (exit {ended.code}): {line or 'no message'}")


def signal_words(number: int) -> str:
    """What a signal that ended a kernel means."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return SIGNALS.get(name, f"it was ended by {name}")


def _prepare(seconds: float, memory: int | None) -> Callable[[], None] | None:
    """What is done in the child before it becomes the command: limits, and that it ends with this process."""
    if os.name != "posix":
        return None
    import resource

    parent = os.getpid()
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def prepare() -> None:
        if prctl is not None:
            prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: also where this process is killed and can end nothing itself
            if os.getppid() != parent:
                os._exit(3)
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds * 8) + 1,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    return prepare


def _wait(child: subprocess.Popen[bytes], seconds: float, waiting: Waiting | None) -> bool:
    """Whether the child ended by itself in time."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(min(_POLL, left))
            return True
        if waiting is not None:
            waiting()
    return False


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child that still runs: asked first, so that it can say where it was."""
    if child.poll() is not None:
        return
    _signal(child, "SIGTERM")
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE)
        return
    _signal(child, "SIGKILL")
    child.wait()


def _signal(child: subprocess.Popen[bytes], name: str) -> None:
    if os.name != "posix":
        child.kill()
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, getattr(signal, name))
