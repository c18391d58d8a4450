"""What recording costs: run by hand, `python benchmarks/record.py`; results go to `benchmarks/results/`.

Ratios are between runs of the same twin in the same process, interleaved, with medians over the repeats:
timings on a small shared machine are noisy, ratios within one run much less so.
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
from flashstep.kernels.record import prepare, run_twin, size_of
from flashstep.trace.recorder import Machine

RESULTS = Path(__file__).with_name("results")
LARGE: dict[str, Any] = {"seqlen_q": 2048, "seqlen_k": 2048, "head_dim": 64, "block_rows": 64, "block_cols": 64}
LONG: dict[str, Any] = {"seqlen_q": 8192, "seqlen_k": 8192, "head_dim": 64, "block_rows": 32, "block_cols": 32}
SMALL: dict[str, Any] = {"seqlen_q": 256, "seqlen_k": 1024, "head_dim": 4, "block_rows": 4, "block_cols": 4}


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratios(kernel: str, repeats: int) -> dict[str, Any]:
    """Recording with values none and all against the same twin with recording off."""
    sizes = {name: size for name, size in LARGE.items() if name != "head_dim" or kernel != "online-softmax"}
    if kernel == "flash-decoding":
        sizes |= {"seqlen_q": 1, "seqlen_k": 32768, "splits": 8, "heads": 4, "kv_heads": 4}
    chosen, problem, tiling, given = prepare(kernel, (), None, sizes)
    expected = size_of(chosen, problem, tiling, False)

    def run(values: str | None) -> None:
        machine = (
            Machine(record=False)
            if values is None
            else Machine(values=values, capacity=expected.value_bytes[values] // 4, total_steps=expected.steps)
        )
        run_twin(chosen, machine, problem, tiling, given)

    times: dict[str | None, list[float]] = {None: [], "none": [], "all": []}
    for values in times:
        run(values)  # warm
    for _ in range(repeats):
        for values, taken in times.items():
            taken.append(seconds(lambda values=values: run(values)))  # type: ignore[misc]
    middle = {values: statistics.median(taken) for values, taken in times.items()}
    return {
        "events": expected.events,
        "off_seconds": round(middle[None], 4),
        "none_over_off": round(statistics.median(a / b for a, b in zip(times["none"], times[None], strict=True)), 3),
        "all_over_off": round(statistics.median(a / b for a, b in zip(times["all"], times[None], strict=True)), 3),
    }


def rate(repeats: int) -> dict[str, Any]:
    """Events a second where the arithmetic is small (tiles of 4): the twin's own work counted, and the recorder alone.

    The best of the repeats: what the code takes when the machine does nothing else."""
    chosen, problem, tiling, given = prepare("flash-attention-2", (), None, SMALL)
    events = fs.estimate("flash-attention-2", **SMALL).events
    off, on = (
        min(
            seconds(lambda record=record: run_twin(chosen, Machine(record=record, values="none"), problem, tiling, given))  # type: ignore[misc]
            for _ in range(repeats)
        )
        for record in (False, True)
    )
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
    parser.add_argument("--repeats", type=int, default=9)
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
