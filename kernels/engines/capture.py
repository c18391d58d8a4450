"""Captures: runs of the kernels made on a GPU and shipped with the package, so that a laptop can check them.

Each is one safetensors file in the kernel's folder: inputs, arrays at the end, probes, the blocks' times, and
what it was made with (device, driver, CUDA, CuPy, date, and the hash of the source's tokens). Made anew, all of
them, on a machine with a GPU by

    python -m flashstep.kernels.engines.capture [FOLDER]
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...trace.file import write_whole
from ..kernel import Inputs, Kernel
from ..problem import Problem, Tiling
from ..record import Run, record
from ..registry import KERNELS
from .plan import Plan
from .result import EngineError, Result
from .source import Source


@dataclass(frozen=True)
class Capture:
    """A recorded run of a kernel on a device."""

    kernel: str
    name: str
    parameters: dict[str, Any]
    source_hash: str
    device: dict[str, Any]
    inputs: Inputs
    result: Result

    def run(self) -> Run:
        """The twin's run on the same inputs."""
        given = self.inputs.given()
        mask = given.pop("key_mask", None)
        return record(self.kernel, *given.values(), key_mask=mask, values="all", **self.parameters)


def problems(kernel: Kernel) -> dict[str, dict[str, Any]]:
    """The problems that are captured: name -> parameters of `record`."""
    found: dict[str, dict[str, Any]] = {
        "default": {},
        "hand": {"inputs": "hand"},
        "first-tile-masked": {"inputs": "first-tile-masked"},
        "fully-masked-row": {"inputs": "fully-masked-row"},
    }
    if kernel.matrix:
        return found | {
            "ragged": {"seqlen_q": 7, "seqlen_k": 10},
            "batched": {"batch": 2, "heads": 3, "seqlen_q": 5, "seqlen_k": 9},
            "large-logits": {"inputs": "large"},
            "no-columns": {"seqlen_k": 0},
            "wide": {"seqlen_q": 40, "seqlen_k": 70, "block_rows": 16, "block_cols": 16},
            "long-row": {"seqlen_q": 2, "seqlen_k": 2048, "block_rows": 2, "block_cols": 64},
        }
    if "splits" in kernel.parameters:
        return found | {
            "ragged": {"seqlen_k": 10, "head_dim": 3},
            "causal": {"seqlen_k": 8, "causal": True},
            "grouped-heads": {"batch": 2, "heads": 4, "kv_heads": 2, "seqlen_k": 9},
            "large-logits": {"inputs": "large", "head_dim": 2},
            "zero-keys": {"seqlen_k": 0},
            "one-split": {"seqlen_k": 9, "splits": 1},
            "empty-splits": {"seqlen_k": 5, "splits": 8},
            "wide": {"seqlen_k": 70, "head_dim": 16, "block_cols": 16},
            "long-decode": {"heads": 2, "seqlen_k": 4096, "head_dim": 16, "block_cols": 32, "splits": 8},
        }
    return found | {
        "ragged": {"seqlen_q": 7, "seqlen_k": 10, "head_dim": 3},
        "causal": {"causal": True},
        "causal-more-queries": {"seqlen_q": 9, "seqlen_k": 5, "causal": True, "block_rows": 2},
        "grouped-heads": {"batch": 2, "heads": 4, "kv_heads": 2, "seqlen_q": 6, "seqlen_k": 9},
        "large-logits": {"inputs": "large", "head_dim": 2},
        "zero-keys": {"seqlen_k": 0},
        "wide": {"seqlen_q": 40, "seqlen_k": 70, "head_dim": 16, "block_rows": 16, "block_cols": 16},
        "long-decode": {"seqlen_q": 1, "seqlen_k": 1024, "head_dim": 16, "block_cols": 32},
    }


