"""A person's own source on the GPU, in a process of its own: one that fails takes the device from its process, and one
that does not end holds it. What passes between the two stands in files without names.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from . import child, cpu, gpu
from .child import Waiting
from .hostbuild import handed
from .plan import Plan
from .result import EngineError, Result

BEGIN_SECONDS = 240  # for Python, CuPy and the compiler, before the kernel runs
MODULE = "flashstep.kernels.engines.gpuchild"


def run(plan: Plan, fmad: bool = True, waiting: Waiting | None = None, seconds: float | None = None) -> Result:
    """As `gpu.run`, with probes; a launch is stopped after `seconds`, by default `cpu.most_seconds`. Raises EngineError,
    and what `waiting` raises."""
    if why := gpu.unavailable():
        raise EngineError(why)
    seconds = seconds or cpu.most_seconds(plan)
    if os.name != "posix":
        return gpu.run(plan, fmad=fmad)
    with handed(pickle.dumps((plan, fmad, seconds))) as (asked, answer):
        ended = child.run(
            [sys.executable, "-m", MODULE, str(asked.fileno()), str(answer.fileno())],
            BEGIN_SECONDS + seconds * len(list(plan.launches())), waiting, files=[asked.fileno(), answer.fileno()],
            environment={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        answer.seek(0)
        data = answer.read()
    if ended.code != 0 or not data:
        raise EngineError(f"The kernel's process on the GPU {_ending(ended)}.")
    result: Result | str = pickle.loads(data)
    if isinstance(result, str):
        raise EngineError(result)
    return result


def _ending(ended: child.Ended) -> str:
    """How a process ended that brought nothing back."""
    if ended.code is None:
        return "was stopped: it took too long to begin"
    said = ended.said.strip().split("\n")[-1][:300]
    how = child.signal_words(-ended.code) if ended.code < 0 else f"exit code {ended.code}"
    return f"ended without an answer: {how}{f' ({said})' if said else ''}"


def main(files: list[str]) -> None:
    """In the child: run what is asked, and answer with the result or a sentence."""
    asked, answer = os.fdopen(int(files[0]), "rb"), os.fdopen(int(files[1]), "wb")
    plan, fmad, seconds = pickle.load(asked)
    result: Any
    try:
        result = gpu.run(plan, fmad=fmad, seconds=seconds)
    except EngineError as error:
        result = str(error)
    answer.write(pickle.dumps(result))
    answer.close()


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # at once: a device that failed, or that still runs a kernel, would be waited for
