"""One HTML file of a run: whole, the same each time, deaf to what a trace's texts say, and bounded."""

from __future__ import annotations

import base64
import gzip
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from web import Start, Tags, is_sentence, services_of

import flashstep as fs
from flashstep.app import assets, cli, export, takeaway
from flashstep.app.lessons import LESSONS
from flashstep.trace import file
from flashstep.trace.layout import TraceError
from flashstep.trace.trace import Trace

HOSTILE = "</script></style></title><script>alert(1)</script><!--<img src=https://evil.example/ onerror=alert(2)> & \u2028 ' \""


@pytest.fixture(scope="module")
def run() -> fs.Run:
    return fs.record("flash-attention-2", causal=True)


@pytest.fixture(scope="module")
def html(run: fs.Run) -> str:
    return export.page(run.to_bytes(), {"step": "8", "cell": "li.1.0"})


def modules(page: str) -> dict[str, str]:
    """The texts of the modules inside a page, by the names that they import each other by."""
    (text,) = re.findall(r'<script type="importmap"[^>]*>(.*?)</script>', page)
    found: dict[str, str] = json.loads(text)["imports"]
    return {name: base64.b64decode(address.split(",", 1)[1]).decode() for name, address in found.items()}


def test_the_page_holds_the_trace_the_sources_and_the_place(run: fs.Run, html: str) -> None:
    tags = Tags(html)
    data, packed = tags.scripts[-3:-1]
    assert gzip.decompress(base64.b64decode(packed)) == run.to_bytes()
    assert json.loads(data)["at"] == "step=8&cell=li.1.0"
    for name, text in run.trace.meta.sources.items():
        listing = json.loads(data)["sources"][name]["html"]
        assert unescape(re.sub(r"<[^>]+>", "", listing)).strip("\n") == text.strip("\n")


def test_the_same_trace_gives_the_same_page(run: fs.Run, html: str) -> None:
    assert export.page(run.to_bytes(), {"step": "8", "cell": "li.1.0"}) == html
    assert export.page(run.to_bytes(), {"step": "9", "cell": "li.1.0"}) != html


def test_the_modules_are_the_players_and_import_each_other(html: str) -> None:
    found = modules(html)
    assert set(found) == {"flashstep/" + name for name in assets.modules("player/saved.js")}
    assert "flashstep/player/figure/figure.js" in found
    for name, text in found.items():
        for target in re.findall(r"""^\s*(?:import|export)\b[^;=(]*["']([^"']+)["'];""", text, re.M):
            assert target in found, name
        assert "fetch(" not in text, f"{name} asks a server that is not there"


def test_the_policy_forbids_the_network_and_what_was_not_put_in(html: str) -> None:
    tags = Tags(html).tags
    head = [tag for tag in tags if tag[0] in ("meta", "script", "style", "link")]
    assert head[0] == ("meta", {"charset": "utf-8"})
    assert head[1][1]["http-equiv"] == "Content-Security-Policy"
    policy = dict(part.strip().split(" ", 1) for part in (head[1][1]["content"] or "").split(";"))
    nonce = policy["script-src"].removeprefix("'nonce-").removesuffix("'")
    assert policy == {
        "default-src": "'none'", "script-src": f"'nonce-{nonce}'", "style-src": f"'nonce-{nonce}'", "img-src": "data: blob:",
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip
    for tag, attributes in tags:
        assert not {"style", "onclick", "onload", "onerror"} & attributes.keys()
        address = attributes.get("src") or attributes.get("href") or "#"
        assert address.startswith(("#", "data:")), (tag, attributes)


def hostile(run: fs.Run) -> Trace:
    """A trace whose every text tries to leave the place that it is put in."""
    trace, meta = run.trace, run.trace.meta
    steps = tuple(replace(step, label=step.label + HOSTILE) for step in meta.steps)
    texts = {name: f"{HOSTILE}\n{text}" for name, text in meta.sources.items()}
    captions = tuple(HOSTILE.replace("{", "") + caption for caption in meta.captions)
    bad = replace(meta, title=HOSTILE, kernel=HOSTILE, steps=steps, captions=captions, sources=texts,
                  problem={**meta.problem, "inputs": HOSTILE})  # fmt: skip
    trace = file.from_bytes(run.to_bytes())
    trace.meta = bad
    return trace


def test_no_text_of_a_trace_leaves_its_place(run: fs.Run, html: str) -> None:
    bad = export.page(file.to_bytes(hostile(run)), {"step": HOSTILE, HOSTILE: "1"})
    harmless, got = Tags(html), Tags(bad)

    def shape(tags: Tags) -> list[tuple[str, list[str]]]:
        watched = ("script", "style", "meta", "link", "img", "title")
        return [(tag, sorted(attributes)) for tag, attributes in tags.tags if tag in watched]

    assert shape(got) == shape(harmless)
    assert len(got.scripts) == len(harmless.scripts)
    assert "<script>alert" not in bad
    assert "<img src=https" not in bad
    assert "<!--" not in bad


def test_what_is_no_trace_and_what_is_too_large_is_refused(run: fs.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TraceError):
        export.page(b"nothing")
    monkeypatch.setattr(export, "LIMIT", 1000)
    with pytest.raises(export.TooLarge, match="one page holds at most 1000 B") as refusal:
        export.page(run.to_bytes())
    assert is_sentence(str(refusal.value))


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"kernel": "flash-decoding", "seqlen_k": 12}, "Nq 1, Nk 12, d 4, Bc 2, splits 2, inputs random, seed 0"),
        ({"kernel": "online-softmax", "inputs": "large"}, "rows 8, columns 8, Br 4, Bc 4, inputs large"),
        ({"kernel": "standard", "heads": 2, "causal": True},
         "Nq 8, Nk 8, d 4, Br 4, Bc 4, heads 2, inputs random, seed 0, causal on"),
    ],
)
def test_the_page_says_what_was_recorded(asked: dict[str, Any], wanted: str) -> None:
    meta = fs.record(**asked).trace.meta
    assert ", ".join(f"{label} {value}" for label, value in export.facts(meta)) == wanted


