"""The lesson on flash decoding: the reader's own decode, live and on the page, and tables that equal what was measured."""

from __future__ import annotations

import json
import re
from functools import cache
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from fastapi.testclient import TestClient
from web import JSON, is_sentence

import flashstep as fs
from flashstep.app import occupancy, splits
from flashstep.app.lessons import LESSONS, read
from flashstep.kernels.registry import KERNELS

RESULTS = max((Path(__file__).resolve().parents[2] / "benchmarks" / "results").glob("decode-*.json"))
PAGE = "/lessons/flash-decoding"
LONG = 65_536
SIZES = [
    {},
    {"batch": 64},
    {"heads": 1, "seqlen_k": 3},
    {"seqlen_k": 0},
    {"seqlen_k": 1, "sms": 1},
    {"batch": 3, "heads": 71, "kv_heads": 1, "head_dim": 64, "sms": 108},
    {"heads": 132},
    {"heads": 8, "kv_heads": 2, "seqlen_k": 1_000, "sms": 1_000},
]


@cache
def results() -> JSON:
    """The newest measurements, as the file has them."""
    found: JSON = json.loads(RESULTS.read_text("utf-8"))
    return found


def asked(client: TestClient, sizes: dict[str, int]) -> JSON:
    answer = client.get("/api/splits", params={name: str(value) for name, value in sizes.items()})
    assert answer.status_code == 200
    found: JSON = answer.json()
    return found


