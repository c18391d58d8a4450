"""The engines that run a kernel's CUDA source, and which of them can run here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

NO_CUDA_SOURCE = "this version ships the kernels' NumPy twins only, not yet their CUDA sources"


@dataclass(frozen=True)
class Engine:
    """One way to run `kernel.cu`: `missing` says what it lacks on this machine, and is empty when it can run."""

    name: str
    idea: str
    missing: str

    @property
    def available(self) -> bool:
        return not self.missing


def engines() -> tuple[Engine, ...]:
    """Every engine, in the order in which they are worth trying."""
    return (
        Engine("gpu", "the kernel on a CUDA device, through CuPy", _join(NO_CUDA_SOURCE, _without_cupy())),
        Engine("cpu", "the kernel's source compiled for this machine's processor", NO_CUDA_SOURCE),
        Engine("recorded", "a capture of the kernel on a GPU, shipped with the package", NO_CUDA_SOURCE),
    )


def _without_cupy() -> str:
    """What is missing for CuPy to run here, or nothing."""
    if find_spec("cupy") is None:
        return "CuPy is not installed (flashstep[gpu-cuda12] or flashstep[gpu-cuda13] brings it)"
    import cupy

    return "" if cupy.is_available() else "CuPy finds no CUDA device"


def _join(*reasons: str) -> str:
    return "; ".join(reason for reason in reasons if reason)
