"""The child process that a host build runs in: how long it may take, and what is said when it does not end well."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable

from .result import EngineError

MEMORY_BYTES = 4 * 2**30
Reached = tuple[int, int, int]  # launch, block and the number of the last probed step in its function, or -1
Waiting = Callable[[], object]
_REACHED = re.compile(r"^fs reached (\d+) (-?\d+) (-?\d+)$", re.M)
_POLL = 0.1  # seconds
_GRACE = 2.0  # for a child that was asked to end
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


def spawn(
    command: list[str], seconds: float, waiting: Waiting | None, *, sanitized: bool, place: Callable[[Reached], str]
) -> None:
    """Run a command to its end. Raises EngineError where it fails or is stopped after `seconds`; what `waiting` raises stops it too.

    place: the words for where the kernel was last seen, such as "in split, after the step 'load K, V' of block 0".
    """

    def limit() -> None:  # in the child, before it becomes the kernel
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds * 8) + 1,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not sanitized:  # a sanitizer's shadow memory is a claim on all there is
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

    with tempfile.TemporaryFile() as errors:  # a file: a pipe that nobody empties would stop a child that says much
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=limit)
        try:
            ended = _wait(child, seconds, waiting)
        finally:
            _end(child)
        errors.seek(0)
        said = errors.read(2**20).decode("utf-8", "replace")
    reached = _REACHED.search(said)
    last = place((int(reached[1]), int(reached[2]), int(reached[3]))) if reached else ""
    if not ended:
        seen = f" It was last seen {last}." if last else ""
        raise EngineError(f"The kernel ran for {seconds:.3g} seconds on the host and was stopped: does it end?{seen}")
    if child.returncode < 0:
        raise EngineError(f"The kernel crashed on the host{f' {last}' if last else ''}: {signal_words(-child.returncode)}.")
    if child.returncode:
        line = next((line for line in said.splitlines() if "Sanitizer" in line or "error" in line), said.strip()[:300])
        raise EngineError(f"The kernel failed on the host (exit {child.returncode}): {line or 'no message'}")


def signal_words(number: int) -> str:
    """What a signal that ended a kernel means."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return SIGNALS.get(name, f"it was ended by {name}")


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
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE)
        return
    child.kill()
    child.wait()
