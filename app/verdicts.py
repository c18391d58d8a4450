"""An agreement in words and numbers, as the command line and the compare page say it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..trace import words
from ..trace.agreement import Agreement, SlotAgreement
from .tables import table

ENGINES = {
    "gpu": "the kernel on a CUDA device, through CuPy",
    "cpu": "the kernel's source, compiled for this machine's processor",
    "recorded": "a capture of the kernel on a GPU, shipped with the package",
}
_VERSIONS = {"driver": "driver", "cuda": "CUDA", "cupy": "CuPy"}


def percent(share: float) -> str:
    """A share, rounded up so that "at most" stays true: 0.341 is "35 %"; "∞" where nothing was allowed."""
    if not math.isfinite(share):
        return "∞"
    return f"{math.ceil(100 * share - 1e-9):,} %"  # 100 · 0.34 is a little above 34


def share(used: float) -> str:
    """What was used of what rounding allows, as `percent` up to ten times as much: 677794.8 is "677,795 times"."""
    return percent(used) if used < 10 or not math.isfinite(used) else f"{math.ceil(used):,} times"


def sentence(agreement: Agreement) -> str:
    """The verdict without its full stop: how far it agrees, where it first differs, or what else an engine found wrong."""
    if agreement.first_divergence is not None:
        return str(agreement.first_divergence)
    if agreement.findings:
        return f"{agreement.findings[0]}; its numbers agree"
    steps = len(agreement.steps)
    agrees = f"agrees after every one of {steps:,} steps" if steps else "agrees at the end"
    if agreement.worst == 0:
        return f"{agrees}, to the last bit"
    return f"{agrees}; used at most {percent(agreement.worst)} of what rounding allows"


def said(agreement: Agreement) -> list[str]:
    """The verdict, then whatever else was found wrong, each without its full stop."""
    return [sentence(agreement), *agreement.findings[agreement.first_divergence is None :]]


def place(agreement: Agreement) -> str:
    """What it ran on: "NVIDIA H200, 2026-11-30, driver 13.0, CUDA 13.2, CuPy 14.2.0"; "" where nothing is known."""
    device = agreement.device
    known = [str(device[key]) for key in ("device", "date") if key in device]
    return ", ".join([*known, *(f"{name} {device[key]}" for key, name in _VERSIONS.items() if key in device)])


@dataclass(frozen=True)
class Worst:
    """The worst of one slot over all steps, or of an array at the end."""

    slot: str
    compared: int  # how many times
    max_abs: float
    max_ulp: float
    used: float
    ok: bool


def worst_by_slot(agreement: Agreement) -> list[Worst]:
    """One entry a slot, in the order in which they are first met; then the arrays at the end."""
    found: dict[str, list[SlotAgreement]] = {}
    for step in agreement.steps:
        for slot in step.slots:
            found.setdefault(slot.slot, []).append(slot)
    for output in agreement.outputs:
        found[f"{output.slot} at the end"] = [output]
    return [
        Worst(
            name,
            len(slots),
            max(slot.max_abs for slot in slots),
            max(slot.max_ulp for slot in slots),
            max(slot.used for slot in slots),
            all(slot.ok for slot in slots),
        )
        for name, slots in found.items()
    ]


def lines(agreement: Agreement) -> list[str]:
    """The verdict for a terminal: where the kernel ran, what it says, and how near each slot came."""
    where = place(agreement)
    ran = f"{agreement.engine} engine ({where})" if where else f"{agreement.engine} engine"
    head = ("slot", "compared", "largest difference", "in ULP", "of what rounding allows")
    rows = [
        (
            worst.slot,
            worst.compared,
            words.number(worst.max_abs),
            words.number(worst.max_ulp, 1),
            percent(worst.used) if worst.ok else f"differs, {share(worst.used)}",
        )
        for worst in worst_by_slot(agreement)
    ]
    first, *further = said(agreement)
    told = [f"{ran}: {first}", *further, *([agreement.note] if agreement.note else [])]
    return [*told, table(head, rows)] if rows else told
