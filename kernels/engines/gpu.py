"""The gpu engine: CuPy RawKernels, from one RawModule a source.

Nothing else depends on it: without CuPy, a driver or a device it says which is missing and how to get it.
Everything that the launch would refuse is checked before it, in words. A fault of the kernel leaves the process
without its device, and a loop without end holds it, so a person's own source runs in a child (`gpuchild.py`).
"""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from ...trace.trace import Trace
from .child import OUTSIDE, Reached
from .plan import Launch, Plan, place
from .result import EngineError, Result
from .source import shown_name

STATIC_SHARED = 49_152  # what a block may declare; the lesson's kernels use static shared memory
NUMBERS: dict[str, Any] = {
    "float": np.float32, "double": np.float64, "bool": np.bool_,
    "size_t": np.uint64, "long long": np.int64, "unsigned long long": np.uint64, "long": np.int64, "int64_t": np.int64,
}  # fmt: skip
"""The types of numbers besides the 32-bit integers, as NumPy has them."""
_PRELUDE = """
__device__ unsigned long long fs_now() { unsigned long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
__device__ unsigned fs_sm() { unsigned s; asm volatile("mov.u32 %0, %smid;" : "=r"(s)); return s; }
"""
# In the host's memory, so that it can be read while the kernel runs and after it has failed.
_WATCHED = """
__device__ volatile long long* fs_seen;
#define FS_REACHED(block, number) (fs_seen[block] = (number), __threadfence_system())
#define FS_LEFT(block) FS_REACHED(block, -3)
"""
_NOT_BEGUN = -2
_NOT_READY = 600  # cudaErrorNotReady
_POLL = 0.005  # seconds
FAULTS = {
    "illegaladdress": OUTSIDE,
    "invalidaddressspace": OUTSIDE,  # an H200 says this where the address falls into another kind of memory
    "misalignedaddress": "it read or wrote a number where one of its type cannot stand",
    "illegalinstruction": "it ran into an illegal instruction",
    "launchfailure": "it stopped itself, as a trap does, or read or wrote where no memory is",
    "launchfailed": "it stopped itself, as a trap does, or read or wrote where no memory is",
    "assert": "an assertion in it failed",
    "launchtimeout": "the device's own watchdog stopped it",
    "hardwarestackerror": "its calls took more stack than there is",
}
"""What CUDA's errors mean for a kernel, without their prefix and underscores."""


def unavailable() -> str | None:
    """Why the engine cannot run here, and how to get what is missing; or None."""
    try:
        import cupy
    except ImportError:
        return (
            "The gpu engine needs CuPy: pip install '.[gpu-cuda13]' in Flashstep's checkout (or gpu-cuda12, for a CUDA 12"
            " driver; never both)."
        )
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return "The gpu engine found CuPy but no CUDA device."
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"The gpu engine found CuPy but no usable NVIDIA driver or device ({error})."
    return None


def run(plan: Plan, probing: bool = True, fmad: bool = True, seconds: float | None = None) -> Result:
    """Run the plan on the current device. `fmad=False` forbids fused multiply-adds. `seconds`: the most that a launch may
    take; the process should end after one that took more, for it runs on. Raises EngineError."""
    why = unavailable()
    if why:
        raise EngineError(why)
    import cupy as cp

    launches = list(plan.launches())
    for launch in launches:
        check(plan, launch)
    watched = probing and seconds is not None
    module = build(plan, launches, probing, fmad, watched)
    buffers = {name: cp.asarray(buffer) for name, buffer in plan.buffers.items()}
    probes = cp.full(max(plan.probe_size, 1), np.nan, np.float32)
    times = []
    if probing:
        _point(module, "fs_out", probes.data.ptr)
    for number, launch in enumerate(launches):
        blocks = len(launch.base) - 1
        if probing:
            base, clock = cp.asarray(launch.base), cp.zeros((blocks, 3), np.uint64)
            _point(module, "fs_base", base.data.ptr)
            _point(module, "fs_times", clock.data.ptr)
            times.append(clock)
        seen = np.full(0, _NOT_BEGUN, np.int64)
        if watched:
            pinned = cp.cuda.alloc_pinned_memory(8 * blocks)
            seen = np.frombuffer(pinned, np.int64, blocks)
            seen[:] = _NOT_BEGUN
            _point(module, "fs_seen", pinned.ptr)  # with unified addresses the device's is the host's
        kernel = module.get_function(launch.instance)
        try:
            kernel(launch.grid, (launch.threads,), arguments(launch, buffers))
            ended = _wait(cp, seconds)
        except (cp.cuda.driver.CUDADriverError, cp.cuda.runtime.CUDARuntimeError) as error:
            raise EngineError(f"{launch.instance} failed on the GPU: {fault_words(error)}.{_last_seen(launches, number, seen)}") from error
        if not ended:
            raise EngineError(
                f"{launch.instance} ran for {seconds:.3g} seconds on the GPU and was stopped: does it end?{_last_seen(launches, number, seen)}"
            )
    arrays = {name: cp.asnumpy(buffer) for name, buffer in buffers.items()}
    if not probing:
        return Result(arrays, device=device())
    return Result(arrays, cp.asnumpy(probes)[: plan.probe_size], [cp.asnumpy(clock) for clock in times], device())


def _wait(cp: Any, seconds: float | None) -> bool:
    """Wait for what was launched; whether it ended within `seconds`. Raises CuPy's error where it failed."""
    if seconds is not None:
        event = cp.cuda.Event(disable_timing=True)
        event.record()
        until = time.monotonic() + seconds
        while cp.cuda.runtime.eventQuery(event.ptr) == _NOT_READY:
            if time.monotonic() > until:
                return False
            time.sleep(_POLL)
    cp.cuda.runtime.deviceSynchronize()
    return True


