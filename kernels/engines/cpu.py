"""The cpu engine: the same kernel.cu, compiled for the host behind `shim.h` and `device.h`, run in a child process.

Needs a C++17 compiler. A child that runs too long or asks for too much memory is stopped. What passes between the two
stands in files without names, so that nothing is left behind whatever ends either.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from . import child
from .child import Ended, Waiting
from .hostbuild import built, compiler, handed
from .plan import Launch, Plan, place
from .result import EngineError, Result
from .source import Source, shown_name

HERE = Path(__file__).parent
THREADS = 8  # of a block: the kernels take any number
PADDING = 2**16  # bytes before and after each buffer: a multiple of what malloc aligns to
NEAR = 2**14  # bytes from an array within which a stray write was meant for it
_CUDA_HEADER = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]cuda[\w/]*\.h[>\"]", re.M)  # the shim stands in for them
_NULL, _BUFFER, _INTEGER, _NUMBER = range(4)


def unavailable() -> str | None:
    """Why the engine cannot run here, or None."""
    if sys.platform == "win32":
        return "The cpu engine needs a POSIX system with g++ or clang++."
    if compiler() is None:
        return "The cpu engine needs a C++17 compiler: install g++ (or clang++), or set CXX."
    return None


def most_seconds(plan: Plan) -> float:
    """How long a right kernel may take at most: a hundred times what it does on a laptop, from 10 s to 10 minutes."""
    return min(10 + len(plan.trace.steps_kind) / 50 + int(plan.trace.events.flops.sum(dtype=np.int64)) / 1e7, 600)


def run(
    plan: Plan, probing: bool = True, sanitizer: str | None = None, threads: int = THREADS, seconds: float | None = None,
    waiting: Waiting | None = None,
) -> Result:
    """Run the plan on the host. `sanitizer`: "address,undefined" or "thread". The kernel is stopped after `seconds`, by
    default `most_seconds`; `waiting` is called several times a second until it ends, and may raise to cancel it. Raises EngineError.
    """
    launches = list(plan.launches())
    with _ready(plan, launches, probing, sanitizer, threads, waiting) as (command, asked, answer):
        child.spawn(
            command, seconds or most_seconds(plan), waiting, memory=None if sanitizer else child.MEMORY_BYTES,
            place=lambda reached: place(launches, reached), files=[asked.fileno(), answer.fileno()],
        )  # fmt: skip
        answer.seek(0)
        return _unpack(plan, launches, probing, answer.read())


def run_sanitized(plan: Plan, sanitizer: str, threads: int, seconds: float, waiting: Waiting | None = None) -> Ended:
    """Run the plan without probes under a sanitizer; how it ended. Raises EngineError where it cannot be built."""
    launches = list(plan.launches())
    # Wide gaps between the arrays: the nearest is the one that was meant.
    options = {"ASAN_OPTIONS": "detect_leaks=0:redzone=2048:max_redzone=2048", "TSAN_OPTIONS": "halt_on_error=1"}
    with _ready(plan, launches, False, sanitizer, threads, waiting) as (command, asked, answer):
        return child.run(command, seconds, waiting, files=[asked.fileno(), answer.fileno()], environment=options)


@contextmanager
def _ready(
    plan: Plan, launches: list[Launch], probing: bool, sanitizer: str | None, threads: int, waiting: Waiting | None
) -> Iterator[tuple[list[str], IO[bytes], IO[bytes]]]:
    """The command that runs a plan, and the files that it reads and writes. A sanitizer needs all memory there is."""
    if why := unavailable():
        raise EngineError(why)
    with (
        built(program_text(plan, launches, probing, sanitizer), sanitizer, waiting) as program,
        handed(_pack(plan, launches, probing, threads)) as (asked, answer),
    ):
        try:
            yield [str(program), str(asked.fileno()), str(answer.fileno())], asked, answer
        except PermissionError as error:
            raise EngineError(f"The kernel's program may not be run in {program.parent}; FLASHSTEP_CACHE names another folder.") from error


def program_text(plan: Plan, launches: list[Launch], probing: bool, sanitizer: str | None) -> str:
    """The shim, the kernel's source as it is (or with probes), and a main that launches these instances."""
    source: Source = replace(plan.source, text=plan.source.undefining())
    kernel = source.probing(plan.slots, plan.shapes) if probing else source.text
    kernel = _CUDA_HEADER.sub(r"// \g<0>", kernel)
    cases = "\n".join(
        f"    case {n}: fs_launch({launch.instance}, grid, threads, arguments); break;" for n, launch in enumerate(launches)
    )
    begin = "fs_base = (const long long*)buffers[in.number()].data; fs_times = (unsigned long long*)buffers[in.number()].data;"
    return f"""#define FS_PADDING {0 if sanitizer else PADDING}
{(HERE / "shim.h").read_text("utf-8")}
{(HERE / "device.h").read_text("utf-8")}
{(HERE / "probes.h").read_text("utf-8") if probing else ""}
#line 1 "{shown_name(source)}"
{kernel}
int main(int, char** files) {{
  Reader in{{fdopen(atoi(files[1]), "rb")}};
  if (!in.file) return 3;
  const int64_t count = in.number();
  Buffer* buffers = (Buffer*)calloc(count + 1, sizeof(Buffer));
  for (int64_t n = 0; n < count; n++) buffers[n] = fs_buffer(in, n);
  fs_prepare(buffers, count);
  {"fs_out = (float*)buffers[in.number()].data;" if probing else ""}
  const int64_t launches = in.number();
  for (int64_t n = 0; n < launches; n++) {{
    fs_reached[0] = n, fs_reached[1] = fs_reached[2] = -1;
    {begin if probing else ""}
    const unsigned x = in.number(), y = in.number(), z = in.number(), threads = in.number();
    const dim3 grid{{x, y, z}};
    const int64_t given = in.number();
    Argument arguments[64] = {{}};
    for (int64_t a = 0; a < given; a++) {{
      const int64_t kind = in.number();
      if (kind == {_BUFFER}) arguments[a].pointer = buffers[in.number()].data;
      if (kind == {_INTEGER}) arguments[a].integer = in.number();
      if (kind == {_NUMBER}) in.bytes(&arguments[a].number, 8);
    }}
    switch (n) {{
{cases}
    }}
    fs_look_outside(buffers, count, n);
  }}
  FILE* out = fdopen(atoi(files[2]), "wb");
  bool whole = out;
  for (int64_t n = 0; whole && n < count; n++) whole = fwrite(buffers[n].data, 1, buffers[n].size, out) == buffers[n].size;
  for (int64_t n = 0; whole && n < count; n++) whole = fwrite(&buffers[n].launch, 8, 2, out) == 2;
  for (int64_t n = 0; n < count; n++) free(buffers[n].data - FS_PADDING);
  free(buffers);
  fclose(in.file);
  if (whole && fclose(out) == 0) return 0;
  fprintf(stderr, "error: what the kernel left cannot be written: %s\\n", strerror(errno));
  return 4;
}}
"""


