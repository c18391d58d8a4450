"""The kernels there are: every folder here whose `__init__.py` makes a `KERNEL`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from .kernel import Kernel
from .problem import ParameterError


def _discover() -> dict[str, Kernel]:
    found = []
    for twin in Path(__file__).parent.glob("*/twin.py"):
        kernel = import_module(f".{twin.parent.name}", __package__).KERNEL
        assert isinstance(kernel, Kernel)
        found.append(kernel)
    return {kernel.name: kernel for kernel in sorted(found, key=lambda kernel: (kernel.order, kernel.name))}


KERNELS: dict[str, Kernel] = _discover()
"""Name -> kernel, in teaching order."""


def get(name: str) -> Kernel:
    """The kernel called `name`. Raises ParameterError, naming those there are."""
    kernel = KERNELS.get(name)
    if kernel is None:
        raise ParameterError("kernel", f"There is no kernel {name!r}: choose one of {', '.join(KERNELS)}.")
    return kernel
