"""What holds for every answer: headers, names, sizes, and errors in one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.exceptions import HTTPException
from web import ADDRESS, Start, Tags, is_sentence

from flashstep.app import assets
from flashstep.kernels.registry import KERNELS

POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    "img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)
EVERYWHERE = {
    "/": 200,
    "/explore/flash-attention-2": 200,
    "/explore/flash-attention-2?seqlen_k=no": 422,
    "/explore/no-such-kernel": 404,
    "/static/css/base.css": 200,
    "/static/nothing.css": 404,
    "/static/../app/settings.py": 404,
    "/favicon.ico": 200,
    "/api/source/standard": 200,
    "/api/source/no-such-kernel": 404,
    "/api/recordings/" + "0" * 64: 404,
    "/api/arrays/" + "0" * 64: 404,
    "/api/openapi.json": 200,
    "/api/nothing": 404,
    "/no/such/page": 404,
}


@pytest.mark.parametrize(("path", "status"), EVERYWHERE.items())
def test_every_answer_carries_the_policy(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "server" not in answer.headers


@pytest.mark.parametrize("path", [*EVERYWHERE, "/compare/standard"])
def test_head_is_answered_as_get_without_the_body(client: TestClient, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    for name in ("content-type", "content-length", "etag", "content-security-policy"):
        assert head.headers.get(name) == got.headers.get(name)


def test_so_does_a_refusal_and_a_failure(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/", headers={"Host": "evil.example"}).headers["content-security-policy"] == POLICY
    assert client.post("/api/recordings", content=b"x" * 100_000).headers["content-security-policy"] == POLICY

    def broken(*arguments: object) -> None:
        raise RuntimeError("a secret of the server")

    monkeypatch.setattr("flashstep.app.parameters.parse", broken)
    for answer in (
        client.get("/explore/standard"),
        client.post("/api/recordings", json={"kernel": "standard"}),
    ):
        assert answer.status_code == 500
        assert answer.headers["content-security-policy"] == POLICY
        assert "secret" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8642", "localhost:1", "LOCALHOST", "localhost.:8642", "[::1]:8642"])
def test_its_own_names_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/favicon.ico", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "192.168.0.7", "a]b[", "localhost@evil.example"]
)
def test_other_names_are_refused(client: TestClient, host: str) -> None:
    """A hostile page whose own name points at this machine would otherwise read it as its own origin."""
    answer = client.get("/api/source/standard", headers={"Host": host})
    assert answer.status_code == 421
    assert is_sentence(answer.json()["error"])


def test_a_server_for_everyone_answers_to_addresses_but_to_no_strange_name(start: Start) -> None:
    client = start(host="0.0.0.0", allowed_hosts=("hall.example",))
    assert client.get("/favicon.ico", headers={"Host": "192.168.0.7:8642"}).status_code == 200
    assert client.get("/favicon.ico", headers={"Host": "hall.example"}).status_code == 200
    assert client.get("/favicon.ico", headers={"Host": "evil.example"}).status_code == 421


def test_another_sites_page_cannot_send_anything(client: TestClient) -> None:
    sent: dict[str, Any] = {"content": b"1 2\n3 4", "headers": {"Content-Type": "text/plain"}}
    assert client.post("/api/arrays", **sent).status_code == 200
    for name, value in (
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Origin", ADDRESS.replace("8642", "9999")),  # another program's page on this machine
        ("Origin", ADDRESS + ".evil.example"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ):
        strange = {**sent, "headers": {"Content-Type": "text/plain", name: value}}
        assert client.post("/api/arrays", **strange).status_code == 403
    own = {**sent, "headers": {"Content-Type": "text/plain", "Origin": ADDRESS}}
    assert client.post("/api/arrays", **own).status_code == 200


def test_a_large_body_is_refused_by_its_length(client: TestClient) -> None:
    answer = client.post("/api/recordings", content=b"x" * 70_000)
    assert answer.status_code == 413
    assert "64 KiB" in answer.json()["error"]


@pytest.mark.parametrize("length", ["-5", "abc", "1e9", "²", "9" * 5000, "70000"])
def test_a_length_that_is_none_or_too_large_is_refused(client: TestClient, length: str) -> None:
    sent = client.post("/api/recordings", content=b"{}", headers={b"Content-Length": length.encode()})
    assert sent.status_code == 413
    assert is_sentence(sent.json()["error"])


def test_the_last_byte_that_fits_is_taken_and_the_next_is_not(start: Start) -> None:
    client = start()
    most = 64 * 1024
    body = b'{"kernel": "standard"}'

    def in_pieces(count: int) -> Iterator[bytes]:
        yield body
        yield b" " * (count - len(body))

    for content, status in ((in_pieces(most), 200), (in_pieces(most + 1), 413)):
        assert client.post("/api/recordings", content=content).status_code == status
    for count, status in ((most, 200), (most + 1, 413)):
        assert client.post("/api/recordings", content=body.ljust(count)).status_code == status


def test_a_large_body_that_hides_its_length_is_refused_while_it_streams(start: Start) -> None:
    client = start(upload_bytes=100_000)
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 50_000_000:
            sent += 10_000
            yield b"1 " * 5_000

    answer = client.post("/api/arrays", content=endless(), headers={"Content-Type": "text/plain"})
    assert answer.status_code == 413
    assert is_sentence(answer.json()["error"])


def test_text_is_packed_and_traces_are_not(client: TestClient) -> None:
    assert client.get("/static/css/base.css").headers["content-encoding"] == "gzip"
    assert client.get("/explore/standard").headers["content-encoding"] == "gzip"
    trace = client.post("/api/recordings", json={"kernel": "standard"}).json()["trace"]
    assert "content-encoding" not in client.get(trace).headers


def test_static_files_are_asked_for_again_only_when_they_changed(client: TestClient) -> None:
    first = client.get("/static/css/base.css")
    assert first.headers["cache-control"] == "no-cache"
    again = client.get("/static/css/base.css", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304


def test_a_changed_file_is_served_anew(tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    (tmp_path / "secret.js").write_text("secret")
    file = tmp_path / "public" / "a.js"
    file.write_text("export const a = 1;")
    client = TestClient(assets.StaticFiles(tmp_path / "public"), base_url=ADDRESS)
    first = client.get("/a.js")
    assert (first.text, first.headers["content-type"]) == (
        "export const a = 1;",
        "text/javascript; charset=utf-8",
    )
    file.write_text("export const a = 2;\n" + "// and much more\n" * 100)
    second = client.get("/a.js", headers={"If-None-Match": first.headers["etag"]})
    assert second.text == file.read_text()
    assert second.headers["content-encoding"] == "gzip"
    assert client.get("/a.js", headers={"Accept-Encoding": "identity"}).text == file.read_text()
    file.unlink()
    for gone in ("/a.js", "/../secret.js", "/%2e%2e/secret.js", "//etc/passwd", "/", "/%00", "/a.js/b"):
        with pytest.raises(HTTPException):
            client.get(gone)


def test_errors_are_pages_for_people_and_json_for_programs(client: TestClient) -> None:
    page = client.get("/explore/flash-attention-9")
    assert page.headers["content-type"].startswith("text/html")
    assert "flash-attention-2" in page.text  # the kernels there are
    answer = client.get("/api/source/flash-attention-9")
    assert answer.headers["content-type"].startswith("application/json")
    assert set(answer.json()) == {"error"}
    assert is_sentence(answer.json()["error"])
    assert client.put("/api/recordings").status_code == 405


@pytest.mark.parametrize("path", ["/", *(f"/explore/{name}" for name in KERNELS), "/no/such/page"])
def test_pages_ask_for_nothing_outside_and_hold_no_code(client: TestClient, path: str) -> None:
    page = Tags(client.get(path).text)
    for tag, attributes in page.tags:
        for name in ("src", "href", "action"):
            target = attributes.get(name) or "/"
            assert target.startswith(("/", "#")), f"{tag} asks for {target}"
            assert not target.startswith("//"), f"{tag} asks for {target}"
        assert not any(name.startswith("on") for name in attributes), f"{tag} holds code"
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    for attributes, text in zip(scripts, page.scripts, strict=True):
        assert attributes.get("type") == "application/json" or text.strip() == "", "a script stands in the page"


def test_every_link_of_a_page_leads_somewhere(client: TestClient) -> None:
    for path in ("/", "/explore/flash-attention-2"):
        for tag, attributes in Tags(client.get(path).text).tags:
            target = attributes.get("src") or attributes.get("href")
            if target and not target.startswith("#"):
                assert client.get(target).status_code == 200, f"{path}: {tag} {target}"


def test_a_pages_modules_are_those_that_its_entry_imports(client: TestClient) -> None:
    links = [
        attributes["href"]
        for tag, attributes in Tags(client.get("/explore/standard").text).tags
        if attributes.get("rel") == "modulepreload"
    ]
    assert "/static/player/main.js" in links
    assert "/static/player/trace.js" in links
    assert len(links) == len(set(links))
    pattern = re.compile(r"""from\s+["'](\./[^"']+)["']""")
    for link in links:
        assert link is not None
        path = assets.STATIC / link.removeprefix("/static/")
        for target in pattern.findall(path.read_text("utf-8")):
            assert (
                f"/static/{(path.parent / target).resolve().relative_to(assets.STATIC).as_posix()}" in links
            )


def test_what_a_link_says_is_shown_as_text(client: TestClient) -> None:
    nasty = '"><script>alert(1)</script>'
    page = client.get("/explore/standard", params={"seqlen_k": nasty, "order": nasty, "arrays": nasty})
    assert "<script>alert" not in page.text
    embedded = re.search(r'<script type="application/json" id="explore">(.*?)</script>', page.text, re.S)
    assert embedded is not None
    assert json.loads(embedded[1])["kernel"] == "standard"


def luminance(colour: str) -> float:
    """WCAG's relative luminance of `#rrggbb`."""
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_every_colour_that_text_wears_can_be_read_in_light_and_dark() -> None:
    css = (assets.STATIC / "css" / "base.css").read_text("utf-8")
    themes = [
        dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6});", block))
        for block in re.findall(r"\{([^{}]*--bg:[^{}]*)\}", css)
    ]
    assert len(themes) == 3  # light; dark by the system's wish; dark by the person's
    assert themes[1] == themes[2]
    for theme in themes:
        for ink in ("ink", "ink-2", "accent", "wrong", "q", "k", "v", "s", "m", "l", "o", "x", "alpha"):
            for paper in ("bg", "panel", "raised"):
                assert contrast(theme[ink], theme[paper]) >= 4.5, (ink, paper, theme[ink], theme[paper])
        assert contrast(theme["accent"], theme["accent-ink"]) >= 4.5
        assert contrast(theme["wrong"], theme["wrong-soft"]) >= 4.5


@pytest.mark.parametrize(("path", "status"), [("flash-attention-2", 200), ("standard?seqlen_k=no", 422), ("no-such-kernel", 404)])
def test_only_the_embedded_player_may_be_framed_by_anyone(client: TestClient, path: str, status: int) -> None:
    join = "&" if "?" in path else "?"
    framed = client.get(f"/explore/{path}{join}embed=1")
    assert framed.status_code == status
    assert framed.headers["content-security-policy"] == POLICY.removesuffix("'self'") + "* file:"
    assert framed.headers["cross-origin-resource-policy"] == "cross-origin"
    assert framed.headers["cross-origin-opener-policy"] == "unsafe-none"
    for other in (f"/explore/{path}", f"/explore/{path}{join}embed=0", f"/compare/{path}{join}embed=1"):
        assert client.get(other).headers["content-security-policy"] == POLICY
        assert client.get(other).headers["cross-origin-resource-policy"] == "same-origin"
