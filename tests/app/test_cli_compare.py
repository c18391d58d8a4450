"""`flashstep compare`: the verdict on a terminal and for a program, the engine that it chooses, and its exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import Captured, complaint, notes
from comparisons import strict, wrong

import flashstep as fs
from flashstep.app import cli, verdicts
from flashstep.kernels.engines import cpu
from flashstep.kernels.registry import KERNELS
from flashstep.trace.agreement import Divergence, Element

pytestmark = pytest.mark.usefixtures("empty_folder")


def test_a_capture_agrees_with_the_run(capsys: Captured) -> None:
    assert cli.main("compare flash-attention-2 --engine recorded".split()) == 0
    out = capsys.readouterr().out
    assert out.startswith("recorded engine (NVIDIA H200, ")
    assert "agrees after every one of 16 steps" in out
    fs.record("flash-attention-2").save("run.safetensors")
    assert cli.main("compare run.safetensors --engine recorded".split()) == 0
    assert capsys.readouterr().out == out


def test_compare_tells_a_program(capsys: Captured) -> None:
    assert cli.main("compare standard --engine recorded --json".split()) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == fs.compare(fs.record("standard"), "recorded").to_json()


def test_a_kernel_that_differs_exits_with_1(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    good = fs.compare(fs.record("flash-attention-2"), "recorded")
    step = good.steps[3]
    element = Element(row=1, col=2, got=float("nan"), want=0.5, allowed=1e-7)
    divergence = Divergence(step.step, step.label, ("flash attention 2", "block 0"), "Sij", element)
    monkeypatch.setattr(cli, "compare_run", lambda *_, **__: replace(good, first_divergence=divergence))
    assert cli.main("compare flash-attention-2 --engine recorded".split()) == 1
    out, err = capsys.readouterr()
    assert f"first differs at step {step.step}" in out
    assert "Sij, row 1, column 2: NaN against 0.5000" in out
    assert err == ""


@pytest.mark.parametrize("usable", ["gpu", "cpu", "recorded"])
def test_the_first_engine_that_can_run_is_chosen(usable: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    order = ["gpu", "cpu", "recorded"]
    found = {name: None if order.index(name) >= order.index(usable) else "It cannot run." for name in order}
    monkeypatch.setattr(cli, "every_engine", lambda: found)
    good = fs.compare(fs.record("standard"), "recorded")
    chosen: list[str] = []

    def compare(run: fs.Run, engine: str, **_: Any) -> fs.Agreement:
        chosen.append(engine)
        return good

    monkeypatch.setattr(cli, "compare_run", compare)
    said = f"The {usable} engine is the first that can run here; --engine chooses another."
    assert notes(capsys, "compare", "standard") == [said]
    assert chosen == [usable]


def test_what_was_not_captured_is_said(capsys: Captured) -> None:
    said = complaint(capsys, *"compare standard --seed 5 --engine recorded".split(), code=2)
    assert "was not captured" in said


def test_a_run_without_numbers_cannot_be_compared(capsys: Captured) -> None:
    fs.record("standard", values="none").save("run.safetensors")
    assert "kept no numbers" in complaint(capsys, "compare", "run.safetensors", "--engine", "cpu", code=2)


def test_the_terminal_tells_the_worst_of_every_slot(capsys: Captured) -> None:
    assert cli.main("compare flash-attention-2 --engine recorded".split()) == 0
    lines = capsys.readouterr().out.splitlines()
    agreement = fs.compare(fs.record("flash-attention-2"), "recorded")
    assert f"used at most {verdicts.percent(agreement.worst)} of what rounding allows" in lines[0]
    assert "driver 13.0, CUDA 13.2, CuPy 14.2.0" in lines[0]
    slots = {line.split("  ")[0] for line in lines[3:]}
    assert slots == {"Qi", "mi", "li", "Oi", "Kj", "Vj", "Sij", "O at the end", "lse at the end"}


def test_the_terminal_exits_with_1_only_where_it_differs(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong(monkeypatch, value=0.5)
    assert cli.main("compare flash-attention-2 --engine recorded".split()) == 1
    out = capsys.readouterr().out
    assert "first differs at step 17" in out
    assert "differs, " in out
    assert cli.main("compare flash-attention-2 --engine recorded --json".split()) == 1
    assert strict(capsys.readouterr().out)["ok"] is False
    for arguments in (
        "standard --engine abacus",
        "standard --engine recorded --seed 12",
        "standard --engine recorded --q nowhere.npy",
        "standard --engine recorded --seqlen-q 0",
        "nowhere.safetensors --engine recorded",
        "standard --loudly",
    ):
        assert cli.main(["compare", *arguments.split()]) == 2, arguments
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
    Path("bad.safetensors").write_bytes(b"\xff" * 100)
    assert cli.main("compare bad.safetensors --engine recorded".split()) == 2


def test_a_saved_run_with_its_own_arrays_is_compared(tmp_path: Path, capsys: Captured) -> None:
    run = fs.record("flash-attention-1", inputs="fully-masked-row")
    run.save(tmp_path / "run.safetensors")
    assert cli.main(["compare", str(tmp_path / "run.safetensors"), "--engine", "recorded"]) == 0
    assert "agrees after every one of" in capsys.readouterr().out


def test_a_file_of_ones_own_is_compared(capsys: Captured, tmp_path: Path) -> None:
    text = KERNELS["online-softmax"].cuda_source.read_text("utf-8")
    own = tmp_path / "my.cu"
    own.write_text(text.replace("// step: write Y", "// step: wrote Y"), "utf-8")
    for engine, said in (
        ("cpu", "my.cu marks no step 'write Y' in online_softmax: it marks 'wrote Y'"),
        ("recorded", "check my.cu with --engine cpu or gpu"),
    ):
        assert cli.main(["compare", "online-softmax", "--engine", engine, "--source", str(own)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert said in err
    assert cli.main(["compare", "online-softmax", "--source", str(tmp_path / "none.cu")]) == 2
    assert "No such file" in capsys.readouterr().err
    if cpu.unavailable() is None:
        own.write_text(text.replace("li[r] = 0.0f", "li[r] = 1.0f"), "utf-8")
        assert cli.main(["compare", "online-softmax", "--engine", "cpu", "--source", str(own)]) == 1
        assert "first differs at step" in capsys.readouterr().out


@pytest.mark.skipif(cpu.unavailable() is not None, reason=str(cpu.unavailable()))
def test_a_missing_barrier_of_ones_own_exits_with_1(capsys: Captured, tmp_path: Path) -> None:
    text = KERNELS["flash-attention-2"].cuda_source.read_text("utf-8")
    at = text.index("__syncthreads();", text.index("// step: fill Sij"))
    own = tmp_path / "my.cu"
    own.write_text(text[:at] + text[at:].replace("__syncthreads();", "", 1), "utf-8")
    command = ["compare", "flash-attention-2", "--engine", "cpu", "--source", str(own)]
    assert cli.main(command) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("cpu engine: ThreadSanitizer finds a race for ")
    assert first.endswith("with no barrier between; its numbers agree")
    assert cli.main([*command, "--json"]) == 1
    told = strict(capsys.readouterr().out)
    assert (told["ok"], told["first_divergence"]) == (False, None)
    (found,) = told["findings"]  # which two threads are caught first is the machine's affair
    assert found.startswith("ThreadSanitizer finds a race for ")
    assert cli.main([*command, "--no-sanitize"]) == 0
    assert "the sanitizers that look for missing ones were left out" in capsys.readouterr().out


def test_what_was_not_foreseen_is_no_difference(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise KeyError("fill Sij")

    monkeypatch.setattr(cli, "compare_run", breaks)
    assert cli.main("compare standard --engine recorded --json".split()) == 2
    out, err = capsys.readouterr()
    assert strict(out)["ok"] is None
    assert err.splitlines()[-1] == "flashstep: This was not foreseen, and is a fault of Flashstep itself: KeyError: 'fill Sij'."


def test_too_much_shared_memory_is_noted_when_recorded(capsys: Captured, tmp_path: Path) -> None:
    sizes = "--seqlen-q 4 --seqlen-k 4 --head-dim 64 --block-rows 64 --block-cols 64"
    assert cli.main(["record", "flash-attention-2", *sizes.split(), "-o", str(tmp_path / "run.safetensors")]) == 0
    assert "49,152 bytes of static shared memory, and flash_attention_2 asks for 82,432" in capsys.readouterr().err
