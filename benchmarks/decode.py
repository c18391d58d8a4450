"""What decoding costs on a GPU: this project's lesson kernel, unsplit and split, beside PyTorch's paths in the same run.

    python benchmarks/decode.py FOLDER [--quick]
    python benchmarks/decode.py FILE --judge

Batch 1, 32 heads, head dim 128, 512 to 131,072 keys. Needs CuPy and PyTorch on one CUDA device; writes decode.json.
`flashstep.app.decode` says what the numbers mean and judges what is often claimed of them; `--judge` judges anew what was
measured before, without a GPU.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from decode_lesson import BLOCK_COLS, HEADS, D, Lesson
from decode_timing import Profiler, Timer

from flashstep.app import decode
from flashstep.kernels.engines import gpu

SCALE = 1 / math.sqrt(D)
KEYS = tuple(512 << n for n in range(9))
SPLITS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256)
ROTATED = 256 * 2**20  # bytes of K and V among which launches rotate: four times the L2 of an H200
METHOD = (
    "Launches are captured in a CUDA graph that visits each of several sets of K and V (two at least,"
    f" {ROTATED >> 20} MiB together or more, so that none finds its keys in the L2 cache), and replays are timed"
    " between two CUDA events. `us` is the median over the replays of two rounds, with all other cases of that"
    " length and type between the rounds; `rounds` are the two medians, `spread` the 10th and 90th percentile of"
    " all replays. `split_us` and `combine_us` are the same for either launch alone, the combine with its"
    " partials in L2 (after a long split they partly are not: `kernels` has the combine in its place);"
    " `launch_us` is an empty kernel. `kernels`: each kernel's own time by CUPTI, without what lies between"
    " launches, in a later run of the same calls. Errors are against float64 on the very inputs, with the output"
    " NaN beforehand. `launches`: a launch's blocks, the distinct SMs that ran them (`sms`), and `busy`, the"
    " share of all SMs' time, from the first block's start to the last one's end, in which an SM held a block: by"
    " a build that notes only %smid and %globaltimer (`clock_ns` apart); `resident_blocks` are those that fit on"
    " an SM at once. All else is built without probes. Inputs are normal random numbers, without a mask."
)
TORCH_PATHS = (
    ("PyTorch FlashAttention-2", "FLASH_ATTENTION", "float16"),
    ("PyTorch FlashAttention-2", "FLASH_ATTENTION", "bfloat16"),
    ("PyTorch cuDNN", "CUDNN_ATTENTION", "float16"),
    ("PyTorch cuDNN", "CUDNN_ATTENTION", "bfloat16"),
    ("PyTorch memory-efficient", "EFFICIENT_ATTENTION", "float32"),
    ("PyTorch math (unfused)", "MATH", "float32"),
)
CEILING = r"""
extern "C" __global__ void read_only(const float4* from, float* to, long long n) {
  float sum = 0.0f;
  for (long long x = 8LL * blockIdx.x * blockDim.x + threadIdx.x; x < n; x += 8LL * gridDim.x * blockDim.x) {
    float4 got[8];
#pragma unroll
    for (int u = 0; u < 8; u++) got[u] = from[x + u * blockDim.x];  // n is a multiple of 8 blockDim.x
#pragma unroll
    for (int u = 0; u < 8; u++) sum += got[u].x + got[u].y + got[u].z + got[u].w;
  }
  if (sum == 12345.678f) to[0] = sum;  // never, but the compiler cannot know
}
extern "C" __global__ void empty() {}
"""

Sets = list[tuple[Any, Any, Any]]  # Q (1, heads, 1, d), K and V (1, heads, keys, d) on the device


def errors(out: Any, exact: Any) -> dict[str, float]:
    """The largest absolute error and ‖out − exact‖ / ‖exact‖, in float64; NaN where the output holds one."""
    off = out.double().reshape(exact.shape) - exact
    found = {"max_error": off.abs().max().item(), "relative_error": (off.norm() / exact.norm()).item()}
    return {name: float(f"{value:.3g}") for name, value in found.items()}


def exactly(q: Any, k: Any, v: Any) -> Any:
    """Attention in float64, a head at a time: (heads, d)."""
    rows = []
    for head in range(HEADS):
        scores = (k[0, head].double() @ q[0, head, 0].double()) * SCALE
        rows.append(scores.softmax(0) @ v[0, head].double())
    import torch

    return torch.stack(rows)


def inputs(keys: int, dtype: str) -> Sets:
    """Enough sets that launches which rotate among them find nothing in L2."""
    import torch

    kind = getattr(torch, dtype)
    count = max(2, -(-ROTATED // (2 * HEADS * keys * D * kind.itemsize)))
    made = torch.Generator("cuda").manual_seed(keys)

    def normal(rows: int) -> Any:
        return torch.randn((1, HEADS, rows, D), generator=made, device="cuda").to(kind)

    return [(normal(1), normal(keys), normal(keys)) for _ in range(count)]


def lesson_rows(flash: Lesson, keys: int, data: Sets, exact: Any, timer: Any, sms: int) -> Iterator[dict[str, Any]]:
    """The lesson's split kernel and combine, for every count of splits."""
    import torch

    for splits in SPLITS:
        o = torch.full((HEADS, D), math.nan, device="cuda")
        part = [torch.full((HEADS * splits * size,), math.nan, device="cuda") for size in (D, 1, 1)]
        fixed = {
            "O": o.data_ptr(), "O_partial": part[0].data_ptr(), "m_partial": part[1].data_ptr(), "l_partial": part[2].data_ptr(),
            "heads": HEADS, "kv_heads": HEADS, "seqlen_k": keys, "splits": splits, "scale": SCALE,
        }  # fmt: skip
        kept = (o, part)

        def values(n: int, fixed: dict[str, Any] = fixed, kept: Any = kept) -> dict[str, Any]:
            q, k, v = data[n]
            return {**fixed, "Q": q.data_ptr(), "K": k.data_ptr(), "V": v.data_ptr()}

        def split(n: int, values: Any = values) -> None:
            flash.launch("split", values(n))

        def combine(n: int, values: Any = values) -> None:
            flash.launch("combine", values(0))

        def both(n: int, values: Any = values) -> None:
            flash.launch("split", values(n))
            flash.launch("combine", values(n))

        both(0)
        torch.cuda.synchronize()
        row: dict[str, Any] = {"keys": keys, "splits": splits, **errors(o, exact), "launches": flash.occupied(values(0), sms)}
        timer.add(row, "us", both, len(data))
        timer.add(row, "split_us", split, len(data))
        timer.add(row, "combine_us", combine, 20)
        yield row


