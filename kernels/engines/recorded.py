"""The recorded engine: what a kernel did on a GPU once, for the problems that were captured."""

from __future__ import annotations

from functools import cache

from ..kernel import Kernel
from ..record import Run
from ..registry import KERNELS, get
from .capture import Capture, digest, folder_of, inputs_of, load, paths, source_hash
from .result import EngineError
from .source import Source


def unavailable() -> str | None:
    """Why the engine cannot run here, or None."""
    if not any(paths(kernel) for kernel in KERNELS.values()):
        return "The recorded engine has no captures: make them on a GPU with python -m flashstep.kernels.engines.capture."
    return None


@cache
def _index(name: str) -> dict[str, Capture]:
    kernel = get(name)
    found = {}
    for path in paths(kernel):
        capture = load(path)
        run = capture.run()
        found[digest(run.problem, run.tiling, capture.inputs, name)] = capture
    return found


def find(run: Run) -> Capture:
    """The capture of this very run. Raises EngineError, naming the problems that were captured."""
    why = unavailable()
    if why:
        raise EngineError(why)
    index = _index(run.kernel)
    capture = index.get(digest(run.problem, run.tiling, inputs_of(run), run.kernel))
    if capture is None:
        names = ", ".join(sorted(capture.name for capture in index.values())) or "none"
        raise EngineError(f"This problem of {run.kernel} was not captured on a GPU; these were: {names}.")
    return capture


def outdated(capture: Capture, kernel: Kernel) -> str | None:
    """Why a capture says nothing about the present source, and what would, or None."""
    if not stale(capture, kernel):
        return None
    made = capture.device
    return (
        f"The capture is of another kernel.cu: the source has changed since it ran on an {made.get('device', 'unknown device')}"
        f" ({made.get('date', 'undated')}), so this says nothing about the present one; check that with the cpu or gpu engine."
    )


def stale(capture: Capture, kernel: Kernel) -> bool:
    """Whether the source has changed (comments apart) since the capture was made."""
    return capture.source_hash != Source.read(kernel.cuda_source).hash


def stale_file(kernel: Kernel, problem: str) -> bool:
    """`stale` of the capture of a named problem, without its numbers."""
    return source_hash(folder_of(kernel) / f"{kernel.name}.{problem}.safetensors") != Source.read(kernel.cuda_source).hash
