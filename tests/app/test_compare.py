"""Comparisons over HTTP and on the command line: the verdict, the numbers behind it, and refusals before work."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from safetensors.numpy import load as tensors_of
from web import JSON, Start, is_sentence

import flashstep as fs
from flashstep.app import cli, compare, measured, verdicts
from flashstep.kernels.engines import compare as engine_compare
from flashstep.kernels.engines import cpu
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS
from flashstep.trace import bounds
from flashstep.trace.agreement import Agreement

Captured = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]
needs_compiler = pytest.mark.skipif(cpu.unavailable() is not None, reason="no C++ compiler here")


def ask(client: TestClient, **asked: Any) -> JSON:
    """Ask for a comparison and wait until it has ended."""
    response = client.post("/api/comparisons", json=asked)
    assert response.status_code == 200, response.text
    told: JSON = response.json()
    until = time.monotonic() + 120
    while told["state"] in ("queued", "running"):
        assert time.monotonic() < until
        time.sleep(0.05)
        told = {**told, **client.get(f"/api/comparisons/{told['id']}").json()}
    return told


def test_a_kernel_without_cuda_source_has_nothing_to_compare(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    source = tmp_path / "twin.py"
    source.write_bytes(KERNELS["standard"].source.read_bytes())
    monkeypatch.setitem(KERNELS, "newcomer", dataclasses.replace(KERNELS["standard"], name="newcomer", source=source))
    said = "Standard attention has no kernel.cu yet, so there is nothing to compare with its twin."
    response = client.post("/api/comparisons", json={"kernel": "newcomer", "engine": "cpu"})
    assert (response.status_code, response.json()["errors"]) == (422, {"kernel": said})
    page = client.get("/compare/newcomer")
    assert page.status_code == 404
    assert said in page.text
    assert client.get("/explore/newcomer").status_code == 200
    assert cli.main(["compare", "newcomer", "--engine", "cpu"]) == 2
    assert capsys.readouterr().err == f"flashstep: {said}\n"


def strict(text: str) -> Any:
    """JSON as a browser reads it: no NaN, no Infinity."""

    def never(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=never)


def wrong(monkeypatch: pytest.MonkeyPatch, slot: str = "li", value: float = float("nan")) -> None:
    """From the last tile on, let the kernel leave `value` in the first element of a slot."""
    real = engine_compare.execute

    def execute(run: fs.Run, engine: str, *others: Any) -> Any:
        plan, result, note = real(run, engine, *others)
        assert result.probes is not None
        probes = result.probes.copy()
        probes[[probe for probe in plan.probes if probe.slot == slot][-1].offset] = value
        return plan, dataclasses.replace(result, probes=probes), note

    monkeypatch.setattr(engine_compare, "execute", execute)


# What comes back


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_capture_agrees_and_its_numbers_are_the_agreements(client: TestClient, kernel: str) -> None:
    told = ask(client, kernel=kernel, engine="recorded")
    assert told["state"] == "done"
    verdict = strict(client.get(told["result"]).text)
    agreement = fs.compare(fs.record(kernel), "recorded")
    assert verdict["ok"] is agreement.ok is True
    assert verdict["worst"] == agreement.worst
    assert verdict["first_divergence"] is None
    assert verdict["device"] == agreement.device
    assert verdict["place"].startswith("NVIDIA H200, 20")
    assert verdict["steps"] == [[step.step, step.ok, step.worst] for step in agreement.steps]
    same_numbers(client.get(told["numbers"]).content, agreement)


def same_numbers(content: bytes, agreement: Agreement) -> None:
    """The file holds every number of the agreement, in its order."""
    found = tensors_of(content)
    (length,) = struct.unpack("<Q", content[:8])
    names = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["verdict"])["slots"]
    wanted = [(step.step, slot) for step in agreement.steps for slot in step.slots]
    wanted += [(-1, output) for output in agreement.outputs]
    assert len(found["index"]) == len(wanted)
    for n, (step, slot) in enumerate(wanted):
        where, name, rows, cols, at = (int(x) for x in found["index"][n])
        assert (where, names[name], (rows, cols)) == (step, slot.slot, slot.got.shape)
        for tensor in ("got", "want", "allowed"):
            np.testing.assert_array_equal(found[tensor][at : at + rows * cols].reshape(rows, cols), getattr(slot, tensor))
        assert tuple(found["stats"][n]) == (slot.max_abs, slot.max_rel, slot.max_ulp, slot.used)


def test_the_blocks_times_come_with_their_sms(client: TestClient) -> None:
    told = ask(client, kernel="flash-decoding", engine="recorded")
    found = tensors_of(client.get(told["numbers"]).content)
    first, second = found["times.0"], found["times.1"]
    assert first.shape == (2, 3)
    assert second.shape == (1, 3)
    assert min(first[:, 0]) == 0
    assert (first[:, 1] > first[:, 0]).all()
    assert second[0, 0] > first[:, 1].max()  # the second launch waits for the first
    assert ((first[:, 2] >= 0) & (first[:, 2] < 132)).all()


@needs_compiler
def test_the_cpu_engine_compiles_and_agrees(client: TestClient) -> None:
    told = ask(client, kernel="flash-attention-2", engine="cpu", seqlen_q=5, seqlen_k=7, head_dim=3, causal=True)
    verdict = strict(client.get(told["result"]).text)
    assert verdict["ok"]
    assert verdict["engine"] == "cpu"
    assert verdict["place"] == ""
    again = ask(client, kernel="flash-attention-2", engine="cpu", seqlen_q=5, seqlen_k=7, head_dim=3, causal=True)
    assert again["id"] == told["id"]


@pytest.mark.gpu
@pytest.mark.skipif(fs.engines()["gpu"] is not None, reason="no CUDA device here")
@pytest.mark.parametrize("fmad", [True, False])
def test_the_gpu_engine_agrees_with_and_without_fused_multiply_adds(client: TestClient, fmad: bool) -> None:
    told = ask(client, kernel="flash-attention-2", engine="gpu", fmad=fmad, seqlen_k=11, head_dim=5)
    verdict = strict(client.get(told["result"]).text)
    assert verdict["ok"]
    assert verdict["fmad"] is fmad
    assert verdict["device"]["sms"] > 0
    assert len(verdict["launches"]) == 1


def test_a_kernel_that_differs_says_where(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch)
    told = ask(client, kernel="flash-attention-2", engine="recorded")
    verdict = strict(client.get(told["result"]).text)
    assert verdict["ok"] is False
    found = verdict["first_divergence"]
    assert (found["slot"], found["row"], found["col"], found["got"]) == ("li", 0, 0, "nan")
    assert found["step"] == 17
    assert verdict["worst"] == "inf"
    assert verdict["verdict"].startswith("first differs at step 17 (")
    assert "li, row 0, column 0: NaN against" in verdict["verdict"]


def test_a_stale_capture_is_no_verdict(client: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(Source, "hash", "another")
    response = client.post("/api/comparisons", json={"kernel": "standard", "engine": "recorded"})
    assert response.status_code == 422
    said = response.json()["errors"]["engine"]
    assert "another kernel.cu" in said
    assert "check that with the cpu or gpu engine" in said
    if cpu.unavailable() is None:  # what the page begins with can say something
        embedded = re.search(r'id="explore">(.*?)</script>', client.get("/compare/standard").text)
        assert embedded
        assert json.loads(embedded[1])["engine"] in ("cpu", "gpu")
    assert cli.main("compare standard --engine recorded --json".split()) == 2
    out, err = capsys.readouterr()
    assert strict(out) == {"engine": "recorded", "ok": None, "reason": said}
    assert err == f"flashstep: {said}\n"


def test_a_kernel_with_a_misspelt_step_is_told_to_a_visitor(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "kernel"
    folder.mkdir()
    for name in ("twin.py", "kernel.cu"):
        text = KERNELS["standard"].source.with_name(name).read_text("utf-8")
        (folder / name).write_text(text.replace("// step: fill Sij", "// step: fil Sij"), "utf-8")
    monkeypatch.setitem(KERNELS, "standard", dataclasses.replace(KERNELS["standard"], source=folder / "twin.py"))
    response = client.post("/api/comparisons", json={"kernel": "standard", "engine": "recorded"})
    assert response.status_code == 422
    assert response.json()["errors"]["engine"].startswith("kernel.cu marks no step 'fill Sij' in scores: it marks 'fil Sij'")


def test_a_row_that_sees_no_key_is_compared(client: TestClient) -> None:
    told = ask(client, kernel="flash-attention-2", engine="recorded", inputs="fully-masked-row")
    assert strict(client.get(told["result"]).text)["ok"]
    assert np.isneginf(tensors_of(client.get(told["numbers"]).content)["got"]).any()


# What is refused


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        ({"kernel": "flash-attention-9", "engine": "cpu"}, "kernel", "no kernel called"),
        ({"kernel": "standard"}, "engine", "gpu, cpu, recorded"),
        ({"kernel": "standard", "engine": "abacus"}, "engine", "gpu, cpu, recorded"),
        ({"kernel": "standard", "engine": ["cpu"]}, "engine", "gpu, cpu, recorded"),
        ({"kernel": "standard", "engine": "cpu", "fmad": "perhaps"}, "fmad", "true or false"),
        ({"kernel": "standard", "engine": "cpu", "fmad": [1]}, "fmad", "true or false"),
        ({"kernel": "standard", "engine": "cpu", "seqlen_q": 0}, "seqlen_q", "from 1 to"),
        ({"kernel": "standard", "engine": "cpu", "values": "none"}, "values", "needs the numbers"),
        ({"kernel": "standard", "engine": "recorded", "seed": 9}, "engine", "was not captured"),
    ],
)
def test_a_refusal_names_its_field(client: TestClient, asked: JSON, field: str, words: str) -> None:
    response = client.post("/api/comparisons", json=asked)
    assert response.status_code == 422
    errors = response.json()["errors"]
    assert list(errors) == [field]
    assert words in errors[field]
    assert is_sentence(errors[field])


def test_what_is_too_large_is_refused_before_work_with_what_would_fit(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "record", None)
    large = {"kernel": "flash-attention-2", "engine": "cpu", "seqlen_q": 512, "seqlen_k": 512}
    response = client.post("/api/comparisons", json=large)
    assert response.status_code == 422
    sentence = response.json()["errors"]["seqlen_k"]
    fits = re.search(r"It would fit with block_rows and block_cols of (\d+), or with seqlen_q and seqlen_k of (\d+)\.", sentence)
    assert fits, sentence
    tile, length = int(fits[1]), int(fits[2])
    for size in (
        fs.estimate("flash-attention-2", seqlen_q=512, seqlen_k=512, block_rows=tile, block_cols=tile),
        fs.estimate("flash-attention-2", seqlen_q=length, seqlen_k=length),
    ):
        assert size.steps <= 8000
    wide: JSON = {"kernel": "flash-attention-2", "engine": "cpu", "seqlen_q": 1024, "seqlen_k": 1024, "head_dim": 512,
            "block_rows": 64, "block_cols": 64}  # fmt: skip
    said = client.post("/api/comparisons", json=wide).json()["error"]
    assert "MiB of numbers" in said
    fits = re.search(r"It would fit with seqlen_q and seqlen_k of (\d+)\. The command line has no such limit\.", said)
    assert fits, said
    small = {name: size for name, size in wide.items() if name not in ("kernel", "engine")} | {"seqlen_q": int(fits[1])}
    assert fs.estimate("flash-attention-2", **{**small, "seqlen_k": int(fits[1])}).value_bytes["all"] <= 8 * 2**20


def test_probes_of_wide_tiles_are_refused_before_the_engine_runs(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "every_engine", lambda: {"gpu": None, "cpu": None, "recorded": None})
    monkeypatch.setattr(engine_compare, "execute", None)
    wide = {"kernel": "standard", "engine": "cpu", "seqlen_q": 1, "seqlen_k": 64, "block_rows": 1024, "head_dim": 2}
    assert fs.estimate("standard", seqlen_q=1, seqlen_k=64, block_rows=1024, head_dim=2).value_bytes["all"] < 2000
    response = start(compare_probes=2**20).post("/api/comparisons", json=wide)
    assert response.status_code == 422
    sentence = response.json()["errors"]["block_rows"]
    assert "would write 1.9 MiB of whole tiles" in sentence
    assert is_sentence(sentence)


def test_an_engine_that_cannot_run_says_why(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"gpu": "The gpu engine found no device.", "cpu": None, "recorded": None}
    monkeypatch.setattr(compare, "every_engine", lambda: missing)
    listed = client.get("/api/engines").json()
    assert [(engine["name"], engine["available"], engine["missing"]) for engine in listed] == [
        (name, why is None, why) for name, why in missing.items()
    ]
    refused = client.post("/api/comparisons", json={"kernel": "standard", "engine": "gpu"})
    assert refused.status_code == 422
    assert refused.json()["errors"] == {"engine": missing["gpu"]}


def test_a_kernel_that_fails_is_one_sentence(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise fs.EngineError("The kernel ran for 60 seconds on the host and was stopped: does it end?")

    monkeypatch.setattr(engine_compare, "execute", fails)
    response = client.post("/api/comparisons", json={"kernel": "standard", "engine": "recorded"})
    assert response.status_code == 422
    assert "was stopped" in response.json()["errors"]["engine"]


def test_an_unforeseen_failure_is_not_told_to_a_visitor(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(engine_compare, "execute", breaks)
    response = client.post("/api/comparisons", json={"kernel": "standard", "engine": "recorded"})
    assert response.json()["state"] == "failed"
    assert response.json()["error"] == "The comparison failed; the server's log says why."


def test_one_that_is_not_kept_is_said(client: TestClient) -> None:
    for end in ("", "/result", "/numbers"):
        response = client.get(f"/api/comparisons/{'0' * 64}{end}")
        assert response.status_code == 404
        assert is_sentence(response.json()["error"])


def test_a_comparison_can_be_cancelled(start: Start) -> None:
    client = start(patience_seconds=0)
    sizes = {"seqlen_k": 2048, "block_cols": 4, "splits": 8}  # some thousand steps
    told = client.post("/api/comparisons", json={"kernel": "flash-decoding", "engine": "cpu", **sizes}).json()
    assert told["state"] in ("queued", "running")
    client.delete(f"/api/comparisons/{told['id']}?ticket={told['ticket']}")
    until = time.monotonic() + 60
    while (state := client.get(f"/api/comparisons/{told['id']}").json()["state"]) == "running":
        assert time.monotonic() < until
        time.sleep(0.05)
    assert state == ("cancelled" if cpu.unavailable() is None else "failed")
    assert client.get(told["result"]).status_code == 404


def test_nothing_of_a_visitor_is_compiled(client: TestClient) -> None:
    told = ask(client, kernel="standard", engine="recorded", source="#include <evil>", cuda="int main() {}")
    assert told["id"] == ask(client, kernel="standard", engine="recorded")["id"]


# The page


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_page_tells_what_was_measured(client: TestClient, kernel: str) -> None:
    page = client.get(f"/compare/{kernel}").text
    facts = measured.facts(kernel, "default")
    assert f"{facts['this']['changed_by_fmad']:,} of its {facts['this']['probed_numbers']:,} probed numbers" in page
    assert f"{facts['changed']:,} of {facts['numbers']:,} numbers" in page
    assert f"{facts['device']['device']} ({facts['device']['date']})" in page
    assert (bounds.__doc__ or "").strip().splitlines()[0].split("(")[0] in page
    assert page.count('aria-current="true"') == 1  # the capture of this problem


def test_the_page_begins_with_an_engine_that_can_run(client: TestClient) -> None:
    def engine(query: str) -> Any:
        embedded = re.search(r'<script type="application/json" id="explore">(.*?)</script>', client.get(query).text)
        assert embedded
        return json.loads(embedded[1])["engine"]

    assert engine("/compare/standard?engine=cpu") == "cpu"
    assert engine("/compare/standard?engine=abacus") == engine("/compare/standard")
    found = fs.engines()
    if found["gpu"] is not None:
        assert engine("/compare/standard") == "recorded"
        assert engine("/compare/standard?seed=77") == ("cpu" if found["cpu"] is None else "recorded")


def test_every_capture_is_a_link_to_itself(client: TestClient) -> None:
    page = client.get("/compare/flash-decoding").text
    links = re.findall(r'<li><a href="(/compare/flash-decoding\?engine=recorded[^"]*)"', page)
    assert len(links) == 13
    for link in links:
        opened = client.get(link.replace("&amp;", "&"))
        assert opened.status_code == 200
        assert re.findall(r'<a href="([^"]+)" aria-current="true"', opened.text) == [link]


def test_a_page_with_errors_compares_nothing(client: TestClient) -> None:
    page = client.get("/compare/standard?seqlen_q=0")
    assert page.status_code == 422
    assert "Nothing is compared yet" in page.text
    assert "compare/main.js\"></script>" not in page.text
    assert client.get("/compare/nothing").status_code == 404


# What was measured


def test_the_measurements_are_those_of_the_newest_check() -> None:
    newest = max((ROOT / "benchmarks" / "results").glob("gpu-check-*.json"))
    wanted = measured.taken(json.loads(newest.read_text("utf-8")), f"benchmarks/results/{newest.name}")
    assert measured.measured() == wanted, "run python -m flashstep.app.measured on the newest results"


def test_what_others_wrote_is_what_the_manifest_says() -> None:
    vendor = ROOT / "static" / "vendor"
    listed = json.loads((vendor / "manifest.json").read_text("utf-8"))
    for entry in listed:
        content = (vendor / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
        assert (vendor / entry["licence_file"]).is_file()
        assert b"new Function" not in content
    named = {entry["file"] for entry in listed} | {entry["licence_file"] for entry in listed} | {"manifest.json"}
    assert {path.relative_to(vendor).as_posix() for path in vendor.rglob("*") if path.is_file()} == named


# The command line


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


def test_a_large_share_is_a_number_of_times() -> None:
    assert [verdicts.share(x) for x in (0.341, 9.5, 677794.84, float("inf"))] == ["35 %", "950 %", "677,795 times", "∞"]


def test_shares_are_rounded_up() -> None:
    assert [verdicts.percent(x) for x in (0, 1e-9, 0.341, 0.34, 1.0, 12.345, float("inf"))] == [
        "0 %", "1 %", "35 %", "34 %", "100 %", "1,235 %", "∞",
    ]  # fmt: skip
