"""Programs for the host: the compiler, what it is told, and the cache that keeps what it made."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import IO

from . import child
from .child import Waiting
from .result import EngineError

COMPILE_SECONDS = 300
ABANDONED_SECONDS = 3600  # a folder that a killed build left in the cache
UNDEFINED_LOCALS = "-ftrivial-auto-var-init=pattern"  # a variable that was never set holds a number that nobody takes for one
_UNDECLARED = re.compile(r"'(\w+)' was not declared|no arguments to '(\w+)' that depend|undeclared identifier '(\w+)'")
_UNLINKED = re.compile(r"""undefined (?:reference to|symbol:) [`'"]?([\w:~<>]+)""")
_LACKS = "If {} is CUDA's, the host has no stand-in for it: check this kernel with the gpu engine."


class BuildError(EngineError):
    """A kernel that does not compile for the host; the message says where."""


@cache
def compiler() -> str | None:
    """The C++ compiler's path: $CXX, g++, clang++ or c++."""
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


@cache
def takes(option: str) -> bool:
    """Whether the compiler knows an option."""
    command = [compiler() or "c++", "-Werror", option, "-fsyntax-only", "-x", "c++", os.devnull]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=60).returncode == 0
    return False


def cache_folder() -> Path | None:
    """Where builds are kept: $FLASHSTEP_CACHE, or the user's cache folder; None for a user without one."""
    root = os.environ.get("FLASHSTEP_CACHE") or os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(root or Path.home() / ".cache") / "flashstep" / "cpu"
    except RuntimeError:  # no HOME, and no such user
        return None


@contextlib.contextmanager
def built(text: str, sanitizer: str | None, waiting: Waiting | None = None) -> Iterator[Path]:
    """The program of a C++ text, within the block: from the cache, or made now; in a temporary folder that is
    removed again where the cache cannot be written. Raises EngineError, and what `waiting` raises.
    """
    # A lesson's sizes are compiled for longer than they run: more optimisation would cost more than it saves.
    options = ["-std=c++17", "-pthread", "-w", "-O1"]
    if sanitizer:
        options += ["-g", "-DFS_SANITIZED", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"]
    elif takes(UNDEFINED_LOCALS):
        options.append(UNDEFINED_LOCALS)
    key = hashlib.sha256("\n".join([*options, compiler() or "", text]).encode()).hexdigest()[:32]
    folder = cache_folder()
    with contextlib.ExitStack() as stack:
        if folder is None or not ((folder / key).exists() or _writable(folder)):
            folder = Path(stack.enter_context(temporary_folder()))
        program = folder / key
        if program.exists():
            with contextlib.suppress(OSError):
                os.utime(program)  # the longest unused are removed first
        else:
            _make(program, text, options, waiting)
        yield program


def _writable(folder: Path) -> bool:
    """Make the folder; whether something can be written in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """A folder of one's own, removed at the end. Raises EngineError where there can be none."""
    try:
        made = tempfile.TemporaryDirectory(prefix="flashstep-")
    except OSError as error:
        raise unwritten("The kernel's program", error) from error
    with made as folder:
        yield folder


@contextlib.contextmanager
def handed(data: bytes) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Two files without names for a child: one that holds `data`, and an empty one for its answer. Raises EngineError."""
    with contextlib.ExitStack() as stack:
        try:
            asked, answer = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            asked.write(data)
            asked.seek(0)
        except OSError as error:
            raise unwritten("The kernel's inputs", error) from error
        yield asked, answer


def unwritten(what: str, error: OSError, folder: Path | None = None) -> EngineError:
    """What could not be written, in which folder, and which variable names another."""
    variable = "TMPDIR" if folder is None else "FLASHSTEP_CACHE"
    where = folder or _temporary_place()
    why = (error.strerror or str(error)).lower()
    return EngineError(f"{what} cannot be written in {where}: {why}. {variable} names another folder.")


def _temporary_place() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "any temporary folder"


def _make(program: Path, text: str, options: list[str], waiting: Waiting | None) -> None:
    """Compile a text to a program, whole or not at all."""
    folder = program.parent
    _remove_abandoned(folder)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".build-", ignore_cleanup_errors=True) as work:
            source, target = Path(work) / "kernel.cpp", Path(work) / "kernel"
            source.write_text(text, "utf-8")
            done = child.run(
                [compiler() or "c++", *options, "-o", str(target), str(source)], COMPILE_SECONDS, waiting,
                environment={"TMPDIR": work, "LC_ALL": "C"},  # its messages are read below
            )  # fmt: skip
            if done.code != 0:
                raise _complaint(done, folder)
            os.replace(target, program)
    except OSError as error:
        raise unwritten("The kernel's program", error, folder) from error


def _complaint(done: child.Ended, folder: Path) -> EngineError:
    """What a compiler that failed has to say, in a sentence or two."""
    if done.code is None:
        return BuildError(f"The kernel was compiled for {COMPILE_SECONDS} seconds for the host and was stopped.")
    if "No space left on device" in done.said:
        return unwritten("The kernel's program", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), folder)
    lines = [line.strip() for line in done.said.splitlines()]
    missing = list(dict.fromkeys(_UNLINKED.findall(done.said)))
    if missing:
        return BuildError(f"The kernel does not link for the host: {', '.join(missing)} is nowhere defined. {_LACKS.format(missing[0])}")
    first = next((line for line in lines if "error" in line and "ld returned" not in line), "\n".join(lines)[:300] or "no message")
    if unknown := _UNDECLARED.search(first):
        name = next(filter(None, unknown.groups()))
        place = re.match(r".*?:\d+(?=:)", first)
        first = f"{f'{place[0]}: ' if place else ''}{name} is not declared. {_LACKS.format(name)}"
    return BuildError(f"The kernel does not compile for the host: {first}")


def _remove_abandoned(folder: Path) -> None:
    """Remove what killed builds left. Young ones stay: another process may be at them."""
    for path in folder.glob(".build-*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
