"""The child processes of the engines: their limits, that none outlives whoever started it, and that nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import heed_signals

import flashstep as fs
from flashstep.kernels.engines import child, cpu, hostbuild
from flashstep.kernels.engines.plan import Plan
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX limits and signals")
compiled = pytest.mark.skipif(cpu.unavailable() is not None, reason=str(cpu.unavailable()))
LINUX = sys.platform == "linux"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_how_a_child_ended_and_what_it_said() -> None:
    ended = child.run(python("import sys; sys.stderr.write('\\nfs reached 1 2 3\\n'); sys.exit(7)"), 60)
    assert (ended.code, ended.reached) == (7, (1, 2, 3))
    assert child.run(python("pass"), 60) == child.Ended(0, "")
    assert child.run(python("import time; time.sleep(60)"), 0.3).code is None


@posix
def test_a_child_has_its_limits() -> None:
    """Of memory, so that a kernel that asks for all there is fails alone; of time, and no core file is written."""
    limits = "[r.getrlimit(x) for x in (r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_CORE)]"
    said = child.run(python(f"import resource as r, sys; sys.stderr.write(repr({limits}))"), 2.5, memory=2**33).said
    assert said == repr([(2**33, 2**33), (21, 21), (0, 0)])
    greedy = child.run(python("bytearray(2**31)"), 60, memory=2**30)
    assert "MemoryError" in greedy.said


@compiled
def test_a_kernel_may_have_no_more_memory_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []
    run = child.run

    def watched(command: list[str], *given: object, memory: int | None = None, **options: object) -> child.Ended:
        asked.append(memory)
        return run(command, *given, memory=memory, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(child, "run", watched)
    plan = Plan(fs.record("online-softmax").trace, Source.read(KERNELS["online-softmax"].cuda_source))
    cpu.run(plan)
    assert asked[-1] == child.MEMORY_BYTES
    cpu.run(plan, probing=False, sanitizer="address,undefined")
    assert asked[-1] is None  # its shadow memory is a claim on all there is


@posix
def test_what_a_child_started_is_ended_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "grandchild"
    sleeps = "import time; time.sleep(120)"
    code = f"""import subprocess, sys
p = subprocess.Popen([sys.executable, "-c", {sleeps!r}])
open({str(mark)!r}, "w").write(str(p.pid))
p.wait()"""
    with pytest.raises(InterruptedError):
        child.run(python(code), 60, waiting=lambda: _stop_when(mark))
    assert _gone(int(mark.read_text()))


def _stop_when(mark: Path) -> None:
    if mark.exists() and mark.read_text():
        raise InterruptedError


def _gone(pid: int, seconds: float = 10) -> bool:
    """Whether a process ends within some seconds; one that only waits to be collected has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not LINUX, reason="only Linux ends a child with its parent")
def test_a_child_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    inner = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(120)"
    outer = f"import sys; from flashstep.kernels.engines import child; child.run([sys.executable, '-c', {inner!r}], 120)"
    parent = subprocess.Popen(python(outer))
    until = time.monotonic() + 60
    while not (mark.exists() and mark.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    assert _gone(int(mark.read_text()))


LOOP = "for (int j = 0; j < Tc; j += 0)"


@compiled
@pytest.mark.skipif(not LINUX, reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGINT])
def test_compare_leaves_nothing_behind_however_it_ends(how: signal.Signals, tmp_path: Path) -> None:
    text = KERNELS["online-softmax"].cuda_source.read_text("utf-8")
    source, temporary, cache = tmp_path / "my.cu", tmp_path / "tmp", tmp_path / "cache"
    source.write_text(text.replace("for (int j = 0; j < Tc; j++)", LOOP), "utf-8")
    temporary.mkdir()
    command = [sys.executable, "-m", "flashstep", "compare", "online-softmax", "--engine", "cpu", "--source", str(source)]
    environment = {**os.environ, "TMPDIR": str(temporary), "FLASHSTEP_CACHE": str(cache)}
    flashstep = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, preexec_fn=heed_signals)
    kernel = _program(cache)
    flashstep.send_signal(how)
    code = flashstep.wait(30)
    assert code == (-how if how == signal.SIGKILL else 130)
    assert _gone(kernel)
    assert list(temporary.iterdir()) == []
    assert [path.name for path in (cache / "flashstep" / "cpu").iterdir() if path.name.startswith(".")] == []


def _program(cache: Path) -> int:
    """The process that runs a program of the cache, once there is one."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "exe").startswith(str(cache)) and "/.build-" not in os.readlink(entry / "exe"):
                    return int(entry.name)
            except OSError:
                continue
        time.sleep(0.05)
    raise AssertionError("the kernel never ran")


# The compiler and its cache


def plan_of(kernel: str = "online-softmax") -> Plan:
    return Plan(fs.record(kernel).trace, Source.read(KERNELS[kernel].cuda_source))


@compiled
def test_a_build_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLASHSTEP_CACHE", str(tmp_path))
    compiled_texts: list[str] = []
    make = hostbuild._make

    def watched(program: Path, text: str, *rest: object) -> None:
        compiled_texts.append(text)
        make(program, text, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(hostbuild, "_make", watched)
    cpu.run(plan_of())
    (program,) = (tmp_path / "flashstep" / "cpu").iterdir()
    os.utime(program, (1, 1))
    cpu.run(plan_of())
    assert len(compiled_texts) == 1
    assert program.stat().st_mtime > 1  # as used now: the longest unused are removed first
    cpu.run(plan_of(), probing=False)
    assert len(compiled_texts) == 2


@compiled
@pytest.mark.parametrize("place", ["/proc/nonexist", "file"])
def test_without_a_cache_a_temporary_folder_does(place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    for name in ("FLASHSTEP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", place if place.startswith("/") else str(tmp_path / place))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert fs.compare(fs.record("online-softmax"), "cpu").ok
    assert list(temporary.iterdir()) == []


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("FLASHSTEP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert hostbuild.cache_folder() is None


@compiled
def test_a_full_disk_is_said_with_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLASHSTEP_CACHE", str(tmp_path))
    full = child.Ended(1, "kernel.cpp:1: fatal error: error writing to /tmp/x.s: No space left on device\n")
    with monkeypatch.context() as patch:
        patch.setattr(child, "run", lambda *_, **__: full)
        with pytest.raises(fs.EngineError) as raised:
            cpu.run(plan_of())
    said = f"The kernel's program cannot be written in {tmp_path}/flashstep/cpu: no space left on device."
    assert str(raised.value) == f"{said} FLASHSTEP_CACHE names another folder."
    cpu.run(plan_of())

    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", no_space)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(fs.EngineError, match=r"kernel's inputs cannot be written in .*: no space left on device\. TMPDIR names"):
        cpu.run(plan_of())


@compiled
def test_what_a_killed_build_left_is_removed_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLASHSTEP_CACHE", str(tmp_path))
    folder = tmp_path / "flashstep" / "cpu"
    for name in (".build-old", ".build-new"):
        (folder / name).mkdir(parents=True)
        (folder / name / "kernel.cpp").write_text("int main() {}")
    old = time.time() - 2 * hostbuild.ABANDONED_SECONDS
    os.utime(folder / ".build-old", (old, old))
    cpu.run(plan_of())
    assert not (folder / ".build-old").exists()
    assert (folder / ".build-new").exists()
