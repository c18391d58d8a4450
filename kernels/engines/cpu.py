"""The cpu engine: the same kernel.cu, compiled for the host behind `shim.h`, run in a child process.

Needs a C++17 compiler. Builds are kept in a cache under the hash of everything that went into them. A child
that runs too long or asks for too much memory is stopped.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from .child import Reached, Waiting, spawn
from .plan import Launch, Plan
from .result import EngineError, Result
from .source import Source

HERE = Path(__file__).parent
THREADS = 8  # of a block: the kernels take any number
_CUDA_HEADER = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]cuda[\w/]*\.h[>\"]", re.M)  # the shim stands in for them
_NULL, _BUFFER, _INTEGER, _NUMBER = range(4)


@cache
def compiler() -> str | None:
    """The C++ compiler's path: $CXX, g++, clang++ or c++."""
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


def unavailable() -> str | None:
    """Why the engine cannot run here, or None."""
    if sys.platform == "win32":
        return "The cpu engine needs a POSIX system with g++ or clang++."
    if compiler() is None:
        return "The cpu engine needs a C++17 compiler: install g++ (or clang++), or set CXX."
    return None


def cache_folder() -> Path:
    """Where builds are kept: $FLASHSTEP_CACHE, or the user's cache folder."""
    root = os.environ.get("FLASHSTEP_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "flashstep" / "cpu"


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
    why = unavailable()
    if why:
        raise EngineError(why)
    launches = list(plan.launches())
    program = build(plan, launches, probing, sanitizer)
    with tempfile.TemporaryDirectory(prefix="flashstep-") as folder:
        asked, answer = Path(folder) / "in", Path(folder) / "out"
        asked.write_bytes(_pack(plan, launches, probing, threads))
        spawn(
            [str(program), str(asked), str(answer)], seconds or most_seconds(plan), waiting, sanitized=bool(sanitizer),
            place=lambda reached: _place(launches, reached),
        )  # fmt: skip
        return _unpack(plan, launches, probing, answer.read_bytes())


def build(plan: Plan, launches: list[Launch], probing: bool, sanitizer: str | None) -> Path:
    """The compiled program for these template instances, from the cache or made now. Raises EngineError."""
    text = program_text(plan, launches, probing, sanitizer)
    # A lesson's sizes are compiled for longer than they run: more optimisation would cost more than it saves.
    options = ["-std=c++17", "-pthread", "-w", "-O1"]
    if sanitizer:
        options += ["-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"]
    key = hashlib.sha256("\n".join([*options, compiler() or "", text]).encode()).hexdigest()[:32]
    folder = cache_folder()
    program = folder / key
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as work:
        source, target = Path(work) / "kernel.cpp", Path(work) / "kernel"
        source.write_text(text, "utf-8")
        done = subprocess.run(
            [compiler() or "g++", *options, "-o", str(target), str(source)], capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:300])
            raise EngineError(f"The kernel does not compile for the host: {first.strip()}")
        os.replace(target, program)
    return program


def program_text(plan: Plan, launches: list[Launch], probing: bool, sanitizer: str | None) -> str:
    """The shim, the kernel's source as it is (or with probes), and a main that launches these instances."""
    source: Source = plan.source
    kernel = source.probing(plan.slots, plan.shapes) if probing else source.text
    kernel = _CUDA_HEADER.sub(r"// \g<0>", kernel)
    shown = "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "_" for c in source.name)
    begun = "" if sanitizer else "fs_tell_when_dying();"  # a sanitizer has its own words for it
    cases = "\n".join(
        f"    case {n}: fs_launch({launch.instance}, grid, threads, arguments); break;" for n, launch in enumerate(launches)
    )
    begin = "fs_base = (const long long*)buffers[in.number()].data; fs_times = (unsigned long long*)buffers[in.number()].data;"
    return f"""#define FS_PADDING {0 if sanitizer else 4096}
{(HERE / "shim.h").read_text("utf-8")}
{(HERE / "probes.h").read_text("utf-8") if probing else ""}
#line 1 "{shown}"
{kernel}
int main(int, char** paths) {{
  {begun}
  Reader in{{fopen(paths[1], "rb")}};
  if (!in.file) return 3;
  const int64_t count = in.number();
  Buffer* buffers = (Buffer*)calloc(count + 1, sizeof(Buffer));
  for (int64_t n = 0; n < count; n++) buffers[n] = fs_buffer(in);
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
  }}
  FILE* out = fopen(paths[2], "wb");
  for (int64_t n = 0; n < count; n++) {{
    if (fwrite(buffers[n].data, 1, buffers[n].size, out) != buffers[n].size) return 4;
    free(buffers[n].data);
  }}
  free(buffers);
  fclose(in.file);
  return fclose(out) ? 4 : 0;
}}
"""


def _place(launches: list[Launch], reached: Reached) -> str:
    """Where a kernel was last seen, in words that follow "The kernel crashed"."""
    launch, block, step = reached
    function = launches[launch].function
    if step < 0:
        return f"in {function.name}, before any probed step ended"
    return f"in {function.name}, after the step {function.steps[step].name!r} of block {block}"


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
    if not probing:
        return Result(arrays, device={"engine": "cpu"})
    probes = take(np.float32, plan.probe_size)
    times = []
    for launch in launches:
        take(np.int64, len(launch.base))
        times.append(take(np.uint64, 3 * (len(launch.base) - 1)).reshape(-1, 3))
    return Result(arrays, probes, times, {"engine": "cpu"})
