"""From a form's texts to a request: each error beside its field, nothing typed is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from web import Start, is_sentence

from flashstep.app import parameters
from flashstep.app.fields import fields
from flashstep.app.ownarrays import Array
from flashstep.app.parameters import Parsed
from flashstep.app.settings import Settings
from flashstep.kernels.registry import KERNELS

KEPT: dict[str, dict[str, Array]] = {
    "a" * 64: {name: np.zeros((6, 3), np.float32) for name in "qkv"},
    "b" * 64: {"x": np.zeros((3, 5), np.float32)},
    "c" * 64: {
        "q": np.zeros((6, 3), np.float32),
        "k": np.zeros((6, 2), np.float32),
        "v": np.zeros((6, 2), np.float32),
    },
}


def parse(kernel: str = "flash-attention-2", settings: Settings | None = None, **raw: object) -> Parsed:
    return read(raw, kernel, settings)


def read(
    raw: Mapping[str, object], kernel: str = "flash-attention-2", settings: Settings | None = None
) -> Parsed:
    return parameters.parse(KERNELS[kernel], raw, settings or Settings(), KEPT.get)


@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_said_is_the_textbooks_problem(kernel: str) -> None:
    parsed = parse(kernel)
    assert parsed.errors == {}
    assert parsed.request is not None
    assert parsed.request.parameters == KERNELS[kernel].defaults()


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_named_input_can_be_recorded_with_its_defaults(kernel: str) -> None:
    for preset in KERNELS[kernel].presets:
        parsed = parse(kernel, inputs=preset)
        assert parsed.errors == {}
        assert parsed.request is not None
        assert parsed.request.parameters == KERNELS[kernel].defaults(preset)


def test_texts_and_json_mean_the_same() -> None:
    texts = parse(seqlen_q="6", causal="on", scale="0.5", focus="0", values="all")
    values = parse(seqlen_q=6, causal=True, scale=0.5, focus=0, values="all")
    assert texts.request == values.request
    assert texts.request is not None
    assert texts.request.name() == values.request.name() if values.request else False


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("seqlen_q", "eight"), ("seqlen_q", "0"), ("seqlen_q", "-3"), ("seqlen_k", "8.5"), ("head_dim", "99999"),
        ("block_rows", "1e3"), ("block_cols", "٣"), ("heads", "99999999999999999999"), ("kv_heads", "3"),
        ("batch", "0x10"), ("causal", "perhaps"), ("scale", "nan"), ("scale", "1/2"), ("inputs", "gaussian"),
        ("seed", "-1"), ("values", "some"), ("focus", "7"), ("arrays", "f" * 64), ("arrays", "../../etc/passwd"),
    ],
)  # fmt: skip
def test_an_error_stands_beside_its_field_in_one_sentence(field: str, text: str) -> None:
    parsed = read({field: text})
    assert parsed.request is None
    assert list(parsed.errors) == [field]
    assert is_sentence(parsed.errors[field])
    assert parsed.texts[field] == text


def test_every_fault_is_told_at_once_and_every_text_comes_back() -> None:
    typed = {
        "seqlen_q": "0",
        "head_dim": "no",
        "block_rows": "-1",
        "scale": "x",
        "seed": "7",
        "values": "most",
    }
    parsed = read(typed)
    assert set(parsed.errors) == {"seqlen_q", "head_dim", "block_rows", "scale", "values"}
    assert {name: parsed.texts[name] for name in typed} == typed


def test_a_space_or_nothing_is_the_default() -> None:
    parsed = parse(seqlen_q=" 6 ", seqlen_k="", head_dim=" ", scale="", seed="")
    assert parsed.request is not None
    assert parsed.request.parameters["seqlen_q"] == 6
    assert parsed.request.parameters["seqlen_k"] == 8
    assert parsed.texts["seqlen_k"] == "8"


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("seqlen_q", "9" * 24, "“999999999999999999999999” is too large; write one such as 8."),
        ("seqlen_q", 10**30, "is too large; write one such as 8."),
        ("seqlen_q", "1e400", "“1e400” is not a whole number"),
        ("seqlen_q", json.loads("1e400"), "The number that was sent is too large; write one such as 8."),
        ("scale", json.loads("1e400"), "The number that was sent is too large; write one such as 0.5"),
        ("scale", "-1e400", "“-1e400” is too large; write one such as 0.5"),
        ("scale", "1e39", "that float32 holds"),
        ("scale", "inf", "“inf” is not a number"),
    ],
)
def test_a_number_too_large_is_called_so(field: str, value: object, says: str) -> None:
    parsed = read({field: value})
    assert list(parsed.errors) == [field]
    assert says in parsed.errors[field]
    assert is_sentence(parsed.errors[field])


@pytest.mark.parametrize("value", [True, [8], {"a": 1}, 8.5, float("nan")])
def test_json_of_the_wrong_kind_is_refused(value: object) -> None:
    assert set(parse(seqlen_q=value).errors) == {"seqlen_q"}


def test_a_minus_sign_as_it_is_printed_is_read() -> None:
    """U+2212, as our own captions write it: whoever copies a number from a page pastes this."""
    parsed = parse(scale="−0.5", seed="−3", seqlen_q="−4")
    assert list(parsed.errors) == ["seqlen_q"] or list(parsed.errors) == ["seqlen_q", "seed"]
    assert "is not a whole number" not in " ".join(parsed.errors.values())
    scaled = parse(scale="−0.5").request
    assert scaled is not None
    assert scaled.parameters["scale"] == -0.5


@pytest.mark.parametrize(("field", "text"), [("seqlen_q", "0"), ("block_rows", "0"), ("kv_heads", "3"), ("batch", "-1")])
def test_what_cannot_be_recorded_has_no_estimate(field: str, text: str) -> None:
    """The core's fault is put right to find the others; what was estimated then is not what was asked."""
    parsed = read({field: text})
    assert list(parsed.errors) == [field]
    assert parsed.request is None
    assert parsed.sizes is None
    assert parse().sizes is not None


