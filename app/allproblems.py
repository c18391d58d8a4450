"""One kernel on every problem that was captured of it, for `flashstep compare --all`: what came of each, in words and as JSON.

Where a kernel runs anew, two problems more: a NaN that is seen makes its row NaN, and one that is hidden changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

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


def problems(kernel: str, engine: str) -> dict[str, dict[str, Any]]:
    """Name -> parameters of `record`, and arrays under "arrays" where they are no named inputs'."""
    found = dict(capture.problems(registry.get(kernel)))
    if engine != "recorded":
        found |= _with_nan(kernel)
    return found


def _with_nan(kernel: str) -> dict[str, dict[str, Any]]:
    start = record(kernel, seqlen_k=9).trace.state(0)
    if registry.get(kernel).matrix:
        x = np.array(start["X"][0, 0])
        x[1, 5] = np.nan
        return {"visible-NaN": {"arrays": (x,)}}
    q, k, v = (np.array(start[name]) for name in "QKV")
    k[..., 5, 1] = v[..., 5, 1] = np.nan
    return {
        "visible-NaN": {"arrays": (q, k, v)},
        "hidden-NaN": {"arrays": (q, k, v), "key_mask": np.arange(9) != 5},
    }


def outcomes(kernel: str, engine: str, compare: Compare) -> Iterator[Outcome]:
    """Each problem's, as soon as it is known. compare(title, run) makes a verdict. Raises what would be the same for
    every problem: SourceError where the source is not the twin's, BuildError where it does not compile."""
    every = problems(kernel, engine)
    for number, (name, asked) in enumerate(every.items(), 1):
        arrays, named = asked.get("arrays", ()), {key: value for key, value in asked.items() if key != "arrays"}
        run = record(kernel, *arrays, values="all", **named)
        told = {key: value for key, value in named.items() if not isinstance(value, np.ndarray)}
        try:
            verdict = compare(f"{name.replace('-', ' ')} ({number} of {len(every)})", run)
        except (SourceError, BuildError):
            raise
        except EngineError as error:
            yield Outcome(name, told, None, str(error))
        else:
            yield Outcome(name, told, verdict)


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
