"""Every captured problem, once, as NVIDIA's compute-sanitizer is to watch it: outputs are allocated, not filled.

    compute-sanitizer --tool racecheck --error-exitcode 9 python benchmarks/sanitize.py
"""

from __future__ import annotations

import flashstep as fs
from flashstep.kernels.engines import gpu
from flashstep.kernels.engines.capture import problems
from flashstep.kernels.engines.plan import Plan
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS


def main() -> None:
    import cupy as cp

    count = 0
    for kernel in KERNELS.values():
        source = Source.read(kernel.cuda_source)
        for asked in problems(kernel).values():
            plan = Plan(fs.record(kernel.name, values="all", **asked).trace, source)
            given = {info.name for info in plan.trace.meta.arrays if info.initial >= 0}
            buffers = {
                name: cp.asarray(buffer) if name in given else cp.empty(buffer.shape, buffer.dtype)
                for name, buffer in plan.buffers.items()
            }
            launches = list(plan.launches())
            module = gpu.build(plan, launches, False, True)
            for launch in launches:
                module.get_function(launch.instance)(launch.grid, (launch.threads,), gpu.arguments(launch, buffers))
                count += 1
            cp.cuda.runtime.deviceSynchronize()
            for name, buffer in buffers.items():
                if name not in given:
                    buffer.get()
    print(f"{count} launches")


if __name__ == "__main__":
    main()