def test_a_fault_of_no_field_stands_where_it_is_seen() -> None:
    plain, given = parse().request, parse(arrays="a" * 64).request
    assert plain is not None
    assert given is not None
    for request in (plain, given):
        for field in ("values", "focus", "block_rows"):
            assert parameters._place(request, field) == field
    assert parameters._place(given, "seqlen_q") == parameters._place(given, "q") == "arrays"
    assert parameters._place(plain, "q") == next(iter(KERNELS["flash-attention-2"].parameters))


def test_an_id_is_of_all_that_a_recording_depends_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def named(kernel: str = "flash-attention-2", **raw: str) -> str:
        request = read(raw, kernel).request
        assert request is not None
        return request.name()

    assert named() == named(seqlen_q="") == named(causal="false")
    assert len({named(), named(seed="5"), named(arrays="a" * 64), named(values="none"), named(kernel="standard")}) == 5
    before = named()
    with monkeypatch.context() as patch:
        patch.setattr(np, "__version__", "0.0")
        assert named() != before
    # The code that records, and the CUDA source that a trace holds.
    of = parameters.code_hash.__wrapped__
    files = {"trace/recorder.py": "a", "kernels/one/twin.py": "b", "kernels/one/kernel.cu": "c"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(parameters, "ROOT", tmp_path)
    seen = {of()}
    for name in files:
        (tmp_path / name).write_text("changed")
        seen.add(of())
    (tmp_path / "kernels/one/kernel.cu").rename(tmp_path / "kernels/one/other.cu")
    seen.add(of())
    assert len(seen) == 5
    (tmp_path / "kernels/one/notes.md").write_text("of no consequence")
    assert of() in seen


def test_what_is_no_parameter_is_left_alone() -> None:
    assert (
        parse(step="12", cell="li.2.0", order="together", theme="dark", utm_source="x").request
        == parse().request
    )


def test_a_recording_beyond_the_limits_is_refused_with_the_estimate_and_what_fits() -> None:
    long = parse(settings=Settings(max_steps=50), seqlen_q="400", seqlen_k="400")
    assert set(long.errors) == {"seqlen_k"}
    assert re.search(r"[\d,]+ steps", long.errors["seqlen_k"])
    large = parse(settings=Settings(value_bytes=100), values="all")
    assert set(large.errors) == {"values"}
    assert "would fit" in large.errors["values"]


def test_what_is_kept_follows_from_what_fits() -> None:
    everything, most, nothing = (parse(settings=Settings(value_bytes=size)) for size in (10_000, 1_300, 0))
    assert [p.request.kept if p.request else None for p in (everything, most, nothing)] == [
        "all",
        "focus",
        "none",
    ]


def test_the_focus_makes_another_recording_only_where_it_decides_what_is_kept() -> None:
    def name(size: int, focus: str) -> str:
        parsed = parse(settings=Settings(value_bytes=size), focus=focus)
        assert parsed.request is not None
        return parsed.request.name()

    assert name(10_000, "0") == name(10_000, "1")
    assert name(1_300, "0") != name(1_300, "1")


def test_own_arrays_decide_the_sizes() -> None:
    parsed = parse(arrays="a" * 64, seqlen_q="99", block_rows="2")
    assert parsed.errors == {}
    assert parsed.request is not None
    assert "seqlen_q" not in parsed.request.parameters
    assert (parsed.texts["seqlen_q"], parsed.texts["head_dim"], parsed.texts["block_rows"]) == ("6", "3", "2")
    form = {field.name: field for field in fields(KERNELS["flash-attention-2"], parsed)}
    assert form["seqlen_q"].fixed
    assert not form["block_rows"].fixed
    assert "inputs" not in form


@pytest.mark.parametrize(
    ("kernel", "arrays", "says"),
    [
        ("flash-attention-2", "d" * 64, "not kept here any more"),
        ("flash-attention-2", "b" * 64, "takes q, k and v"),
        ("online-softmax", "a" * 64, "takes one matrix x"),
        ("flash-attention-2", "c" * 64, "head dimension"),
        ("flash-decoding", "a" * 64, "seqlen_q should be 1"),
    ],
)
def test_arrays_that_cannot_be_used_say_why_beside_their_field(kernel: str, arrays: str, says: str) -> None:
    parsed = parse(kernel, arrays=arrays)
    assert list(parsed.errors) == ["arrays"]
    assert says in parsed.errors["arrays"]


def test_the_page_shows_the_errors_and_what_was_typed(client: TestClient) -> None:
    page = client.get("/explore/flash-attention-2?seqlen_k=many&head_dim=4&step=3&order=together")
    assert page.status_code == 422
    assert 'value="many"' in page.text
    assert 'aria-describedby="e-seqlen_k"' in page.text
    assert "“many” is not a whole number" in page.text
    assert '<input type="hidden" name="order" value="together">' in page.text
    assert 'player/main.js"></script>' not in page.text  # there is nothing to play


def test_a_link_to_arrays_that_are_gone_still_opens(client: TestClient) -> None:
    page = client.get("/explore/flash-attention-2?arrays=" + "0" * 64)
    assert page.status_code == 422
    assert "not kept here any more" in page.text
    assert 'id="parameters"' in page.text


def test_the_hand_sized_input_keeps_its_sizes(start: Start) -> None:
    answer = start().post(
        "/api/recordings", json={"kernel": "flash-attention-2", "inputs": "hand", "seqlen_k": 9}
    )
    assert answer.status_code == 422
    assert list(answer.json()["errors"]) in (["inputs"], ["seqlen_k"])