def standard_row(standard: Lesson, keys: int, data: Sets, exact: Any, timer: Any, sms: int) -> dict[str, Any]:
    """Standard attention of one query: S and P go to HBM and come back."""
    import torch

    o = torch.full((HEADS, D), math.nan, device="cuda")
    s, p = (torch.full((HEADS, keys), math.nan, device="cuda") for _ in range(2))
    fixed = {
        "O": o.data_ptr(), "S": s.data_ptr(), "P": p.data_ptr(),
        "heads": HEADS, "kv_heads": HEADS, "seqlen_q": 1, "seqlen_k": keys, "scale": SCALE, "causal": 0,
    }  # fmt: skip

    def values(n: int, kept: Any = (o, s, p)) -> dict[str, Any]:
        q, k, v = data[n]
        return {**fixed, "Q": q.data_ptr(), "K": k.data_ptr(), "V": v.data_ptr()}

    def all_three(n: int) -> None:
        for name in standard.launches:
            standard.launch(name, values(n))

    all_three(0)
    torch.cuda.synchronize()
    row: dict[str, Any] = {"keys": keys, **errors(o, exact), "launches": standard.occupied(values(0), sms)}
    timer.add(row, "us", all_three, len(data))
    return row


def torch_row(path: str, backend: str, dtype: str, data: Sets, exact: Any, timer: Any) -> dict[str, Any]:
    """One of PyTorch's paths, or why it cannot run."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    row: dict[str, Any] = {"keys": data[0][1].shape[2], "path": path, "dtype": dtype}
    out: list[Any] = []

    def attend(n: int) -> None:
        with sdpa_kernel(getattr(SDPBackend, backend)):
            out[:] = [scaled_dot_product_attention(*data[n])]

    try:
        attend(0)
        torch.cuda.synchronize()
        row |= errors(out[0], exact)
        timer.add(row, "us", attend, len(data))
    except (RuntimeError, AttributeError) as error:
        row["unavailable"] = str(error).splitlines()[0][:200]
    return row


def ceilings(timer: Timer, sms: int) -> dict[str, float]:
    """What a kernel reaches that only reads, in TB/s, and an empty launch in microseconds, timed as everything else is."""
    import cupy as cp
    import torch

    module = cp.RawModule(code=CEILING, options=("--std=c++17",))
    read, empty = module.get_function("read_only"), module.get_function("empty")
    size = 2**33
    source, target = torch.full((size // 4,), 1.0, device="cuda"), torch.empty(1, device="cuda")

    def on_stream(function: Any, grid: int, threads: int, *arguments: Any) -> None:
        with cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            function((grid,), (threads,), arguments)

    row: dict[str, Any] = {}
    chunks, threads = size // 16, 256
    pointers = np.uint64(source.data_ptr()), np.uint64(target.data_ptr()), np.int64(chunks)
    grids = [sms * blocks for blocks in (8, 16, 32)] + [chunks // (8 * threads)]
    for blocks in grids:

        def read_all(n: int, blocks: int = blocks) -> None:
            on_stream(read, blocks, threads, *pointers)

        timer.add(row, f"read {blocks}", read_all, 2)
    timer.add(row, "empty", lambda n: on_stream(empty, HEADS, 128), 20)
    timer.run()
    fastest = min(row[f"read {blocks}"] for blocks in grids)
    return {"read_tb_s": round(size / fastest / 1e6, 3), "launch_us": row["empty"]}


def measure(keys: tuple[int, ...], budget: float) -> dict[str, Any]:
    """Everything, as decode.json holds it."""
    import torch

    device = {**gpu.device(), "pytorch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
    flash, standard, timer = Lesson("flash-decoding"), Lesson("standard"), Timer(budget)
    result: dict[str, Any] = {
        "device": device,
        "date": device["date"],
        "method": METHOD,
        "problem": {"batch": 1, "heads": HEADS, "kv_heads": HEADS, "seqlen_q": 1, "head_dim": D, "block_cols": BLOCK_COLS,
                    "threads": flash.launches["split"].threads},
        "source": {"flash-decoding": flash.plan.source.hash, "standard": standard.plan.source.hash},
        "resident_blocks": {name: kernel.resident(name) for kernel in (flash, standard) for name in kernel.launches},
        "ceilings": ceilings(timer, device["sms"]),
    }  # fmt: skip
    print(device, result["ceilings"], flush=True)
    torch.cuda.empty_cache()
    # The profiler comes after all timing: what it leaves behind in the driver could slow launches.
    timed = rows_of(keys, flash, standard, timer, device["sms"])
    profiled_rows = rows_of(keys, flash, standard, Profiler(), device["sms"])
    result["clock_ns"] = int(np.gcd.reduce(np.diff(np.array(sorted(flash.ticks)[:100_000], np.int64))))
    for name, rows in timed.items():
        for row, other in zip(rows, profiled_rows[name], strict=True):
            if "kernels" in other:
                row["kernels"] = other["kernels"]
        result[name] = rows
    return result


def rows_of(keys: tuple[int, ...], flash: Lesson, standard: Lesson, timer: Any, sms: int) -> dict[str, list[dict[str, Any]]]:
    """All cases of all lengths, put to a Timer or a Profiler."""
    import torch

    found: dict[str, list[dict[str, Any]]] = {"lesson": [], "standard": [], "pytorch": []}
    for count in keys:
        began = time.monotonic()
        for dtype in ("float32", "float16", "bfloat16"):
            data = inputs(count, dtype)
            exact = exactly(*data[0])
            if dtype == "float32":
                found["lesson"] += lesson_rows(flash, count, data, exact, timer, sms)
                found["standard"].append(standard_row(standard, count, data, exact, timer, sms))
            for path, backend, kind in TORCH_PATHS:
                if kind == dtype:
                    found["pytorch"].append(torch_row(path, backend, kind, data, exact, timer))
            timer.run()
            del data, exact
            torch.cuda.empty_cache()
        print(type(timer).__name__, count, f"{time.monotonic() - began:.1f} s", flush=True)
    return found


def main() -> None:
    if "--judge" in sys.argv:
        path = Path(sys.argv[1])
        result = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**result, "claims": decode.claims(result)}, indent=1) + "\n", "utf-8")
        return
    folder, quick = Path(sys.argv[1]), "--quick" in sys.argv
    result = measure(KEYS[:2] if quick else KEYS, 0.02 if quick else 0.15)
    result["claims"] = [] if quick else decode.claims(result)
    (folder / "decode.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    for claim in result["claims"]:
        print(claim["verdict"], "|", claim["claim"], "|", claim["measured"], "|", claim["words"])


if __name__ == "__main__":
    main()
