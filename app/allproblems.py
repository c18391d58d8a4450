"""One kernel on every problem that was captured of it, for `flashstep compare --all`: what came of each, in words and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .. import EngineError, record
from ..kernels import registry
from ..kernels.engines import capture
from ..kernels.engines.hostbuild import BuildError
from ..kernels.engines.source import SourceError
from ..kernels.record import Run
from ..trace.agreement import Agreement
from ..trace.words import listed
from . import verdicts

Compare = Callable[[str, Run], Agreement]


@dataclass(frozen=True)
class Outcome:
    """What came of one problem: a verdict, or a sentence that says why there is none."""

    name: str
    parameters: dict[str, Any]
    verdict: Agreement | None
    reason: str = ""

    @property
    def ok(self) -> bool | None:
        return None if self.verdict is None else self.verdict.ok

    def to_json(self) -> dict[str, Any]:
        told = {"ok": None, "reason": self.reason} if self.verdict is None else self.verdict.to_json()
        return {"problem": self.name, "parameters": self.parameters, **told}


def outcomes(kernel: str, compare: Compare) -> Iterator[Outcome]:
    """Each problem's, as soon as it is known. compare(title, run) makes a verdict. Raises what would be the same for
    every problem: SourceError where the source is not the twin's, BuildError where it does not compile."""
    problems = capture.problems(registry.get(kernel))
    for number, (name, asked) in enumerate(problems.items(), 1):
        try:
            verdict = compare(f"{name.replace('-', ' ')} ({number} of {len(problems)})", record(kernel, values="all", **asked))
        except (SourceError, BuildError):
            raise
        except EngineError as error:
            yield Outcome(name, asked, None, str(error))
        else:
            yield Outcome(name, asked, verdict)


def line(outcome: Outcome) -> str:
    """One problem's outcome for a terminal."""
    said = outcome.reason if outcome.verdict is None else "; ".join(verdicts.said(outcome.verdict))
    return f"{outcome.name.replace('-', ' '):<22}{'not compared: ' if outcome.verdict is None else ''}{said}"


def ending(found: list[Outcome]) -> list[str]:
    """The last lines: how many agree, which do not, and each note once, with those that it is of."""
    apart = [outcome.name.replace("-", " ") for outcome in found if outcome.ok is False]
    unknown = [outcome.name.replace("-", " ") for outcome in found if outcome.ok is None]
    parts = [f"{sum(outcome.ok is True for outcome in found)} of {len(found)} problems agree"]
    if apart:
        parts.append(f"these do not: {listed(apart)}")
    if unknown:
        parts.append(f"these could not be compared: {listed(unknown)}")
    notes: dict[str, list[str]] = {}
    for outcome in found:
        if outcome.verdict is not None and outcome.verdict.note:
            notes.setdefault(outcome.verdict.note, []).append(outcome.name.replace("-", " "))
    return ["; ".join(parts) + ".", *(text if len(of) == len(found) else f"{listed(of)}: {text}" for text, of in notes.items())]


def ok(found: list[Outcome]) -> bool | None:
    """Whether all agree: False where one differs, None where one could not be compared and none differs."""
    if any(outcome.ok is False for outcome in found):
        return False
    return None if any(outcome.ok is None for outcome in found) else True
