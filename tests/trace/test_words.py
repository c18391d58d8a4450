"""Numbers as people read them; half away from zero, as a browser's toFixed rounds the exact value."""

from __future__ import annotations

import math

import pytest

import flashstep as fs
from flashstep.trace import words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-3.0, "−3"),
        (0.5, "0.5000"),
        (0.60226, "0.6023"),
        (0.03125, "0.0313"),  # an exact tie goes away from zero
        (-0.03125, "−0.0313"),
        (0.00005, "0.0001"),
        (0.000049, "4.900e−5"),
        (1234567.0, "1234567"),
        (1234567.5, "1.235e6"),
        (16777216.0, "16777216"),
        (16777218.0, "1.678e7"),
        (999999.0, "999999"),
        (-9.9996e7, "−1.000e8"),
        (1e-45, "1.000e−45"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "NaN"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert words.number(value) == text


def test_tiles_beyond_nine_are_kept_apart() -> None:
    trace = fs.record("flash-attention-2", seqlen_q=4, seqlen_k=24, block_rows=2, block_cols=2).trace
    fills = [step.label for step in trace.steps if step.name == "fill Sij"]
    assert fills[9:12] == ["fill S09", "fill S0,10", "fill S0,11"]


def test_paths() -> None:
    trace = fs.record("flash-attention-1", heads=2, batch=2).trace
    assert trace.steps[0].path == ()
    paths = [step.path for step in trace.steps if step.name == "fill Sij"]
    assert paths[0] == ("flash attention 1", "block 0 · head = 0, batch = 0", "j = 0", "i = 0")
    assert paths[-1] == ("flash attention 1", "block 3 · head = 1, batch = 1", "j = 1", "i = 1")
    softmax = fs.record("online-softmax").trace
    assert softmax.steps[2].path == ("online softmax", "block 0 · i = 0", "first sweep: maximum and sum", "j = 0")


@pytest.mark.parametrize("kernel", fs.kernels)
def test_every_field_of_every_label_and_caption_is_filled(kernel: str) -> None:
    for values in ("all", "none"):
        for asked in ({}, {"seqlen_k": 3, "heads": 2}, {"inputs": "fully-masked-row"}, {"inputs": "first-tile-masked"}):
            for step in fs.record(kernel, values=values, **asked).trace.steps:
                for text in (step.label, step.caption, *step.path):
                    assert text
                    assert not {"{", "}"} & set(text), text


def test_captions_speak_the_steps_own_numbers() -> None:
    trace = fs.record("flash-attention-2", seqlen_k=32, seed=4).trace
    rises = keeps = 0
    for step in trace.steps:
        if step.name != "update m, l, O" or step.loops == (0,):
            continue
        before, after = trace.state(step.index - 1)["mi"], trace.state(step.index)["mi"]
        alpha = trace.state(step.index)["alpha"]
        if after[0] > before[0]:
            rises += 1
            old, new, shrink = (words.number(x[0]) for x in (before, after, alpha))
            assert f"rises from {old} to {new}, so α = {shrink}" in step.caption
        else:
            keeps += 1
            assert f"keeps its maximum {words.number(after[0])}, so α = 1" in step.caption
        assert f"rises in {(after > before).sum()} of 4 rows" in step.caption
    assert rises
    assert keeps


def test_the_walk_is_the_steps_as_text() -> None:
    trace = fs.record("flash-decoding").trace
    lines = list(trace.walk())
    for step in trace.steps:
        assert any(line.strip() == f"step {step.index} of 23: {step.label}" for line in lines)
        assert any(line.strip() == step.caption for line in lines)
    assert lines.count("launch 2: combine") == 1


def test_a_tile_beyond_nine_has_a_comma() -> None:
    trace = fs.record("flash-attention-2", seqlen_q=12, seqlen_k=12, block_rows=1, block_cols=1).trace
    fills = [step.label for step in trace.steps if step.name == "fill Sij"]
    assert fills[:12] == [*(f"fill S0{j}" for j in range(10)), "fill S0,10", "fill S0,11"]
    assert fills[9 * 12 : 9 * 12 + 11] == [*(f"fill S9{j}" for j in range(10)), "fill S9,10"]
    assert fills[10 * 12 : 10 * 12 + 2] == ["fill S10,0", "fill S10,1"]
