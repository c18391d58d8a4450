"""What recording costs: run by hand, `OPENBLAS_NUM_THREADS=1 python benchmarks/record.py`; results go to `benchmarks/results/`.

Three runs of each twin on the same inputs are compared: on a machine with recording off (`Machine(record=False)`:
the same verbs move the same numbers, nothing is kept), with `values="none"` and with `values="all"`. A recorded
run is counted whole: the machine, the twin, and the trace made of the tape. Every kernel runs at N = 2048, d = 64
and tiles of 64; flash decoding, with its one query, has 64 heads there, which make it as long a run as the others.
A round runs the three one after another, every second round in reverse, so that a drift of the machine's speed
falls on all alike. Garbage is collected between samples and not within them.

What is timed is the thread's own processor time: the clock on the wall counts what else the machine was doing. Work
that BLAS gave to other threads would be left out of all three, hence its one thread. Two ratios are given:
`…_over_off` is the median of the rounds' ratios, which one disturbed round cannot move; `…_least` is the ratio of the
least times, what the code takes when disturbed least. Neither leaves out work: page faults and the memory traffic of
the kept numbers are in both.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import flashstep as fs
from flashstep.kernels.record import prepare, run_twin, size_of, trace_of
from flashstep.kernels.registry import KERNELS
from flashstep.trace.recorder import Machine

RESULTS = Path(__file__).with_name("results")
LARGE: dict[str, Any] = {"seqlen_q": 2048, "seqlen_k": 2048, "head_dim": 64, "block_rows": 64, "block_cols": 64}
LONG: dict[str, Any] = {"seqlen_q": 8192, "seqlen_k": 8192, "head_dim": 64, "block_rows": 32, "block_cols": 32}
SMALL: dict[str, Any] = {"seqlen_q": 256, "seqlen_k": 1024, "head_dim": 4, "block_rows": 4, "block_cols": 4}


def seconds(work: Callable[[], object]) -> float:
    """The processor time of this thread for `work`, with nothing collected meanwhile."""
    gc.collect()
    gc.disable()
    try:
        start = time.thread_time()
        work()
        return time.thread_time() - start
    finally:
        gc.enable()


def ratios(kernel: str, repeats: int) -> dict[str, Any]:
    """Recording with values none and all against the same twin with recording off."""
    asked = {name: size for name, size in LARGE.items() if name in KERNELS[kernel].parameters}
    if KERNELS[kernel].one_query:
        asked |= {"seqlen_q": 1, "heads": 64, "kv_heads": 64}  # one head's query makes too short a run to time
    chosen, problem, tiling, given = prepare(kernel, (), None, asked)
    expected = size_of(chosen, problem, tiling, False)

    def off() -> None:
        run_twin(chosen, Machine(record=False), problem, tiling, given)

    def on(values: str) -> None:
        machine = Machine(values=values, capacity=-(-expected.value_bytes[values] // 4), total_steps=expected.steps)
        outputs = run_twin(chosen, machine, problem, tiling, given)
        trace_of(chosen, machine, problem, tiling, None, outputs)

    works: dict[str, Callable[[], None]] = {"off": off, "none": lambda: on("none"), "all": lambda: on("all")}
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()  # warm
    for number in range(repeats):
        for name in list(works)[:: -1 if number % 2 else 1]:
            times[name].append(seconds(works[name]))
    result: dict[str, Any] = {"events": expected.events, "off_seconds": round(min(times["off"]), 4)}
    for name in ("none", "all"):
        pairs = zip(times[name], times["off"], strict=True)
        result[f"{name}_over_off"] = round(statistics.median(recorded / plain for recorded, plain in pairs), 3)
        result[f"{name}_least"] = round(min(times[name]) / min(times["off"]), 3)
    return result


def rate(repeats: int) -> dict[str, Any]:
    """Events a second where the arithmetic is small (tiles of 4): the twin's own work counted, and the recorder alone.

    The best of the repeats: what the code takes when the machine does nothing else."""
    chosen, problem, tiling, given = prepare("flash-attention-2", (), None, SMALL)
    events = fs.estimate("flash-attention-2", **SMALL).events

    def least(record: bool) -> float:
        return min(
            seconds(lambda: run_twin(chosen, Machine(record=record, values="none"), problem, tiling, given))
            for _ in range(repeats)
        )

    off, on = least(False), least(True)
    return {"events": events, "events_a_second": round(events / on), "recorder_alone": round(events / (on - off))}


def long_trace() -> dict[str, Any]:
    """FA2, N = 8192, d = 64, tiles of 32, structure only: time, and bytes an event besides values."""
    start = time.perf_counter()
    run = fs.record("flash-attention-2", values="none", **LONG)
    taken = time.perf_counter() - start
    data = run.to_bytes()
    besides = len(data) - run.trace.values.nbytes - sum(output.nbytes for output in run.outputs.values())
    return {
        "steps": len(run.trace.steps),
        "events": len(run.trace.events),
        "record_seconds": round(taken, 2),
        "file_bytes": len(data),
        "bytes_an_event": round(besides / len(run.trace.events), 1),
        "load_seconds": round(seconds(lambda: fs.load_bytes(data)), 3),
    }


def machine() -> dict[str, Any]:
    return {
        "date": date.today().isoformat(),
        "cores": os.cpu_count(),
        "processor": processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "as NumPy chose"),
    }


def processor() -> str:
    """The processor's name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    repeats = parser.parse_args().repeats
    result = {
        "machine": machine(),
        "ratios": {kernel: ratios(kernel, repeats) for kernel in fs.kernels},
        "rate": rate(repeats),
        "long_trace": long_trace(),
    }
    text = json.dumps(result, indent=1)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"record-{date.today().isoformat()}.json").write_text(text + "\n", "utf-8")
    print(text)


if __name__ == "__main__":
    main()