def _pack(plan: Plan, launches: list[Launch], probing: bool, threads: int) -> bytes:
    """The child's input: see `Reader` in shim.h."""
    names = list(plan.buffers)
    parts: list[bytes] = []

    def number(value: int) -> None:
        parts.append(struct.pack("<q", value))

    buffers = [plan.buffers[name].tobytes() for name in names]
    if probing:
        buffers.append(b"\xff" * (4 * plan.probe_size))
        for launch in launches:
            buffers += [launch.base.tobytes(), bytes(24 * (len(launch.base) - 1))]
    number(len(buffers))
    for data in buffers:
        number(len(data))
        parts.append(data)
    if probing:
        number(len(names))
    number(len(launches))
    for n, launch in enumerate(launches):
        if probing:
            number(len(names) + 1 + 2 * n)
            number(len(names) + 2 + 2 * n)
        for size in (*launch.grid, threads, len(launch.arguments)):
            number(size)
        for parameter, argument in zip(launch.function.parameters, launch.arguments, strict=True):
            if argument is None:
                number(_NULL)
            elif isinstance(argument, str):
                number(_BUFFER)
                number(names.index(argument))
            elif parameter.base in ("float", "double"):
                number(_NUMBER)
                parts.append(struct.pack("<d", argument))
            else:
                number(_INTEGER)
                number(int(argument))
    return b"".join(parts)


def _unpack(plan: Plan, launches: list[Launch], probing: bool, data: bytes) -> Result:
    at = 0

    def take(dtype: type[np.generic], count: int) -> np.ndarray:
        nonlocal at
        array = np.frombuffer(data, dtype, count, at).copy()
        at += array.nbytes
        return array

    arrays = {name: take(buffer.dtype.type, buffer.size).reshape(buffer.shape) for name, buffer in plan.buffers.items()}
    probes, times = None, []
    if probing:
        probes = take(np.float32, plan.probe_size)
        for launch in launches:
            take(np.int64, len(launch.base))
            times.append(take(np.uint64, 3 * (len(launch.base) - 1)).reshape(-1, 3))
    outside = take(np.int64, (len(data) - at) // 8).reshape(-1, 2)
    findings = tuple(
        _outside(plan, launches[launch].function.name, at, n) for n, (launch, at) in enumerate(outside.tolist()) if launch >= 0
    )
    return Result(arrays, probes, times, {"engine": "cpu"}, findings)


def _outside(plan: Plan, function: str, at: int, number: int) -> str:
    """That a function wrote outside a buffer, `at` bytes from its beginning."""
    if number >= len(plan.buffers):
        return f"{function} wrote outside its arrays in HBM"
    name, buffer = list(plan.buffers.items())[number]
    if max(-at, at - buffer.nbytes) > NEAR:
        return f"{function} wrote far outside its arrays in HBM, of which the nearest is {name}"
    if at < 0:
        return f"{function} wrote before the beginning of {name}"
    return f"{function} wrote beyond the end of {name}: at element {at // buffer.itemsize:,}, and it has {buffer.size:,}, counted from 0"
