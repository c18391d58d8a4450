"""Comparisons over HTTP: the verdict, the numbers behind it, and refusals before work."""

from __future__ import annotations

import dataclasses
import json
import re
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Captured
from comparisons import ask, strict, wrong
from fastapi.testclient import TestClient
from safetensors.numpy import load as tensors_of
from web import JSON, Start, is_sentence

import flashstep as fs
from flashstep.app import cli, compare
from flashstep.kernels.engines import compare as engine_compare
from flashstep.kernels.engines import cpu
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS
from flashstep.trace.agreement import Agreement

needs_compiler = pytest.mark.skipif(cpu.unavailable() is not None, reason="no C++ compiler here")


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


def test_what_an_engine_found_besides_is_the_verdict(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = engine_compare.judge
    found = ("scores wrote beyond the end of S", "softmax wrote beyond the end of P")

    def judged(*given: Any) -> Agreement:
        return dataclasses.replace(judge(*given), findings=found, note="A note.")

    monkeypatch.setattr(engine_compare, "judge", judged)
    verdict = strict(client.get(ask(client, kernel="standard", engine="recorded")["result"]).text)
    assert (verdict["ok"], verdict["first_divergence"]) == (False, None)
    assert verdict["verdict"] == "scores wrote beyond the end of S; its numbers agree"
    assert verdict["note"] == "softmax wrote beyond the end of P. A note."


@needs_compiler
def test_a_cache_that_cannot_be_written_hinders_no_comparison(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASHSTEP_CACHE", "/proc/nonexist")
    told = ask(client, kernel="online-softmax", engine="cpu")
    assert strict(client.get(told["result"]).text)["ok"]


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