def plain(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def cells(html: str) -> list[list[str]]:
    """Every table row of the page, as texts."""
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [[plain(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)] for row in rows]


# ---- the reader's own decode


def test_one_sequence_of_32_heads_leaves_100_of_132_sms_idle(client: TestClient) -> None:
    found = asked(client, {})
    assert found["sizes"] == {"batch": 1, "heads": 32, "kv_heads": 32, "seqlen_k": LONG, "head_dim": 128, "sms": 132}
    assert (found["unsplit"]["blocks"], found["unsplit"]["busy"], found["unsplit"]["idle"]) == (32, 32, 100)
    assert "100 of the GPU's 132 SMs have nothing to do" in found["said"]["idle"]
    assert asked(client, {"sms": 108})["unsplit"]["idle"] == 76
    assert "none need be idle" in asked(client, {"batch": 64})["said"]["idle"]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_engines_are_those_of_splits(client: TestClient, sizes: dict[str, int]) -> None:
    found = asked(client, sizes)
    full = found["sizes"]
    wanted = splits.choices(**full)
    assert [(one["engine"], one["splits"], one["why"], one["source"]) for one in found["engines"]] == [
        (one.engine, one.splits, one.why, one.source) for one in wanted
    ]
    counts = [one.splits for one in wanted]
    for told in (min(counts), max(counts)):
        assert f"{told:,}" in found["said"]["choice"] or "none of the five" in found["said"]["choice"]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_blocks_waves_and_busy_sms_add_up(client: TestClient, sizes: dict[str, int]) -> None:
    found = asked(client, sizes)
    full, sms = found["sizes"], found["sizes"]["sms"]
    for row in (found["unsplit"], *found["counts"]):
        size = -(-full["seqlen_k"] // row["splits"])
        ranges = [(min(s * size, full["seqlen_k"]), min((s + 1) * size, full["seqlen_k"])) for s in range(row["splits"])]
        working = max(1, sum(start < end for start, end in ranges))
        assert row["blocks"] == full["batch"] * full["heads"] * working
        assert row["busy"] + row["idle"] == sms
        assert (row["waves"] - 1) * sms < row["blocks"] <= row["waves"] * sms
        assert row["share"] == f"{100 * row['blocks'] / row['waves'] / sms:.0f} %"
    if found["split"] is not None:
        assert found["split"]["busy"] > found["unsplit"]["busy"]
    for picture in found["picture"].values():
        assert (picture["busy"] + picture["idle"]).count("M") == sms
    assert found["picture"]["unsplit"]["busy"].count("M") == found["unsplit"]["busy"]


def test_every_sentence_is_one_at_any_sizes(client: TestClient) -> None:
    for batch, heads, keys, sms in product((1, 2, 132), (1, 5, 132), (0, 1, 2, 500), (1, 2, 133)):
        found = asked(client, {"batch": batch, "heads": heads, "seqlen_k": keys, "sms": sms})
        for said in found["said"].values():
            assert is_sentence(said), said
            assert not re.search(r"\b1 (SMs|heads|keys|blocks|sequences|numbers|splits)\b", said), said
            assert not re.search(r"\b(?!1 )[\d,]*[02-9] (SM|head|key|block|sequence|number|split)\b", said), said


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"batch": "x"}, "batch"), ({"batch": "0"}, "batch"), ({"heads": "-1"}, "heads"), ({"kv_heads": "5"}, "kv_heads"),
        ({"seqlen_k": "1e9"}, "seqlen_k"), ({"seqlen_k": "9" * 400}, "seqlen_k"),
        ({"head_dim": "0"}, "head_dim"), ({"sms": "1001"}, "sms"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_its_field(client: TestClient, sent: dict[str, str], field: str) -> None:
    answer = client.get("/api/splits", params=sent)
    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [field]
    assert is_sentence(answer.json()["errors"][field])
    # On the page the sentence stands beside the field, and the text goes on with the usual sizes.
    page = client.get(PAGE, params={occupancy.PREFIX + name: text for name, text in sent.items()})
    assert page.status_code == 200
    shown = re.findall(rf'id="(?:idle|choice)-{field}-error">([^<]*)<', page.text)
    assert [unescape(text) for text in shown] == 2 * [answer.json()["errors"][field]]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_page_says_what_the_api_says(client: TestClient, sizes: dict[str, int]) -> None:
    """Without a script the form is sent with the page's address, and the server writes the same."""
    found = asked(client, sizes)
    text = plain(client.get(f"{PAGE}?{urlencode({occupancy.PREFIX + name: value for name, value in sizes.items()})}").text)
    for said in found["said"].values():
        assert said in text
    for one in found["engines"]:
        assert f"{one['engine']} {one['splits']:,} {one['why']}" in text


def test_what_was_typed_stays_in_the_form(client: TestClient) -> None:
    long = "12345678901234567890123456789012345678901234567890"
    sent = {"heads": "abc", "kv_heads": "5", "seqlen_k": long, "sms": "-3", "batch": "NaN"}
    page = client.get(PAGE, params={f"my-{name}": text for name, text in sent.items()})
    assert page.status_code == 200
    for name, text in sent.items():
        shown = re.findall(rf'<input type="text"[^>]* name="my-{name}" value="([^"]*)"', page.text)
        assert shown == 2 * [text], name  # in both forms
    said = unescape(page.text)
    assert f"“{long[: occupancy.TOLD]} …” will not do; write a whole number from 0 to 67,108,864." in said
    assert "“-3” will not do; write a whole number from 1 to 1,000." in said
    assert "cannot share" not in said  # 5 may divide the heads that were meant
    assert len(re.findall(r'name="my-\w+"[^>]* aria-invalid="true"', page.text)) == 2 * 4


def test_leading_zeros_are_a_number_all_the_same(client: TestClient) -> None:
    assert asked(client, {})["sizes"]["sms"] == client.get("/api/splits?sms=000000000000132").json()["sizes"]["sms"] == 132


def test_a_decode_stays_in_the_address(client: TestClient) -> None:
    page = client.get(f"{PAGE}?seqlen_k=6&my-heads=8&theme=dark").text
    form = re.search(r'<form[^>]*class="decode-form".*?</form>', page, re.DOTALL)
    assert form
    assert '<input type="hidden" name="seqlen_k" value="6">' in form[0]  # the run stays when the form is sent
    bar = re.search(r'<form id="parameters".*?</form>', page, re.DOTALL)
    assert bar
    assert '<input type="hidden" name="my-heads" value="8">' in bar[0]  # and the decode when the run is asked anew
    links = re.findall(r'href="([^"]*step=\d+[^"]*)"', page)
    assert links
    assert all("my-heads=8" in link for link in links)


def test_what_a_query_holds_stays_text(client: TestClient) -> None:
    hostile = '"><b id=x>\n```\n[a](/b)'
    page = client.get(PAGE, params={"my-batch": hostile, "other": hostile, "seqlen_k": "4"})
    assert page.status_code == 200
    assert "<b id=x>" not in page.text
    assert 'href="/b"' not in page.text
    assert page.text.count('class="decode-form"') == 2


# ---- what was measured


@cache
def lesson() -> str:
    run = fs.record("flash-decoding", values="all")
    return read(LESSONS["flash-decoding"], run).html


def rows_of(keys: int) -> list[JSON]:
    return [row for row in results()["lesson"] if row["keys"] == keys]


def best_of(keys: int) -> JSON:
    """The least number of splits within 1 % of the fastest."""
    split = [row for row in rows_of(keys) if row["splits"] > 1]
    within = [row for row in split if row["us"] <= 1.01 * min(row["us"] for row in split)]
    return min(within, key=lambda row: row["splits"])


def told(us: float) -> str:
    return f"{us:,.0f}" if us >= 100 else f"{us:.1f}"


def chart(title: str) -> tuple[JSON, str]:
    """A chart's data, and the table below it."""
    figures = re.findall(r'<figure class="chart" data-chart="([^"]*)">(.*?)</figure>', lesson(), re.DOTALL)
    found = [(json.loads(unescape(data)), html) for data, html in figures]
    return next((data, html) for data, html in found if title in data["title"])


def test_the_curves_are_the_results() -> None:
    data, table = chart("One decoded token")
    lengths = [str(512 << n) for n in range(9)]
    for label, curve in data["series"].items():
        assert list(curve) == lengths, label
    series = data["series"]
    for keys in map(int, lengths):
        at = str(keys)
        assert series["lesson kernel, unsplit (fp32)"][at] == next(row["us"] for row in rows_of(keys) if row["splits"] == 1)
        assert series["lesson kernel, split (fp32)"][at] == best_of(keys)["us"]
        standard = next(row for row in results()["standard"] if row["keys"] == keys)
        assert series["lesson kernels, standard (fp32)"][at] == standard["us"]
        for path, dtype, label in (
            ("PyTorch FlashAttention-2", "float16", "PyTorch FlashAttention-2 (fp16)"),
            ("PyTorch cuDNN", "float16", "PyTorch cuDNN (fp16)"),
            ("PyTorch math (unfused)", "float32", "PyTorch math (unfused) (fp32)"),
            ("PyTorch memory-efficient", "float32", "PyTorch memory-efficient (fp32)"),
        ):
            row = next(r for r in results()["pytorch"] if (r["path"], r["dtype"], r["keys"]) == (path, dtype, keys))
            assert series[label][at] == row["us"]
    assert results()["device"]["device"] in data["title"]
    rows = {row[0]: row[1:] for row in cells(table)}
    assert rows["keys"] == list(series)
    for at in lengths:
        assert rows[f"{int(at):,}"] == [told(curve[at]) for curve in series.values()]


def test_the_times_by_splits_are_the_results() -> None:
    data, _ = chart("number of splits")
    for label, curve in data["series"].items():
        keys = int(label.split()[0].replace(",", ""))
        assert curve == {str(row["splits"]): row["us"] for row in rows_of(keys)}
    assert len(data["series"]) == 3


def test_the_combines_share_is_the_results() -> None:
    rows = cells(lesson())
    for keys in (512 << n for n in range(9)):
        best = best_of(keys)
        split, combine = (kernel["us"] for kernel in best["kernels"])
        share = f"{100 * combine / (split + combine):.2f} %"
        found = next(row for row in rows if row[0] == f"{keys:,}" and len(row) == 5)
        assert found[1] == str(best["splits"])
        assert float(found[2].replace(",", "")) == pytest.approx(split, abs=0.051)
        assert float(found[3]) == pytest.approx(combine, abs=0.051)
        assert found[4] == share


def test_the_table_of_three_decodes_is_the_results() -> None:
    rows = {row[0]: row[1:] for row in cells(lesson()) if len(row) == 4}
    standard = next(row for row in results()["standard"] if row["keys"] == LONG)
    unsplit = next(row for row in rows_of(LONG) if row["splits"] == 1)
    three = (standard, unsplit, best_of(LONG))
    for at, row in enumerate(three):
        for name, launch in row["launches"].items():
            assert f"{name} {launch['blocks']:,}" in rows["blocks that run in parallel"][at]
            assert f"{name} {launch['sms']}" in rows["SMs that run blocks"][at]
            assert f"{name} {100 * launch['busy']:.0f} %" in rows["busy, of all SMs' time"][at]
        assert float(rows["time"][at].removesuffix(" ms")) == pytest.approx(row["us"] / 1000, abs=0.0051)
    heads, d = results()["problem"]["heads"], results()["problem"]["head_dim"]
    sizes = [2 * heads * LONG * 4, *(heads * row["splits"] * (d + 2) * 4 for row in three[1:])]
    assert rows["memory for intermediates"] == [f"{size:,} bytes" for size in sizes]


def test_the_claims_are_told_with_their_verdicts() -> None:
    remarks = re.findall(r'<aside class="remark"[^>]*>(.*?)</aside>', lesson(), re.DOTALL)
    assert len(results()["claims"]) == 5
    for claim in results()["claims"]:
        remark = next(one for one in remarks if claim["claim"] in plain(one))
        said = plain(remark)
        assert said.lower().startswith(claim["verdict"])
        over, _, curves = claim["measured"].partition(": ")
        if re.fullmatch(r"64k over \w+", over):  # of many curves: they stand in a table
            assert [" ".join(row).strip() for row in cells(remark)] == [over, *curves.removesuffix(".").split("; ")]
        else:
            assert claim["measured"] in said
        assert claim["words"] in said


# ---- the partials


RUNS: list[dict[str, Any]] = [{}, {"splits": 8, "seqlen_k": 5}, {"inputs": "decode"}, {"seqlen_k": 30, "splits": 10}]


@pytest.mark.parametrize("sizes", RUNS, ids=str)
def test_both_ways_to_merge_are_told_and_equal(sizes: dict[str, Any]) -> None:
    defaults = KERNELS["flash-decoding"].defaults(sizes.get("inputs", "random"))
    run = fs.record("flash-decoding", values="all", **{**defaults, **sizes})
    text = plain(read(LESSONS["flash-decoding"], run).html)
    state = run.trace.state(len(run.trace.steps) - 1)
    m, l, O = (np.asarray(state[f"{name}_partial"], np.float64)[0, 0] for name in ("m", "l", "O"))
    w = np.exp(m - m.max())
    normalised = np.divide(O[:, 0], l, out=np.zeros_like(l), where=l > 0)
    one, other = (w * O[:, 0]).sum() / (w * l).sum(), (w * l * normalised).sum() / (w * l).sum()
    assert one == pytest.approx(other, rel=1e-12)
    assert one == pytest.approx(run.outputs["O"][0, 0, 0, 0], abs=2e-6)
    found = re.search(r"Unnormalised: \S+ ÷ \S+ = (\S+) \. Normalised: \S+ ÷ \S+ = (\S+) \. The kernel wrote (\S+)\.", text)
    assert found
    assert len(set(found.groups())) == 1
    assert float(found[1].replace("−", "-")) == pytest.approx(one, abs=5.1e-5)