def digest(problem: Problem, tiling: Tiling, inputs: Inputs, kernel: str) -> str:
    """What identifies a run: kernel, problem, the tiling it has a use for, and the arrays themselves."""
    used = set(KERNELS[kernel].parameters)
    told = {**asdict(problem), **asdict(tiling), "scale": problem.effective_scale}
    asked = {name: told[name] for name in sorted(used - {"inputs", "seed"})}  # the arrays say what those made
    content = hashlib.sha256(json.dumps([kernel, asked], sort_keys=True).encode())
    for name, array in inputs.given().items():
        content.update(f"{name} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return content.hexdigest()


def inputs_of(run: Run) -> Inputs:
    """The inputs of a run, as its trace kept them."""
    start = run.trace.state(0)
    arrays = {name: np.array(start[name.upper()]) for name in ("q", "k", "v", "x") if name.upper() in start}
    mask = np.array(start["key_mask"]).reshape(run.problem.batch, run.problem.seqlen_k) != 0 if "key_mask" in start else None
    return Inputs(**arrays, key_mask=mask)


def save(capture: Capture, folder: Path) -> Path:
    """Write a capture, whole or not at all."""
    from safetensors.numpy import save as to_bytes

    given = capture.inputs.given()
    tensors: dict[str, NDArray[Any]] = {f"inputs.{name}": array for name, array in given.items()}
    tensors |= {f"arrays.{name}": array for name, array in capture.result.arrays.items() if name.lower() not in given}
    if capture.result.probes is not None:
        tensors["probes"] = capture.result.probes
    tensors |= {f"times.{n}": clock for n, clock in enumerate(capture.result.times)}
    described = {
        "kernel": capture.kernel, "name": capture.name, "parameters": capture.parameters,
        "source_hash": capture.source_hash, "device": capture.device,
    }  # fmt: skip
    path = folder / f"{capture.kernel}.{capture.name}.safetensors"
    data = to_bytes({name: np.ascontiguousarray(array) for name, array in tensors.items()}, {"capture": json.dumps(described, sort_keys=True)})
    write_whole(path, data)
    return path


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A capture's file, open, and what it says of itself. Raises EngineError if it is damaged, also while it is read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "numpy") as file:
            yield file, json.loads(file.metadata()["capture"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise EngineError(f"The capture {path.name} cannot be read: {error}.") from error


def load(path: Path) -> Capture:
    """Read a capture. Raises EngineError if it is damaged."""
    with _opened(path) as (file, described):
        names = file.keys()
        tensors = {name: file.get_tensor(name) for name in names}
    inputs = Inputs(**{name.removeprefix("inputs."): array for name, array in tensors.items() if name.startswith("inputs.")})
    arrays = {name.removeprefix("arrays."): array for name, array in tensors.items() if name.startswith("arrays.")}
    times = [tensors[f"times.{n}"] for n in range(sum(name.startswith("times.") for name in tensors))]
    return Capture(
        described["kernel"], described["name"], described["parameters"], described["source_hash"], described["device"],
        inputs, Result(arrays, tensors.get("probes"), times, described["device"]),
    )  # fmt: skip


def source_hash(path: Path) -> str:
    """The hash of the source that a capture is of. Raises EngineError if it is damaged."""
    with _opened(path) as (_, described):
        return str(described["source_hash"])


def folder_of(kernel: Kernel) -> Path:
    return kernel.source.with_name("captures")


def paths(kernel: Kernel) -> list[Path]:
    """The captures that came with a kernel."""
    return sorted(folder_of(kernel).glob("*.safetensors"))


def make(kernel: Kernel, name: str, asked: dict[str, Any]) -> Capture:
    """Run one problem on the GPU and keep what came. Raises EngineError."""
    from . import gpu

    run = record(kernel.name, values="all", **asked)
    source = Source.read(kernel.cuda_source)
    result = gpu.run(Plan(run.trace, source))
    problem = {k: v for k, v in {**asdict(run.problem), **asdict(run.tiling)}.items() if k in kernel.parameters}
    kept = {k: v for k, v in problem.items() if k in ("causal", "block_rows", "block_cols", "splits")} | {"scale": run.problem.effective_scale}
    if kernel.matrix:
        kept = {k: v for k, v in kept.items() if k in ("block_rows", "block_cols")}
    return Capture(kernel.name, name, kept, source.hash, result.device, inputs_of(run), result)


def make_all(folder: Path | None) -> Iterator[Path]:
    """Re-record every capture, into the kernels' own folders or another."""
    for kernel in KERNELS.values():
        target = folder or folder_of(kernel)
        target.mkdir(parents=True, exist_ok=True)
        for name, asked in problems(kernel).items():
            yield save(make(kernel, name, asked), target)


def main() -> None:
    for path in make_all(Path(sys.argv[1]) if len(sys.argv) > 1 else None):
        print(path)


if __name__ == "__main__":
    main()