# A lesson


@pytest.mark.parametrize("kernel", LESSONS)
def test_a_lesson_is_one_page_with_its_text_its_letters_and_its_run(kernel: str) -> None:
    run = fs.record(kernel)
    html = export.lesson_page(run.to_bytes())
    tags = Tags(html)
    assert gzip.decompress(base64.b64decode(tags.scripts[-2])) == run.to_bytes()
    assert unescape(LESSONS[kernel].title) in unescape(html)
    for tag, attributes in tags.tags:
        address = attributes.get("src") or attributes.get("href") or "#"
        outside = tag == "a" and address.startswith("https://")  # a paper, for whoever has a network
        assert outside or address.startswith(("#", "?", "data:")), (tag, attributes)
        assert tag != "form" or "method" in attributes
        assert tag not in ("img", "iframe", "object", "link") or address.startswith("data:")
    style = re.findall(r"<style[^>]*>(.*?)</style>", html, re.S)
    assert re.findall(r'url\((?!"?data:)[^)]*\)', "".join(style)) == []
    assert "".join(style).count("data:font/woff2") >= 19
    assert set(modules(html)) == {"flashstep/" + name for name in assets.modules("lesson/saved.js")}
    # A link that moves the figure stays, one that leads to another page of the site is its words.
    steps: list[str] = re.findall(r'<a [^>]*data-step="(\d+)"', html)
    assert len(steps) > 5
    assert all(int(step) < len(run.trace.steps) for step in steps)


def test_a_run_without_a_lesson_says_so() -> None:
    with pytest.raises(export.NoLesson, match="a lesson goes through 2,000 at most"):
        export.lesson_page(fs.record("standard", seqlen_q=128, seqlen_k=128).to_bytes())
    with pytest.raises(export.NoLesson, match="not all of this one's were kept"):
        export.lesson_page(fs.record("standard", values="focus").to_bytes())


# The command line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_kernel_and_a_saved_run_become_the_same_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main("record standard --heads 2 -o run.safetensors".split()) == 0
    capsys.readouterr()
    assert cli.main("export run.safetensors --step 5 -o a.html".split()) == 0
    assert re.fullmatch(r"a\.html: Standard attention, \d+ steps, every block's numbers, [\d.]+ KiB\n", capsys.readouterr().out)
    assert cli.main("export standard --heads 2 --step 5 -o b.html".split()) == 0
    assert (folder / "a.html").read_bytes() == (folder / "b.html").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["a.html", "b.html", "run.safetensors"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("export nothing -o a.html", "nothing is neither a saved run nor a kernel"),
        ("export standard -o no/such/a.html", "There is no folder no/such"),
        ("export standard -o .", "is a folder; name a file in it, such as standard.html"),
        ("export standard --step 999 -o a.html", "There is no step 999: steps run from 0 to "),
        ("export run.safetensors --values none -o a.html", "is recorded already; leave out --values"),
        ("export run.safetensors --heads 2 -o a.html", "is recorded already; leave out its parameters"),
        ("export broken.safetensors -o a.html", "This is not a whole safetensors file"),
    ],
)
def test_what_cannot_be_exported_is_said(folder: Path, capsys: pytest.CaptureFixture[str], command: str, words: str) -> None:
    fs.record("standard").save(folder / "run.safetensors")
    (folder / "broken.safetensors").write_bytes(b"\xff" * 40)
    assert cli.main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    assert not (folder / "a.html").exists()


