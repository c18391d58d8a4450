"""A person's own kernel under the compiler's sanitizers, without probes, whose barriers would stand in for missing ones.

What they report becomes a sentence: the kind, the kernel's line, its step, and the block.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ...trace.words import listed
from . import cpu
from .child import FAULT, Ended, Waiting
from .plan import Plan
from .result import EngineError
from .source import Source, shown_name

SECONDS = 60.0  # that each run may take at most
Step = Callable[[int, int], object]  # how many of how many runs are done; may raise to cancel


@dataclass(frozen=True)
class Sanitizer:
    """What the compiler calls it, how people call it, what it looks for, and how many threads a block has under it."""

    option: str
    names: tuple[str, ...]
    finds: str
    threads: tuple[int, ...]


# Threads that meet in another way with each number: a race needs two that touch the same element.
SANITIZERS = (
    Sanitizer("thread", ("ThreadSanitizer",), "races, as where a barrier is missing,", (4, 5)),
    Sanitizer("address,undefined", ("AddressSanitizer", "UndefinedBehaviorSanitizer"), "steps outside an array", (cpu.THREADS,)),
)


@dataclass(frozen=True)
class Sanitized:
    """What was found, a sentence each without its full stop; and what was looked for and what could not be, in sentences."""

    findings: tuple[str, ...]
    note: str


def sanitize(plan: Plan, waiting: Waiting | None = None, step: Step | None = None) -> Sanitized:
    """Run the plan's kernel under each sanitizer that the compiler has. Raises what `waiting` and `step` raise."""
    findings: list[str] = []
    clean: list[str] = []
    unseen: list[str] = []
    seconds = min(cpu.most_seconds(plan), SECONDS)
    for number, sanitizer in enumerate(SANITIZERS):
        if step is not None:
            step(number, len(SANITIZERS))
        found, why = _under(plan, sanitizer, seconds, waiting)
        if found:
            findings.append(found)
        elif why:
            unseen.append(f"{listed(sanitizer.names)} could not look for {sanitizer.finds} here: {why}")
        else:
            clean += sanitizer.names
    note = [f"{listed(clean)} found nothing in a run without probes."] if clean and not findings else []
    return Sanitized(tuple(findings), " ".join([*note, *unseen]))


def _under(plan: Plan, sanitizer: Sanitizer, seconds: float, waiting: Waiting | None) -> tuple[str, str]:
    """What one sanitizer found, or why it could not look; both empty where all is well."""
    for threads in sanitizer.threads:
        try:
            ended = cpu.run_sanitized(plan, sanitizer.option, threads, seconds, waiting)
        except EngineError as error:
            return "", str(error)
        if ended.code == 0:
            continue
        if ended.code is None:
            return "", f"the kernel was stopped after {seconds:.3g} seconds."
        found = finding(plan, ended)
        return found, "" if found else _unread(ended)
    return "", ""


def _unread(ended: Ended) -> str:
    """Why a run under a sanitizer ended that reported nothing on the kernel."""
    line = next((line for line in ended.said.splitlines() if "Sanitizer" in line or "error" in line), "")
    return f"it ended with exit code {ended.code}{f' ({line.strip()[:200]})' if line else ''}."


def finding(plan: Plan, ended: Ended) -> str:
    """A sanitizer's report as a sentence without its full stop; "" where there is none on the kernel."""
    said = ended.said
    if fault := FAULT.search(said):
        return f"the kernel was stopped: {fault[1]}"
    block = f" in block {ended.reached[1]}" if ended.reached and ended.reached[1] >= 0 else ""
    return _race(plan, said, block) or _outside(plan, said, block) or _undefined(plan, said)


def _race(plan: Plan, said: str, block: str) -> str:
    found = re.search(r"ThreadSanitizer: data race.*?\n(.*?)\n\s*\n(.*?)\n\s*\n(.*)", said, re.S)
    if not found:
        return ""
    both = []
    for stack in (found[2], found[1]):  # what came first, and what came upon it
        line = _line(plan.source, stack)
        doing = "writes" if re.search(r"\bwrite\b", stack.split("\n")[0], re.I) else "reads"
        both.append(f"{doing} it" + (f" in {_place(plan.source, line)}" if line else ""))
    what = _array(plan, said) or "an array"
    return f"ThreadSanitizer finds a race for {what}{block}: one thread {both[0]}, another {both[1]}, with no barrier between"


def _outside(plan: Plan, said: str, block: str) -> str:
    found = re.search(r"ERROR: AddressSanitizer: ([\w-]+)(.*)", said, re.S)
    if not found:
        return ""
    line = _line(plan.source, found[2])
    where = f", in {_place(plan.source, line)}" if line else ""
    access = re.search(r"^(READ|WRITE) of size", found[2], re.M)
    what = {"READ": "a read", "WRITE": "a write"}.get(access[1] if access else "", found[1])
    array = _array(plan, said)
    return f"AddressSanitizer finds {what} outside {array or 'its arrays'}{block}{where}"


def _undefined(plan: Plan, said: str) -> str:
    found = re.search(rf"^.*?{re.escape(shown_name(plan.source))}:(\d+)(?::\d+)?: runtime error: (.+)$", said, re.M)
    if not found:
        return ""
    what = re.sub(r"\b(store to|load of|reference binding to) address \w+", r"\1 an address", found[2])
    return f"UndefinedBehaviorSanitizer finds what C++ leaves undefined in {_place(plan.source, int(found[1]))}: {what}"


def _line(source: Source, stack: str) -> int | None:
    """The line of the kernel's own file that a stack of calls is in."""
    last = len(source.text.split("\n"))
    for found in re.finditer(rf"[/ (]{re.escape(shown_name(source))}:(\d+)", stack):
        if int(found[1]) <= last:  # main stands after it
            return int(found[1])
    return None


def _place(source: Source, line: int) -> str:
    """A line with its function and step."""
    at = source.step_at(line)
    if at is None:
        return f"line {line}"
    function, step = at
    return f"line {line} ({function.name}, step {step.name!r})" if step else f"line {line} ({function.name})"


def _array(plan: Plan, said: str) -> str:
    """The array that a report is about; "" where it does not tell."""
    shared = re.search(r"Location is global '[^']*::(\w+)'", said) or re.search(r"global variable '(?:[^']*::)?(\w+)'", said)
    if shared:
        return shared[1]
    began = re.search(r"heap block of size \d+ at (0x[0-9a-f]+)", said) or re.search(r"region \[(0x[0-9a-f]+),", said)
    known = {int(place, 16): int(number) for number, place in re.findall(r"^fs array (\d+) (0x[0-9a-f]+)$", said, re.M)}
    number = known.get(int(began[1], 16)) if began else None
    return list(plan.buffers)[number] if number is not None and number < len(plan.buffers) else ""
