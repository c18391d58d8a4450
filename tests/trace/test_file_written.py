"""Trace files are written whole or not at all: links, modes, folders, and a kill in the middle."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import flashstep as fs
from flashstep.trace import file


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    run = fs.record("standard")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name, before in (("there", True), ("not-yet", False)):
        target, link = folder / name, tmp_path / f"link-{name}"
        if before:
            target.write_bytes(b"old")
        link.symlink_to(target)
        run.save(link)
        assert link.is_symlink()
        assert target.read_bytes() == run.to_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["not-yet", "there"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_what_is_no_plain_file_is_never_replaced(tmp_path: Path) -> None:
    pipe, folder, loop, socket_path = (tmp_path / name for name in ("pipe", "folder", "loop", "socket"))
    os.mkfifo(pipe)
    folder.mkdir()
    loop.symlink_to(loop)
    (tmp_path / "link").symlink_to(pipe)
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone" / "x")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(socket_path))
        before = {path.name: path.lstat() for path in tmp_path.iterdir()}
        for name, words in (
            ("pipe", "is a pipe, and only a plain file"),
            ("link", "is a pipe, and only a plain file"),
            ("socket", "is a socket, and only a plain file"),
            ("folder", "is a folder; name a file in it"),
            ("loop", "cannot be written: too many levels"),
            ("nowhere", "there is no folder .*gone"),
            ("gone/x", "there is no folder .*gone"),
        ):
            with pytest.raises(fs.TraceError, match=words):
                file.write_whole(tmp_path / name, b"new")
        with pytest.raises(fs.TraceError, match="not a plain file"):
            fs.load(pipe)
    assert {path.name: path.lstat().st_ino for path in tmp_path.iterdir()} == {name: at.st_ino for name, at in before.items()}


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that is there and takes no file")
def test_a_folder_that_takes_no_file_is_said_to_be_so() -> None:
    with pytest.raises(OSError, match=r"^/proc/x\.safetensors cannot be written: nothing new can stand in the folder /proc: "):
        file.write_whole(Path("/proc/x.safetensors"), b"new")


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="needs files without a name")
def test_a_kill_while_it_writes_leaves_nothing_beside_the_file(tmp_path: Path) -> None:
    assert killed_while_writing(tmp_path, "") == []


@pytest.mark.skipif(os.name != "posix", reason="kills itself with a signal")
def test_what_a_kill_left_is_swept_by_the_next_write(tmp_path: Path) -> None:
    """Where a file must have a name from the first."""
    (left,) = killed_while_writing(tmp_path, "vars(os).pop('O_TMPFILE', None)")
    file.write_whole(tmp_path / "y.safetensors", b"another may be writing it")
    assert left.exists()
    theirs = tmp_path / ".theirs.part"
    theirs.touch()
    for path in (left, theirs):
        os.utime(path, times=(time.time() - 2 * file.ABANDONED_SECONDS,) * 2)
    file.write_whole(tmp_path / "y.safetensors", b"new")
    assert sorted(tmp_path.iterdir()) == [theirs, tmp_path / "y.safetensors"]


def killed_while_writing(folder: Path, first: str) -> list[Path]:
    """What stands in `folder` after a process was killed with its data on the way to the disk."""
    code = (
        f"import os, sys; from pathlib import Path; from flashstep.trace.file import write_whole; {first}\n"
        "os.fsync = lambda descriptor: os.kill(os.getpid(), 9)\n"
        "write_whole(Path(sys.argv[1]) / 'x.safetensors', b'x' * 1_000_000)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(folder)], check=False).returncode == -9
    return list(folder.iterdir())


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    file.write_whole(tmp_path / "new", b"new")
    assert (tmp_path / "new").stat().st_mode == plain.stat().st_mode
    file.write_whole(tmp_path / "private", b"new", 0o600)
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600 or os.name == "nt"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.safetensors"
    target.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        file.write_whole(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "x.safetensors"
    code = (
        "import sys; from pathlib import Path; from flashstep.trace.file import write_whole\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1; write_whole(Path(sys.argv[1]), bytes([n % 256]) * 3_000_000); print(n, flush=True)\n"
    )
    for delay in (0.0, 0.004, 0.009):
        child = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)
        assert child.stdout
        child.stdout.readline()
        time.sleep(delay)
        child.kill()
        child.wait()
        child.stdout.close()
        written = target.read_bytes()
        assert len(written) == 3_000_000
        assert len(set(written)) == 1
