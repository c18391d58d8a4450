"""Faults put into copies of the sources are caught, and the first divergence names the right step and slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import flashstep as fs
from flashstep.kernels.engines import cpu
from flashstep.kernels.engines.compare import judge
from flashstep.kernels.engines.plan import Plan
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(cpu.unavailable() is not None, reason=str(cpu.unavailable()))]

RAGGED: dict[str, Any] = {"seqlen_q": 6, "seqlen_k": 10, "seed": 3}
DECODE: dict[str, Any] = {"seqlen_k": 11, "seed": 3}
GROUPED: dict[str, Any] = {"heads": 4, "kv_heads": 2}
WEIGHT = "(ms == -INFINITY ? 0.0f : expf(ms - m[0]))"


@dataclass(frozen=True)
class Fault:
    """A change of the source, a problem that shows it, and where it must first be seen."""

    name: str
    kernel: str
    was: str
    becomes: str
    asked: dict[str, Any]
    step: str
    slots: tuple[str, ...]


def online(kernel: str, asked: dict[str, Any]) -> list[Fault]:
    """Faults of the online update that the three flash kernels share."""
    decode = kernel == "flash-decoding"
    old = "mi[0]" if decode else "mi[r]"
    l_old = "alpha * li[0]" if decode else "alpha * li[r]"
    start = "mi[0] = -INFINITY" if decode else "mi[r] = -INFINITY"
    found = [
        Fault("no rescale of l", kernel, l_old, l_old.removeprefix("alpha * "), asked, "update m, l, O", ("li", "Oi")),
        Fault("inverse rescale", kernel, f"expf({old} - m_new)", f"expf(m_new - {old})", asked, "update m, l, O", ("li", "Oi")),
    ]
    if kernel == "flash-attention-1":
        found.append(
            Fault("no rescale of O", kernel, "Oi[r][d] *= l_old", "Oi[r][d] *= li[r]", asked, "update m, l, O", ("Oi",))
        )
    else:
        scale = "Oi[d] *= alpha;" if decode else "for (int d = 0; d < D; d++) Oi[r][d] *= alpha;"
        found += [
            Fault("no rescale of O", kernel, scale, "", asked, "update m, l, O", ("Oi",)),
            Fault(
                "finite stand-in", kernel, start, start.replace("-INFINITY", "-10000.0f"), asked,
                "load Q, initialise", ("mi",),
            ),
        ]
    return found


FAULTS = [
    *online("flash-attention-1", RAGGED),
    *online("flash-attention-2", RAGGED),
    *online("flash-decoding", DECODE),
    Fault(
        "FA1 without the old l", "flash-attention-1", "Oi[r][d] *= l_old", "Oi[r][d] *= alpha", RAGGED,
        "update m, l, O", ("Oi",),
    ),
    *(
        Fault("wrong head map", kernel, "head / (heads / kv_heads)", "head % kv_heads", GROUPED, step, ("Kj",))
        for kernel, step in (
            ("standard", "load Q, K"),
            ("flash-attention-1", "load K, V"),
            ("flash-attention-2", "load K, V"),
            ("flash-decoding", "load K, V"),
        )
    ),
    *(
        Fault(
            "top-left causal", kernel, "+ r + seqlen_k - seqlen_q", "+ r", {**RAGGED, "causal": True}, "fill Sij", ("Sij",)
        )
        for kernel in ("standard", "flash-attention-1", "flash-attention-2")
    ),
    *(
        Fault(
            "unguarded tail", kernel, "cols = min(Bc, seqlen_k - j * Bc)", "cols = Bc", RAGGED, step, ("Xij", "Sij", "mi", "li")
        )
        for kernel, step in (
            ("online-softmax", "update m, l"),
            ("flash-attention-1", "update m, l, O"),
            ("flash-attention-2", "update m, l, O"),
        )
    ),
    Fault("unweighted merge of l", "flash-decoding", f"{WEIGHT} * l_partial", "l_partial", DECODE, "global l", ("l",)),
    Fault("unweighted merge of O", "flash-decoding", f"{WEIGHT} * O_partial", "O_partial", DECODE, "the end", ("O",)),
    Fault(
        "keys dropped", "flash-decoding", "(seqlen_k + splits - 1) / splits", "seqlen_k / splits", DECODE,
        "load K, V", ("Kj",),
    ),
    Fault("finite stand-in", "online-softmax", "mi[r] = -INFINITY", "mi[r] = -10000.0f", {}, "block appears", ("mi",)),
    Fault(
        "no running maximum", "standard", "mi[r] = max_nan(mi[r], Sij[r][c])", "mi[r] = Sij[r][c]", {},
        "fold the maximum", ("mi",),
    ),
    Fault("P not divided", "standard", "li[r] == 0.0f ? 0.0f : p / li[r]", "p", {}, "write P", ("Sij",)),
    Fault(
        "NaN dropped", "flash-attention-2", "return (a > b || a != a) ? a : b;", "return fmaxf(a, b);", {"nan": True},
        "update m, l, O", ("mi",),
    ),
]  # fmt: skip


def mutated(fault: Fault) -> Source:
    text = Source.read(KERNELS[fault.kernel].cuda_source).text
    assert fault.was in text, "the fault no longer fits the source"
    return Source(text.replace(fault.was, fault.becomes))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.kernel}: {fault.name}")
def test_a_fault_is_caught_where_it_is(fault: Fault) -> None:
    asked = dict(fault.asked)
    if asked.pop("nan", False):
        named = fs.record(fault.kernel)
        q, k, v = (named.trace.state(0)[name].copy() for name in "QKV")
        k[0, 0, 5, 1] = float("nan")
        run = fs.record(fault.kernel, q, k, v)
    else:
        run = fs.record(fault.kernel, **asked)
    plan = Plan(run.trace, mutated(fault))
    first = judge(run, plan, cpu.run(plan), "cpu").first_divergence
    assert first is not None, "the fault went unseen"
    name = "the end" if first.label == "the end" else run.trace.steps[first.step].name
    assert (name, first.slot in fault.slots) == (fault.step, True), str(first)
    right = Plan(run.trace, Source.read(KERNELS[fault.kernel].cuda_source))
    assert judge(run, right, cpu.run(right), "cpu").ok


# Barriers whose removal does no harm, and why. All others must be caught.
REDUNDANT = {
    ("standard", "fill Sij"): "each thread stores the elements that it filled",
    ("standard", "load S to divide"): "each thread divides the elements that it loaded; m and l were settled before",
    ("online-softmax", "load X again"): "each thread writes the elements that it loaded; m and l were settled before",
    ("flash-attention-1", "load K, V"): "the barrier after the load of Q follows before anyone reads",
    ("flash-attention-1", "store O, m, l"): "each thread stores and later loads the same elements",
    ("flash-decoding", "load Q, initialise"): "the barrier after K, V follows; an empty split's threads write what they set",
    ("flash-decoding", "global m"): "one thread computes both m and l, and the barrier after l follows",
}


def barriers() -> list[tuple[str, str, int]]:
    """(kernel, step, line) of every barrier; a step may have several."""
    found = []
    for kernel in fs.kernels:
        source = Source.read(KERNELS[kernel].cuda_source)
        steps = [step for function in source.functions.values() for step in function.steps]
        for number, line in enumerate(source.text.split("\n"), 1):
            if line.strip() == "__syncthreads();":
                step = next(step for step in steps if step.first <= number <= step.last)
                found.append((kernel, step.name, number))
    return found


@pytest.mark.parametrize(("kernel", "step", "line"), barriers())
def test_a_missing_barrier_is_a_race(kernel: str, step: str, line: int) -> None:
    lines = Source.read(KERNELS[kernel].cuda_source).text.split("\n")
    assert lines[line - 1].strip() == "__syncthreads();"
    source = Source("\n".join([*lines[: line - 1], "", *lines[line:]]))
    # A ragged tail gives the threads other elements than the tile before; without keys there is no barrier but this.
    asked: list[dict[str, Any]] = [{"seqlen_k": 9, "heads": 2}, {"seqlen_k": 0, "heads": 2}]
    asked = [{"seqlen_k": 12}, *asked] if kernel == "flash-decoding" else [{**sizes, "seqlen_q": 9} for sizes in asked]
    caught = False
    for sizes in asked:
        plan = Plan(fs.record(kernel, **sizes).trace, source)
        for _ in range(3):
            try:
                cpu.run(plan, probing=False, sanitizer="thread", threads=4)
            except fs.EngineError as error:
                caught = caught or "data race" in str(error)
    assert caught != ((kernel, step) in REDUNDANT)
