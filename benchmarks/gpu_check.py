"""On a machine with a GPU: agreement at every step for all captured problems, repeats, and what fused multiply-adds change.

    python benchmarks/gpu_check.py FOLDER [REPEATS]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import flashstep as fs
from flashstep.kernels.engines import gpu
from flashstep.kernels.engines.capture import problems
from flashstep.kernels.engines.compare import judge
from flashstep.kernels.engines.plan import Plan
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS


def main() -> None:
    folder = Path(sys.argv[1])
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    result: dict[str, Any] = {"device": gpu.device(), "agreement": {}, "repeats": {}}
    for kernel in KERNELS.values():
        source = Source.read(kernel.cuda_source)
        for name, asked in problems(kernel).items():
            run = fs.record(kernel.name, values="all", **asked)
            plan = Plan(run.trace, source)
            entry: dict[str, Any] = {}
            brought: dict[bool, Any] = {}
            for fmad in (True, False):
                brought[fmad] = gpu.run(plan, fmad=fmad)
                verdict = judge(run, plan, brought[fmad], "gpu")
                entry["fmad" if fmad else "no_fmad"] = {
                    "ok": verdict.ok, "steps": len(verdict.steps), "worst_share_of_allowed": round(verdict.worst, 4),
                    "first_divergence": str(verdict.first_divergence) if verdict.first_divergence else None,
                    "max_ulp": max((slot.max_ulp for step in verdict.steps for slot in step.slots), default=0.0),
                }  # fmt: skip
            differ = int(np.count_nonzero(~_same(brought[True].probes, brought[False].probes)))
            entry["probed_numbers"], entry["changed_by_fmad"] = int(plan.probe_size), differ
            result["agreement"][f"{kernel.name} {name}"] = entry
        result["repeats"][kernel.name] = repeat(kernel.name, source, repeats)
    (folder / "gpu-check.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    bad = [name for name, entry in result["agreement"].items() if not (entry["fmad"]["ok"] and entry["no_fmad"]["ok"])]
    print(json.dumps(result["device"]), "problems:", len(result["agreement"]), "disagree:", bad, "repeats:", result["repeats"])
    for name in bad:
        print(name, json.dumps(result["agreement"][name]))


def repeat(kernel: str, source: Source, repeats: int) -> dict[str, Any]:
    """The same launches many times over: every result bitwise equal to the first."""
    import cupy as cp

    asked = problems(KERNELS[kernel])["wide"]
    plan = Plan(fs.record(kernel, values="all", **asked).trace, source)
    launches = list(plan.launches())
    module = gpu.build(plan, launches, False, True)
    first: dict[str, Any] | None = None
    unequal = 0
    for _ in range(repeats):
        buffers = {name: cp.asarray(buffer) for name, buffer in plan.buffers.items()}
        for launch in launches:
            module.get_function(launch.instance)(launch.grid, (launch.threads,), gpu.arguments(launch, buffers))
        if first is None:
            first = buffers
        else:
            unequal += any(bool((first[n].view(cp.uint8) != buffers[n].view(cp.uint8)).any()) for n in buffers)
    return {"problem": "wide", "repeats": repeats, "unequal": unequal}


def _same(a: Any, b: Any) -> Any:
    return (a == b) | (np.isnan(a) & np.isnan(b))


if __name__ == "__main__":
    main()
