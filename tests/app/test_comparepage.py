"""The compare page: what it tells was measured, the engine that it begins with, and the captures as links."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import flashstep as fs
from flashstep.app import measured
from flashstep.kernels.registry import KERNELS
from flashstep.trace import bounds

ROOT = Path(__file__).resolve().parents[2]


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


def test_the_measurements_are_those_of_the_newest_check() -> None:
    newest = max((ROOT / "benchmarks" / "results").glob("gpu-check-*.json"))
    wanted = measured.taken(json.loads(newest.read_text("utf-8")), f"benchmarks/results/{newest.name}")
    assert measured.measured() == wanted, "run python -m flashstep.app.measured on the newest results"