def fault_words(error: Exception) -> str:
    """What CUDA's error says of the kernel: "it read or wrote outside its arrays (cudaErrorIllegalAddress)"."""
    name, _, said = str(error).partition(":")
    known = FAULTS.get(name.removeprefix("cudaError").removeprefix("CUDA_ERROR_").replace("_", "").lower())
    return f"{known} ({name})" if known else f"{said.strip() or name} ({name})" if said else name


def _last_seen(launches: list[Launch], number: int, seen: np.ndarray) -> str:
    """Where the first block that had begun and not ended was, in a sentence; "" where nobody watched."""
    running = np.flatnonzero(seen >= -1)
    if not len(running):
        return ""
    reached: Reached = (number, int(running[0]), int(seen[running[0]]))
    return f" It was last seen {place(launches, reached)}."


def too_much_shared(trace: Trace) -> str | None:
    """That a block of the run asks for more static shared memory than a GPU has, or None: the host and the twin run it all the same."""
    most = max(trace.meta.launches, key=lambda launch: launch.shared_bytes, default=None)
    if most is None or most.shared_bytes <= STATIC_SHARED:
        return None
    return f"A GPU's block has {STATIC_SHARED:,} bytes of static shared memory, and {most.name} asks for {most.shared_bytes:,}: this would not run there."


def check(plan: Plan, launch: Launch) -> None:
    """Raise EngineError for what the device would refuse with 'invalid argument'."""
    info = next(info for info in plan.trace.meta.launches if info.name == launch.function.name)
    if info.shared_bytes > STATIC_SHARED:
        slots = ", ".join(f"{slot.name} {slot.bytes:,}" for slot in info.slots if slot.space == "shared")
        raise EngineError(
            f"{launch.instance} asks for {info.shared_bytes:,} bytes of shared memory a block and {STATIC_SHARED:,} are"
            f" available: {slots}. {_would_fit(plan)}"
        )
    for parameter, argument in zip(launch.function.parameters, launch.arguments, strict=True):
        if isinstance(argument, str):
            buffer = plan.buffers[argument]
            wanted = np.float32 if parameter.base == "float" else np.uint8
            if buffer.dtype != wanted:
                raise EngineError(f"{argument} is {buffer.dtype}, and {launch.instance} reads {np.dtype(wanted)}.")
            if not buffer.flags.c_contiguous:
                raise EngineError(f"{argument} is not contiguous; a RawKernel ignores strides: pass a contiguous copy.")


def _would_fit(plan: Plan) -> str:
    """Square tiles that would fit, by halving."""
    tiling, problem = plan.trace.meta.tiling, plan.trace.meta.problem
    tile, d = max(tiling["block_rows"], tiling["block_cols"]), problem["head_dim"]
    while tile > 1 and 4 * (4 * tile * d + tile * tile + 2 * tile) + tile > STATIC_SHARED:
        tile //= 2
    return f"Tiles of {tile} × {tile} would fit."


def build(plan: Plan, launches: list[Launch], probing: bool, fmad: bool, watched: bool = False) -> Any:
    """The compiled module. Raises EngineError with the compiler's first complaint."""
    import cupy as cp

    code = code_of(plan, watched) if probing else plan.source.text
    options = ["--std=c++17", f"--fmad={'true' if fmad else 'false'}"]
    module = cp.RawModule(code=code, options=tuple(options), name_expressions=sorted({launch.instance for launch in launches}))
    try:
        module.compile()
    except cp.cuda.compiler.CompileException as error:
        first = next((line for line in str(error).splitlines() if "error" in line), str(error)[:300])
        raise EngineError(f"The kernel does not compile: {first.strip()}") from error
    return module


def code_of(plan: Plan, watched: bool) -> str:
    """The source with probes; watched: that tell the host where each block is."""
    probes = Path(__file__).with_name("probes.h").read_text("utf-8")
    named = f'#line 1 "{shown_name(plan.source)}"\n'
    return _PRELUDE + _WATCHED * watched + probes + named + plan.source.probing(plan.slots, plan.shapes)


def arguments(launch: Launch, buffers: dict[str, Any]) -> tuple[Any, ...]:
    """The launch's arguments in the types the kernel declares: Python's own would arrive as 64-bit."""
    given: list[Any] = []
    for parameter, argument in zip(launch.function.parameters, launch.arguments, strict=True):
        if argument is None:
            given.append(np.uint64(0))
        elif isinstance(argument, str):
            given.append(buffers[argument])
        else:
            given.append(NUMBERS.get(parameter.base, np.int32)(argument))
    return tuple(given)


def _point(module: Any, name: str, address: int) -> None:
    """Set a device pointer of the module to an address."""
    import cupy as cp

    cp.ndarray((1,), np.uint64, memptr=module.get_global(name))[0] = address


def device() -> dict[str, Any]:
    """What ran: device, driver, CUDA, CuPy, date."""
    import cupy as cp

    properties = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)
    return {
        "engine": "gpu",
        "device": properties["name"].decode(),
        "sms": int(properties["multiProcessorCount"]),
        "driver": _version(cp.cuda.runtime.driverGetVersion()),
        "cuda": _version(cp.cuda.runtime.runtimeGetVersion()),
        "nvrtc": ".".join(map(str, cp.cuda.nvrtc.getVersion())),
        "cupy": cp.__version__,
        "date": date.today().isoformat(),
    }


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
