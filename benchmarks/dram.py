"""The bytes that the hardware moved beside the bytes that the kernels asked for, one large problem a kernel.

    python benchmarks/dram.py FOLDER

runs itself under Nsight Compute (its counters dram__bytes_read.sum and dram__bytes_write.sum, caches flushed
before each launch) and writes dram.json: per launch the DRAM bytes, per array the requested traffic.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LARGE: dict[str, dict[str, Any]] = {
    "standard": {"heads": 16, "kv_heads": 16, "seqlen_q": 2048, "seqlen_k": 2048, "head_dim": 64},
    "online-softmax": {"seqlen_q": 8192, "seqlen_k": 8192},
    "flash-attention-1": {"heads": 16, "kv_heads": 16, "seqlen_q": 2048, "seqlen_k": 2048, "head_dim": 64},
    "flash-attention-2": {"heads": 16, "kv_heads": 16, "seqlen_q": 2048, "seqlen_k": 2048, "head_dim": 64},
    "flash-decoding": {"heads": 32, "kv_heads": 32, "seqlen_k": 65536, "head_dim": 64, "splits": 64},
}
TILES = {"block_rows": 32, "block_cols": 32}
COUNTERS = ("dram__bytes_read.sum", "dram__bytes_write.sum")


def launch_all(folder: Path) -> None:
    """Launch each kernel once on its large problem; what it asks for goes to requested.json."""
    import cupy as cp

    import flashstep as fs
    from flashstep.kernels.engines import gpu
    from flashstep.kernels.engines.plan import Plan
    from flashstep.kernels.engines.source import Source
    from flashstep.kernels.registry import KERNELS

    requested: dict[str, Any] = {"device": gpu.device(), "kernels": {}}
    for kernel in KERNELS.values():
        asked = {**LARGE[kernel.name], **{name: tile for name, tile in TILES.items() if name in kernel.parameters}}
        trace = fs.record(kernel.name, values="focus", budget_bytes=2**32, **asked).trace
        plan = Plan(trace, Source.read(kernel.cuda_source))
        launches = list(plan.launches())
        module = gpu.build(plan, launches, False, True)
        buffers = {name: cp.asarray(buffer) for name, buffer in plan.buffers.items()}
        for launch in launches:
            module.get_function(launch.instance)(launch.grid, (launch.threads,), gpu.arguments(launch, buffers))
        cp.cuda.runtime.deviceSynchronize()
        requested["kernels"][kernel.name] = {
            "problem": asked,
            "launches": [launch.function.name for launch in launches],
            "array_bytes": {name: int(buffer.nbytes) for name, buffer in plan.buffers.items()},
            "ledger": trace.ledger(),
        }
        del buffers
        cp.get_default_memory_pool().free_all_blocks()
    (folder / "requested.json").write_text(json.dumps(requested), "utf-8")


def main() -> None:
    folder = Path(sys.argv[1])
    if "--launch" in sys.argv:
        launch_all(folder)
        return
    command = [
        "ncu", "--metrics", ",".join(COUNTERS), "--csv", "--page", "raw", "--print-units", "base",
        "-k", "regex:^(scores|softmax|values|online_softmax|flash_attention_1|flash_attention_2|split|combine)",
        sys.executable, __file__, str(folder), "--launch",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise SystemExit(f"ncu measured nothing: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    rows = [row for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))) if row["ID"].strip()]
    result = json.loads((folder / "requested.json").read_text("utf-8"))
    (folder / "requested.json").unlink()
    measured = iter(rows)
    for kernel in result["kernels"].values():
        kernel["measured"] = []
        for name in kernel.pop("launches"):
            row = next(measured)
            assert name in row["Kernel Name"], (name, row["Kernel Name"])
            read, written = (int(float(row[counter].replace(",", ""))) for counter in COUNTERS)
            kernel["measured"].append({"launch": name, "dram_read": read, "dram_written": written})
    (folder / "dram.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    for name, kernel in result["kernels"].items():
        loads = sum(entry["loads"]["bytes"] for entry in kernel["ledger"].values())
        stores = sum(entry["stores"]["bytes"] for entry in kernel["ledger"].values())
        read = sum(launch["dram_read"] for launch in kernel["measured"])
        written = sum(launch["dram_written"] for launch in kernel["measured"])
        mega = [f"{count / 1e6:.1f}" for count in (loads, stores, read, written)]
        print(f"{name}: requested {mega[0]} MB read, {mega[1]} written; DRAM {mega[2]}, {mega[3]}")


if __name__ == "__main__":
    main()
