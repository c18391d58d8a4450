"""The command line: the contract's names, one-sentence errors, whole files or none, and programs that read JSON."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Captured, complaint, flashstep, heed_signals, notes
from typer.testing import CliRunner

import flashstep as fs
from flashstep.app import cli, options
from flashstep.kernels.problem import Problem, Tiling
from flashstep.kernels.registry import KERNELS

pytestmark = pytest.mark.usefixtures("empty_folder")
COMMANDS = ("serve", "record", "show", "export", "ledger", "compare", "engines")


# Names


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(cli.cli, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_the_commands_are_those_of_the_contract() -> None:
    assert {command.name or command.callback.__name__ for command in cli.cli.registered_commands if command.callback} == {
        *COMMANDS
    }


def test_every_parameter_has_its_option() -> None:
    names = {field.name for kind in (Problem, Tiling) for field in fields(kind)}
    assert set(options.parameter_types()) == names
    text = CliRunner().invoke(cli.cli, ["record", "--help"], env={"COLUMNS": "200"}).output
    for name in names:
        assert f"--{name.replace('_', '-')}" in text


def test_the_version_is_the_packages(capsys: Captured) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"flashstep {fs.__version__}\n"


# record


def test_record_saves_what_python_records(capsys: Captured) -> None:
    words = "record flash-attention-2 --seqlen-q 8 --seqlen-k 8 --head-dim 4 --block-rows 4 --block-cols 4 --causal"
    assert cli.main([*words.split(), "-o", "run.safetensors"]) == 0
    sizes: dict[str, Any] = {"seqlen_q": 8, "seqlen_k": 8, "head_dim": 4, "block_rows": 4, "block_cols": 4}
    run = fs.record("flash-attention-2", **sizes, causal=True)
    assert Path("run.safetensors").read_bytes() == run.to_bytes()
    out = capsys.readouterr().out
    assert out.startswith("run.safetensors: FlashAttention 2, 18 steps, ")
    assert out.count("\n") == 1
    assert os.listdir() == ["run.safetensors"]


def test_record_tells_a_program(capsys: Captured) -> None:
    assert cli.main(["record", "standard", "-o", "run.safetensors", "--values", "none", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    trace = fs.load("run.safetensors").trace
    assert facts.pop("seconds") >= 0
    assert facts == {
        "kernel": "standard",
        "file": "run.safetensors",
        "bytes": Path("run.safetensors").stat().st_size,
        "last_step": len(trace.steps) - 1,
        "events": len(trace.events),
        "values": "none",
    }


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_is_recorded_shown_and_counted(kernel: str, capsys: Captured) -> None:
    assert cli.main(["record", kernel, "-o", "run.safetensors"]) == 0
    capsys.readouterr()
    for command in ("show", "ledger"):
        assert cli.main([command, "run.safetensors"]) == 0
        saved = capsys.readouterr().out
        assert cli.main([command, kernel]) == 0
        assert capsys.readouterr().out == saved


def test_own_arrays_come_from_files() -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((n, 4), np.float32) for n in (3, 5, 5))
    mask = np.array([True, True, False, True, True])
    for name, array in {"q": q, "k": k, "v": v, "mask": mask}.items():
        np.save(f"{name}.npy", array)
    np.savez("all.npz", Q=q, K=k, V=v, key_mask=mask)
    wanted = fs.record("flash-attention-1", q, k, v, key_mask=mask, block_cols=2).to_bytes()
    one_each = "--q q.npy --k k.npy --v v.npy --key-mask mask.npy".split()
    for arrays in (one_each, ["--arrays", "all.npz"]):
        assert cli.main(["record", "flash-attention-1", *arrays, "--block-cols", "2", "-o", "run.safetensors"]) == 0
        assert Path("run.safetensors").read_bytes() == wanted


def test_a_matrix_goes_to_online_softmax() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save("x.npy", x)
    assert cli.main(["record", "online-softmax", "--x", "x.npy", "-o", "run.safetensors"]) == 0
    assert Path("run.safetensors").read_bytes() == fs.record("online-softmax", x).to_bytes()


def test_a_mask_goes_with_named_inputs() -> None:
    mask = np.array([True, False, True, True, True, True, True, False])
    np.save("mask.npy", mask)
    assert cli.main(["record", "standard", "--key-mask", "mask.npy", "-o", "run.safetensors"]) == 0
    assert Path("run.safetensors").read_bytes() == fs.record("standard", key_mask=mask).to_bytes()
    np.save("mask.npy", mask.astype(np.int64))  # 0 and 1 say the same
    assert cli.main(["record", "standard", "--key-mask", "mask.npy", "-o", "again.safetensors"]) == 0
    assert Path("again.safetensors").read_bytes() == Path("run.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (np.full(8, 0.5), "give 1 where a key is visible, 0 where not"),
        (np.arange(8), "give 1 where a key is visible, 0 where not"),
        (np.full(8, np.nan), "give 1 where a key is visible, 0 where not"),
        (np.ones((1, 2, 8)), "give (keys) or (batch, keys)"),
    ],
)
def test_a_mask_alone_is_checked_as_one_beside_arrays_is(
    mask: np.ndarray, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("mask.npy", mask)
    assert cli.main(["record", "standard", "--key-mask", "mask.npy", "-o", "run.safetensors"]) != 0
    assert said in capsys.readouterr().err.replace("\n", " ")
    assert not Path("run.safetensors").exists()


# What goes wrong


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("record flash-attention-3 -o a.safetensors", "no kernel 'flash-attention-3': choose one of standard"),
        ("record standard", "--output is missing; say -o and a value"),
        ("record standard --block-rows 0 -o a.safetensors", "should be from 1 to"),
        ("record standard --seqlen-q many -o a.safetensors", "--seqlen-q: “many” is not a whole number; write one such as 8."),
        ("record standard --block-cols 1.5 -o a.safetensors", "--block-cols: “1.5” is not a whole number; write one such as 4."),
        ("record standard --scale x -o a.safetensors", "--scale: “x” is not a number; write one such as 0.5."),
        ("record standard --max-steps all -o a.safetensors", "--max-steps: “all” is not a whole number"),
        ("record standard --focus x -o a.safetensors", "--focus: “x” is not a whole number; write one such as 0."),
        ("serve --port http", "--port: “http” is not a whole number; write one such as 8"),
        ("serve --port -1", "--port: “-1” is out of range; write at least 0."),
        ("record -o a.safetensors", "The kernel is missing"),
        ("show", "The source is missing; say a saved run or the name of a kernel"),
        ("record standard --key-mask 1,0 -o a.safetensors", "there is no such file; --key-mask takes a .npy file"),
        ("record standard --arrays no.npz -o a.safetensors", "no.npz cannot be read: there is no such file; --arrays"),
        ("record standard --q . -o a.safetensors", "cannot be read: is a directory; --q takes an array in a .npy file"),
        ("record standard --heads 3 --kv-heads 2 -o a.safetensors", "divisor of 3"),
        ("record standard --inputs nonsense -o a.safetensors", "nonsense"),
        ("record standard --values some -o a.safetensors", "some"),
        ("record flash-decoding --seqlen-q 2 -o a.safetensors", "seqlen_q should be 1"),
        ("show nowhere.safetensors", "neither a saved run nor a kernel"),
        ("ledger standard --step 9999", "no step 9999"),
        ("ledger standard --step -1", "no step -1: steps run from 0 to 54"),
        ("record standard --max-steps 5 -o a.safetensors", "at most 5 steps"),
        ("record standard --budget-bytes -1 -o a.safetensors", "0 bytes or more"),
        ("compare standard --engine abacus", "choose one of gpu, cpu, recorded"),
        ("dance", "dance"),
        ("show standard --loudly", "There is no option --loudly; see"),
        ("show standard --seqlenq 3", "There is no option --seqlenq; did you mean --seqlen-"),
        ("serve --port 70000", "--port: “70000” is out of range; write at most 65,535."),
        ("record standard -o nowhere/a.safetensors", "no folder nowhere"),
        ("record standard -o .", "is a folder"),
        ("record standard --q q.npy --k q.npy --v q.npy -o a.safetensors", "q.npy"),
    ],
)
def test_what_cannot_be_meant_or_done_is_refused(arguments: str, words: str, capsys: Captured) -> None:
    assert words in complaint(capsys, *arguments.split(), code=2)
    assert os.listdir() == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("command", ["record", "export"])
def test_what_is_no_plain_file_is_refused_before_the_work_and_stays(command: str, capsys: Captured) -> None:
    os.mkfifo("pipe")
    Path("link").symlink_to("pipe")
    for name in ("pipe", "link"):
        assert f"{name} is a pipe, and only a plain file is written" in complaint(capsys, command, "standard", "-o", name, code=2)
    assert Path("pipe").is_fifo()
    assert Path("link").is_symlink()
    assert sorted(os.listdir()) == ["link", "pipe"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")
def test_a_folder_that_takes_no_file_is_named_with_its_reason(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*given: object, **named: object) -> int:
        raise PermissionError(13, "Permission denied", given[0])

    Path("locked").mkdir()
    monkeypatch.setattr(os, "open", denied)
    said = complaint(capsys, "record", "standard", "-o", "locked/a.safetensors", code=2)
    folder = Path("locked").absolute()
    assert said == f"locked/a.safetensors cannot be written: nothing new can stand in the folder {folder}: permission denied."


def test_a_damaged_file_is_one_sentence(capsys: Captured) -> None:
    Path("bad.safetensors").write_bytes(b"\xff" * 100)
    complaint(capsys, "show", "bad.safetensors", code=2)
    complaint(capsys, "record", "standard", "--arrays", "bad.safetensors", "-o", "a.safetensors", code=2)


def test_arrays_and_saved_runs_are_not_mistaken_for_each_other(capsys: Captured) -> None:
    fs.record("standard").save("run.safetensors")
    np.save("q.npy", np.eye(2))
    np.savez("all.npz", q=np.eye(2))
    for option in ("--q", "--arrays"):
        said = complaint(capsys, "show", "standard", option, "run.safetensors", code=2)
        assert "run.safetensors is a saved run" in said
        assert "`flashstep show run.safetensors`" in said
    for name in ("q.npy", "all.npz"):
        assert "a NumPy file of arrays, not a saved run" in complaint(capsys, "show", name, code=2)


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        ("record flash-attention-2 --splits 3 -o a.st", "flash-attention-2 has no use for --splits; it is ignored."),
        (
            "ledger online-softmax --head-dim 4 --kv-heads 1",
            "online-softmax has no use for --kv-heads and --head-dim; they are ignored.",
        ),
        ("show flash-decoding --block-rows 2", "flash-decoding has no use for --block-rows; it is ignored."),
        (
            "record standard --focus 1 -o a.st",
            "Every block's numbers are kept, so there is no use for --focus; it is ignored.",
        ),
        (
            "record standard --budget-bytes 1 --focus 1 -o a.st",
            "No numbers are kept, so there is no use for --focus; it is ignored.",
        ),
        (
            "compare standard --engine recorded --no-fmad",
            "The recorded engine has no use for --no-fmad; it is ignored.",
        ),
    ],
)
def test_what_is_asked_in_vain_is_noted(arguments: str, note: str, capsys: Captured) -> None:
    assert notes(capsys, *arguments.split()) == [note]


def test_what_has_its_use_is_not_noted(capsys: Captured) -> None:
    assert notes(capsys, *"record flash-decoding --splits 4 --values focus --focus 1 --seed 1 -o a.st".split()) == []


def test_what_is_changed_of_own_arrays_is_noted(capsys: Captured) -> None:
    eye = np.eye(2, dtype=np.float32)
    np.savez("all.npz", q64=eye, k=eye, v=np.eye(2) * 1e300)
    assert notes(capsys, *"ledger standard --arrays all.npz --seed 3".split()) == [
        "standard has no use for --seed with your own arrays; it is ignored.",
        "v was float64: 2 numbers beyond float32's range became infinite.",
    ]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such devices")
def test_what_has_no_end_is_not_read_to_it(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "ARRAY_LIMIT", 2**20)
    Path("endless.npy").symlink_to("/dev/zero")
    for name, words in (("/dev/zero", "is none of .npy"), ("endless.npy", "holds more than 1 MiB")):
        for option in ("--arrays", "--q"):
            sentence = complaint(capsys, "show", "standard", option, name, code=2)
            assert words in sentence


def test_a_saved_run_takes_no_parameters(capsys: Captured) -> None:
    fs.record("standard").save("run.safetensors")
    assert "recorded already" in complaint(capsys, "show", "run.safetensors", "--seqlen-q", "4", code=2)


def test_arrays_that_cannot_be_told_apart(capsys: Captured) -> None:
    eye = np.eye(2, dtype=np.float32)
    np.savez("two.npz", q=eye, k=eye)
    assert "--arrays" in complaint(capsys, "show", "standard", "--q", "two.npz", code=2)
    np.save("q.npy", eye)
    assert "given twice" in complaint(capsys, "show", "standard", "--q", "q.npy", "--arrays", "two.npz", code=2)


def test_a_refusal_comes_before_the_work_and_leaves_nothing(capsys: Captured) -> None:
    began = time.perf_counter()
    huge = "--seqlen-q 1000000 --seqlen-k 1000000 --block-rows 16 --block-cols 16"
    complaint(capsys, "record", "flash-attention-2", *huge.split(), "-o", "a.safetensors", code=2)
    assert time.perf_counter() - began < 1
    assert os.listdir() == []


# show, ledger, engines


def test_show_walks_every_step(capsys: Captured) -> None:
    assert cli.main(["show", "flash-decoding"]) == 0
    lines = capsys.readouterr().out.splitlines()
    steps = [line.strip() for line in lines if line.lstrip().startswith("step ")]
    assert [line.split(":")[0] for line in steps] == [f"step {n} of 23" for n in range(24)]


def test_show_as_json_holds_the_steps(capsys: Captured) -> None:
    assert cli.main(["show", "flash-attention-2", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)
    trace = fs.record("flash-attention-2").trace
    assert [(step["label"], step["caption"]) for step in steps] == [(s.label, s.caption) for s in trace.steps]


def test_ledger_is_the_traces(capsys: Captured) -> None:
    trace = fs.record("flash-attention-1").trace
    assert cli.main(["ledger", "flash-attention-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == trace.ledger()
    assert cli.main(["ledger", "flash-attention-1", "--json", "--step", "5"]) == 0
    assert json.loads(capsys.readouterr().out) == trace.ledger(5)


def test_the_ledgers_table_adds_up(capsys: Captured) -> None:
    assert cli.main("ledger standard --head-dim 4 --block-rows 2 --block-cols 2".split()) == 0
    head, names, _, *rows, _, total = capsys.readouterr().out.splitlines()
    assert head.startswith("Standard")
    assert names.split() == ["array", "loads", "elements", "bytes", "stores", "elements", "bytes"]
    numbers = [[int(cell.replace(",", "")) for cell in row.split()[1:]] for row in (*rows, total)]
    assert [sum(column) for column in zip(*numbers[:-1], strict=True)] == numbers[-1]
    assert numbers[-1][1] + numbers[-1][4] == 800  # FACTS: (N, d, Br, Bc) = (8, 4, 2, 2)


def test_engines_say_which_can_run(capsys: Captured) -> None:
    assert cli.main(["engines"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = fs.engines()
    assert [line.split()[0] for line in lines[::2]] == ["gpu", "cpu", "recorded"] == list(found)
    assert [line.strip() for line in lines[1::2]] == [why or "It can run here." for why in found.values()]
    assert cli.main(["engines", "--json"]) == 0
    engines = json.loads(capsys.readouterr().out)
    assert [(engine["name"], engine["available"]) for engine in engines] == [(n, why is None) for n, why in found.items()]


# Real processes


def test_a_pipe_that_closes_early_ends_it_quietly() -> None:
    process = flashstep("show", "standard", "--seqlen-q", "64", "--seqlen-k", "64")
    assert process.stdout is not None
    assert process.stderr is not None
    with process, process.stdout, process.stderr:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(30) == 141  # not 1, which says that kernel and trace differ


@pytest.mark.skipif(os.name == "nt", reason="Windows' shell closes no streams")
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("show standard >&-", 0, ""),
        ("show standard --json >&- 2>&-", 0, ""),
        ("record standard -o run.safetensors <&- >&- 2>&-", 0, ""),
        ("show nothing >&-", 2, "flashstep: nothing is neither a saved run nor a kernel"),
        ("show nothing 2>&-", 2, ""),
        ("show nothing 2>/dev/full", 2, ""),
        ("show standard >/dev/full", 2, "flashstep: Standard output cannot be written: no space left on device.\n"),
        ("--help >/dev/full", 2, "flashstep: Standard output cannot be written: no space left on device.\n"),
    ],
)
def test_a_stream_that_is_closed_or_full_is_no_fault_of_the_program(command: str, code: int, said: str) -> None:
    if "/dev/full" in command and not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    shell = ["sh", "-c", f'exec "$0" -m flashstep {command}', sys.executable]
    process = subprocess.run(shell, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert process.returncode == code
    assert process.stdout == ""
    assert process.stderr.startswith(said)
    assert process.stderr.count("\n") == bool(said)
    if "-o run" in command:
        assert len(fs.load("run.safetensors").trace.steps) > 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals and no SIGTERM to send")
@pytest.mark.parametrize(
    "how",
    [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)],
    ids=lambda how: str(how.name),
)
def test_a_cancelled_recording_leaves_nothing(how: signal.Signals) -> None:
    Path("before.safetensors").write_bytes(b"kept")
    size = "--seqlen-q 4096 --seqlen-k 4096 --block-rows 16 --block-cols 16 --values none"
    command = ["record", "flash-attention-2", *size.split(), "-o", "before.safetensors"]
    ours, theirs = os.openpty()  # a person watches, so there is a progress bar, and it says when the work has begun
    terminal = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    program = [sys.executable, "-m", "flashstep", *command]
    # What a script starts in the background is deaf to Ctrl-C; what a person starts is not.
    with subprocess.Popen(program, stdout=theirs, stderr=theirs, env=terminal, preexec_fn=heed_signals) as process:
        os.close(theirs)
        seen = b""
        while b"/197377" not in seen:
            seen += os.read(ours, 4096)
        process.send_signal(how)
        with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
            while more := os.read(ours, 4096):
                seen += more
    os.close(ours)
    assert process.returncode == 130
    assert seen.endswith(b"flashstep: Cancelled; nothing was written.\r\n")
    assert os.listdir() == ["before.safetensors"]
    assert Path("before.safetensors").read_bytes() == b"kept"
