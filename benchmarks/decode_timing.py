"""How the cases of `decode.py` are timed: all of a length together, in CUDA graphs, and each kernel's own time by CUPTI."""

from __future__ import annotations

import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Call = Callable[[int], None]  # what is timed; the number says which set of inputs


class Timer:
    """Cases to be timed together, in two rounds."""

    def __init__(self, budget: float) -> None:
        import torch

        self.torch, self.budget = torch, budget
        self.stream = torch.cuda.Stream()
        self.cases: list[tuple[dict[str, Any], str, Any, int, Call]] = []

    def add(self, row: dict[str, Any], field: str, call: Call, sets: int) -> None:
        """Warm up and capture `call` over all sets; its median goes to row[field]."""
        torch = self.torch
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for n in range(min(sets, 2)):
                call(n)
        self.stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            for n in range(sets):
                call(n)
        self.cases.append((row, field, graph, sets, call))  # the call holds the arrays that the graph reads

    def run(self) -> None:
        """Time all, twice over, and let the graphs go."""
        found: list[list[list[float]]] = [[] for _ in self.cases]
        for _ in range(2):
            for case, (_, _, graph, sets, _) in enumerate(self.cases):
                found[case].append(self._round(graph, sets))
        for (row, field, *_), rounds in zip(self.cases, found, strict=True):
            row[field] = round(statistics.median(rounds[0] + rounds[1]), 3)
            if field == "us":
                row["rounds"] = [round(statistics.median(samples), 3) for samples in rounds]
                row["spread"] = [round(float(at), 3) for at in np.percentile(rounds[0] + rounds[1], (10, 90))]
                row["samples"] = len(rounds[0]) + len(rounds[1])
        self.cases.clear()

    def _round(self, graph: Any, sets: int) -> list[float]:
        torch = self.torch
        with torch.cuda.stream(self.stream):
            graph.replay()
            self.stream.synchronize()
            samples: list[float] = []
            until = time.monotonic() + self.budget
            while len(samples) < 3 or (time.monotonic() < until and len(samples) < 100):
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record(self.stream)
                graph.replay()
                end.record(self.stream)
                end.synchronize()
                samples.append(start.elapsed_time(end) * 1000 / sets)
        return samples


class Profiler:
    """Takes cases as a Timer does, and keeps what CUPTI says of their kernels."""

    def add(self, row: dict[str, Any], field: str, call: Call, sets: int) -> None:
        if field == "us":
            row["kernels"] = profiled(call, sets)

    def run(self) -> None:
        """All is done."""


def profiled(call: Call, sets: int) -> list[dict[str, Any]]:
    """The kernels of one call by CUPTI, in order: name, grid, and the median of their own times over several calls."""
    import torch

    calls = 2 * sets if sets > 2 else 4
    call(0)
    torch.cuda.synchronize()
    watched = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=watched) as profile:
        for n in range(calls):
            call(n % sets)
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    kernels = sorted((event for event in events if event.get("cat") == "kernel"), key=lambda event: event["ts"])
    each = len(kernels) // calls
    if each == 0 or each * calls != len(kernels):
        return []
    return [
        {
            "name": kernel_name(kernels[n]["name"]),
            "grid": kernels[n]["args"]["grid"],
            "us": round(statistics.median(kernel["dur"] for kernel in kernels[n::each]), 3),
        }
        for n in range(each)
    ]


def kernel_name(signature: str) -> str:
    """The qualified name out of `void space::name<…>(…)`, without template arguments."""
    name, before = signature.replace("(anonymous namespace)::", ""), ""
    while name != before:
        name, before = re.sub(r"<[^<>]*>", "", name), name
    return name.split("(")[0].split()[-1]
