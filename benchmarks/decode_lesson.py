"""The lesson's kernels as `decode.py` launches them: on PyTorch's stream and memory, at any length and any count of splits."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

import flashstep as fs
from flashstep.kernels.engines import gpu
from flashstep.kernels.engines.plan import Launch, Plan
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS

HEADS, D, BLOCK_COLS = 32, 128, 32


class Unprobed(Plan):
    """A plan whose probing build leaves nothing but when each block ran, and on which SM."""

    @cached_property
    def slots(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """No slot of any step."""
        return {}


def small(kernel: str, kind: type[Plan] = Plan) -> Plan:
    """A plan of the same template instances, threads and parameters for two tiles of keys: what differs is the grid."""
    asked: dict[str, Any] = {"heads": HEADS, "kv_heads": HEADS, "seqlen_q": 1, "seqlen_k": 2 * BLOCK_COLS, "head_dim": D}
    asked |= {"block_cols": BLOCK_COLS} | ({"splits": 2} if kernel == "flash-decoding" else {"block_rows": 1})
    return kind(fs.record(kernel, values="all", **asked).trace, Source.read(KERNELS[kernel].cuda_source))


def grid(launch: str, keys: int, splits: int) -> tuple[int, int, int]:
    """The grid of a launch for one query a head; a test holds it to the plan's."""
    return {
        "split": (splits, HEADS, 1),
        "combine": (HEADS, 1, 1),
        "scores": (-(-keys // BLOCK_COLS), 1, HEADS),
        "softmax": (1, HEADS, 1),
        "values": (1, HEADS, 1),
    }[launch]


def bound(launch: Launch, values: dict[str, Any]) -> tuple[Any, ...]:
    """The launch's arguments from `values`, where an array is its address and a missing one a null pointer."""
    given: list[Any] = []
    for parameter in launch.function.parameters:
        if parameter.pointer:
            given.append(np.uint64(values.get(parameter.name, 0)))
        else:
            given.append(np.float32(values[parameter.name]) if parameter.type == "float" else np.int32(values[parameter.name]))
    return tuple(given)


def busy(times: Any, sms: int) -> tuple[int, float]:
    """How many SMs ran blocks, and the share of all SMs' time in which one held a block.

    times: (blocks, 3), start and end in nanoseconds and the SM.
    """
    start, end, where = (times[:, n].astype(np.int64) for n in range(3))
    held = 0
    for sm in np.unique(where):
        last = -1
        for one in sorted(zip(start[where == sm].tolist(), end[where == sm].tolist(), strict=True)):
            held += max(0, one[1] - max(one[0], last))
            last = max(last, one[1])
    span = int(end.max() - start.min())
    return len(np.unique(where)), held / (span * sms) if span else 0.0


class Lesson:
    """This project's kernels, launched on PyTorch's current stream with PyTorch's memory."""

    def __init__(self, kernel: str) -> None:
        self.kernel, self.plan = kernel, small(kernel)
        self.ticks: set[int] = set()  # what %globaltimer said: how coarse it is
        self.launches = {launch.function.name: launch for launch in self.plan.launches()}
        self.functions = self._functions(self.plan, False)[1]

    def _functions(self, plan: Plan, probing: bool) -> tuple[Any, dict[str, Any]]:
        module = gpu.build(plan, list(plan.launches()), probing, True)
        return module, {name: module.get_function(launch.instance) for name, launch in self.launches.items()}

    def launch(self, name: str, values: dict[str, Any]) -> None:
        self._launch(self.functions[name], name, values)

    def _launch(self, function: Any, name: str, values: dict[str, Any]) -> None:
        import cupy as cp
        import torch

        with cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            launch = self.launches[name]
            function(grid(name, values["seqlen_k"], values.get("splits", 1)), (launch.threads,), bound(launch, values))

    def timeline(self, name: str, values: dict[str, Any]) -> Any:
        """When each block of one launch ran: (blocks, 3), start and end in nanoseconds and the SM."""
        import cupy as cp

        if not hasattr(self, "watched"):
            self.watched = self._functions(small(self.kernel, Unprobed), True)
        module, functions = self.watched
        blocks = math.prod(grid(name, values["seqlen_k"], values.get("splits", 1)))
        base, times = cp.zeros(blocks + 1, np.int64), cp.zeros((blocks, 3), np.uint64)
        for pointer, array in (("fs_base", base), ("fs_times", times)):
            cp.ndarray((1,), np.uint64, memptr=module.get_global(pointer))[0] = array.data.ptr
        for _ in range(2):  # the first is a warm-up
            cp.cuda.runtime.deviceSynchronize()
            self._launch(functions[name], name, values)
            cp.cuda.runtime.deviceSynchronize()
        return cp.asnumpy(times)

    def resident(self, name: str) -> int:
        """How many blocks of a launch the driver says fit on one SM at once."""
        import cupy as cp

        kernel = self.functions[name].kernel
        return int(cp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel.ptr, self.launches[name].threads, 0))

    def occupied(self, values: dict[str, Any], sms: int) -> dict[str, Any]:
        """By launch: its blocks, how many SMs ran them, and the share of all SMs' time in which one held a block."""
        found = {}
        for name in self.launches:
            times = self.timeline(name, values)
            self.ticks.update(np.unique(times[:, :2]).tolist())
            ran, share = busy(times, sms)
            found[name] = {"blocks": len(times), "sms": ran, "busy": round(share, 4)}
        return found
