"""Comparisons as the tests ask for them, and a kernel that is made to differ."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

import pytest
from fastapi.testclient import TestClient
from web import JSON

import flashstep as fs
from flashstep.kernels.engines import compare as engine_compare


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
