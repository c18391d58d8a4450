"""`flashstep compare --all`: every captured problem, one after another, and what came of all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Captured, complaint, notes
from comparisons import strict

import flashstep as fs
from flashstep.app import allproblems, cli
from flashstep.kernels.engines import cpu
from flashstep.kernels.engines.capture import problems
from flashstep.kernels.registry import KERNELS

pytestmark = pytest.mark.usefixtures("empty_folder")
compiled = pytest.mark.skipif(cpu.unavailable() is not None, reason=str(cpu.unavailable()))


@pytest.mark.parametrize("kernel", ["standard", "online-softmax"])
def test_every_captured_problem_is_compared(kernel: str, capsys: Captured) -> None:
    assert cli.main(["compare", kernel, "--all", "--engine", "recorded"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    names = [name.replace("-", " ") for name in problems(KERNELS[kernel])]
    assert [line[:22].strip() for line in lines] == names
    assert all("agrees after every one of" in line for line in lines)
    assert last == f"{len(names)} of {len(names)} problems agree."
    assert cli.main(["compare", kernel, "--all", "--engine", "recorded", "--json"]) == 0
    told = strict(capsys.readouterr().out)
    assert (told["kernel"], told["engine"], told["ok"]) == (kernel, "recorded", True)
    for problem, (name, asked) in zip(told["problems"], problems(KERNELS[kernel]).items(), strict=True):
        assert (problem.pop("problem"), problem.pop("parameters")) == (name, asked)
        assert problem == fs.compare(fs.record(kernel, values="all", **asked), "recorded").to_json()


@pytest.mark.parametrize(
    ("differ", "fail", "code", "last"),
    [
        (("causal", "ragged"), (), 1, "these do not: ragged and causal."),
        (("causal",), ("ragged",), 1, "these do not: causal; these could not be compared: ragged."),
        ((), ("zero-keys",), 2, "these could not be compared: zero keys."),
    ],
)
def test_the_exit_code_is_that_of_all(
    differ: tuple[str, ...], fail: tuple[str, ...], code: int, last: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(list(problems(KERNELS["standard"])) * 2)

    def compare(run: fs.Run, engine: str, **_: Any) -> fs.Agreement:
        name = next(names)
        if name in fail:
            raise fs.EngineError("The kernel crashed.")
        found = fs.compare(run, engine)
        return replace(found, findings=("two threads race",)) if name in differ else found

    monkeypatch.setattr(cli, "compare_run", compare)
    assert cli.main("compare standard --all --engine recorded".split()) == code
    out = capsys.readouterr().out.splitlines()
    assert out[-1].endswith(last)
    for line in out[:-1]:
        name = line[:22].strip().replace(" ", "-")
        assert ("two threads race; its numbers agree" in line) == (name in differ)
        assert ("not compared: The kernel crashed." in line) == (name in fail)
    assert cli.main("compare standard --all --engine recorded --json".split()) == code
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is (False if code == 1 else None)
    assert [problem["problem"] for problem in told["problems"] if problem["ok"] is None] == list(fail)


def test_all_has_its_own_problems(capsys: Captured) -> None:
    said = complaint(capsys, *"compare standard --all --seqlen-q 4 --engine recorded".split(), code=2)
    assert "leave out its parameters and arrays, or leave out --all" in said
    said = complaint(capsys, *"compare run.safetensors --all --engine recorded".split(), code=2)
    assert "run.safetensors is none; the kernels are standard, " in said


def test_what_is_the_same_for_every_problem_is_said_once(capsys: Captured, tmp_path: Path) -> None:
    own = tmp_path / "my.cu"
    own.write_text(KERNELS["standard"].cuda_source.read_text("utf-8").replace("// step: write P", "// step: wrote P"), "utf-8")
    said = complaint(capsys, *f"compare standard --all --engine cpu --source {own}".split(), code=2)
    assert "marks no step 'write P'" in said


@compiled
def test_a_fault_that_the_default_problem_hides_is_found(capsys: Captured, tmp_path: Path) -> None:
    """rows = Br is right wherever Br divides the queries."""
    text = KERNELS["flash-attention-2"].cuda_source.read_text("utf-8")
    own = tmp_path / "my.cu"
    own.write_text(text.replace("rows = min(Br, seqlen_q - i * Br)", "rows = Br"), "utf-8")
    command = f"compare flash-attention-2 --engine cpu --no-sanitize --source {own}".split()
    assert cli.main(command) == 0
    capsys.readouterr()
    assert cli.main([*command, "--all"]) == 1
    out = capsys.readouterr().out
    (ragged,) = (line for line in out.splitlines() if line.startswith("ragged"))
    assert "flash_attention_2 wrote beyond the end of O: at element 21, and it has 21" in ragged
    assert "these do not: ragged, causal more queries, grouped heads, wide and long decode." in out


@compiled
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_problems_with_a_nan_agree_and_show_what_drops_or_spreads_it(kernel: str, tmp_path: Path) -> None:
    """fmaxf drops a NaN, and 0 times a hidden one is NaN."""
    text = KERNELS[kernel].cuda_source.read_text("utf-8")
    faults = {
        "visible-NaN": ("return (a > b || a != a) ? a : b;", "return fmaxf(a, b);"),
        "hidden-NaN": {"flash-decoding": ("if (maskj[c]) Oi", "Oi"), "standard": ("if (visible) Oi", "Oi")}.get(
            kernel, ("if (visible)  //", "//")
        ),
    }
    nan = {name: asked for name, asked in allproblems.problems(kernel, "cpu").items() if name.endswith("-NaN")}
    assert not any(name.endswith("-NaN") for name in allproblems.problems(kernel, "recorded"))
    assert set(nan) == ({"visible-NaN"} if KERNELS[kernel].matrix else set(faults))
    for name, asked in nan.items():
        named = dict(asked)
        run = fs.record(kernel, *named.pop("arrays"), values="all", **named)
        assert fs.compare(run, "cpu").ok
        out = run.outputs["Y" if KERNELS[kernel].matrix else "O"]
        assert np.isnan(out).any() == (name == "visible-NaN")
        was, becomes = faults[name]
        assert was in text
        own = tmp_path / "my.cu"
        own.write_text(text.replace(was, becomes), "utf-8")
        assert fs.compare(run, "cpu", source=own, sanitize=False).first_divergence is not None, name


def test_no_sanitize_without_a_source_is_said_to_be_in_vain(capsys: Captured) -> None:
    (said,) = notes(capsys, *"compare standard --engine recorded --no-sanitize".split())
    assert "there is no use for --no-sanitize" in said