# The server


def test_the_explorers_download(client: TestClient, run: fs.Run, html: str) -> None:
    answer = client.get("/export/flash-attention-2?causal=true&step=8&cell=li.1.0&theme=dark")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-disposition"] == 'attachment; filename="flash-attention-2.html"'
    assert answer.text == html


def test_the_lessons_download(client: TestClient) -> None:
    answer = client.get("/export/flash-attention-2?seqlen_k=12&lesson=1")
    assert answer.headers["content-disposition"] == 'attachment; filename="flash-attention-2-lesson.html"'
    assert answer.text == export.lesson_page(fs.record("flash-attention-2", seqlen_k=12).to_bytes())
    refused = client.get("/export/standard?seqlen_q=128&seqlen_k=128&lesson=1")
    assert refused.status_code == 422
    assert "a lesson goes through" in refused.text


def test_what_cannot_be_downloaded_is_said_on_a_page(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/export/no-such-kernel").status_code == 404
    refused = client.get("/export/standard?seqlen_k=no")
    assert refused.status_code == 422
    assert "“no” is not a whole number" in refused.text
    crossed = client.get("/export/standard", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"})
    assert crossed.status_code == 403
    monkeypatch.setattr(export, "LIMIT", 100)
    large = client.get("/export/standard")
    assert large.status_code == 413
    assert "one page holds at most 100 B" in large.text


def test_files_are_made_one_at_a_time_and_few_wait(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    client, guest = start(), start(host="0.0.0.0", peer=("10.0.0.5", 1234))
    guest.app.state.turns = client.app.state.turns  # type: ignore[attr-defined]
    guest.get("/export/standard")  # it is recorded by now
    go, running, most = threading.Event(), 0, 0
    lock = threading.Lock()

    def slow(trace: bytes, at: object) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        assert go.wait(20)
        with lock:
            running -= 1
        return "a page"

    monkeypatch.setattr(export, "page", slow)
    turns = guest.app.state.turns  # type: ignore[attr-defined]
    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(guest.get, "/export/standard") for _ in range(9)]
        until = time.monotonic() + 10
        while sum(one.done() for one in asked) < 4 and time.monotonic() < until:
            time.sleep(0.01)
        assert turns._asked == takeaway.WAITING + 1
        go.set()
        answers = [one.result() for one in asked]
    assert most == 1
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [503] * 4
    refused = next(answer for answer in answers if answer.status_code == 503)
    assert takeaway.BUSY in refused.text
    assert refused.headers["retry-after"] == "5"
    assert turns._asked == 0
    assert guest.get("/export/standard").text == "a page"
    # Someone at the machine waits, whatever others ask.
    turns._asked = 100
    assert guest.get("/export/standard").status_code == 503
    assert client.get("/export/standard").status_code == 200


def test_who_gives_up_on_a_long_recording_stops_it(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeaway, "PATIENCE", 0.2)
    size = "seqlen_q=4096&seqlen_k=4096&block_rows=16&block_cols=16&values=none"
    answer = client.get(f"/export/flash-attention-2?{size}")
    assert answer.status_code == 503
    assert "still being recorded" in answer.text
    (job,) = services_of(client).jobs._jobs.values()
    assert job.stop.is_set()  # nobody else waits for it


def test_a_file_that_fails_takes_no_turn_for_ever(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(trace: bytes, at: object) -> str:
        raise export.TooLarge("This is too large.")

    monkeypatch.setattr(export, "page", fails)
    for _ in range(8):
        assert client.get("/export/standard").status_code == 413
    assert client.app.state.turns._asked == 0  # type: ignore[attr-defined]


def test_a_file_is_sent_as_it_is(client: TestClient) -> None:
    """Most of it is packed already, and nobody else is answered while the server packs it again."""
    assert "content-encoding" not in client.get("/export/standard").headers


def test_the_handouts_page(client: TestClient) -> None:
    answer = client.get("/handout/flash-attention-2?causal=true&steps=2,5")
    assert answer.status_code == 200
    assert 'data-theme="light"' in answer.text
    assert "/explore/flash-attention-2?causal=true&amp;steps=2,5" in answer.text
    assert client.get("/handout/no-such-kernel").status_code == 404
    assert client.get("/handout/standard?seqlen_k=no").status_code == 422
