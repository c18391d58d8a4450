"""What a link says in vain is said; what any page reads of it is not."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from fastapi.testclient import TestClient

from flashstep.app import links, verdicts
from flashstep.app.lessons import LESSONS
from flashstep.kernels.registry import KERNELS, get

ROOT = Path(__file__).resolve().parents[2]
# How a page's script and its handler read a name of the address.
SCRIPT = re.compile(r"""(?:search|searchParams|asked|here|query)\.(?:get|has|set|delete)\("([\w-]+)\"""")
HANDLER = re.compile(r"""query(?:_params)?(?:\.get\(|\[)"([\w-]+)\"""")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", ""),
        ("seqlen_q=8&causal=true&values=none&focus=1&arrays=&inputs=hand&scale=", ""),
        ("step=3&step=4&cell=li.0.0&order=together&theme=dark&engine=cpu&fmad=false&slot=li&card=end", ""),
        ("embed=1&lesson=1&steps=2,5&per=2&my-batch=1&my-sms=132", ""),
        ("splits=4", ""),  # of another kernel, and handed on by a link from it
        ("bogus=1", "The link also says bogus, which nothing here knows."),
        ("bogus=1&bogus=2", "The link also says bogus, which nothing here knows."),
        ("=1&bogus", "The link also says bogus, which nothing here knows."),
        ("my-bogus=1&utm=2", "The link also says my-bogus and utm, which nothing here knows."),
        ("seqlenq=9", "The link also says seqlenq, which nothing here knows; did you mean seqlen_q?"),
        ("a=&b=&c=&d=", "The link also says a, b, c and d, which nothing here knows."),
        ("a=&b=&c=&d=&e=", "The link also says a, b, c and 2 more, which nothing here knows."),
        (f"{'x' * 99}=1", f"The link also says {'x' * 23}…, which nothing here knows."),
        ("seqlen_q=8&seqlen_q=9", "The link says seqlen_q more than once; the last counts."),
        ("seqlen_q=9&seqlen_q=9", ""),
        ("theme=zzz", "The link's theme is “zzz”; light and dark are understood."),
        ("order=zzz", "The link's order is “zzz”; serial and together are understood."),
        ("order=zzz&order=serial&theme=&engine=recorded&fmad=off&embed=yes", ""),
        ("engine=tpu", "The link's engine is “tpu”; gpu, cpu and recorded are understood."),
        ("fmad=a&b=", "The link's fmad is “a”; true and false are understood. The link also says b, which nothing here knows."),
        (f"embed={'x' * 99}", f"The link's embed is “{'x' * 23}…”; true and false are understood."),
        ("seqlen_q=8&seqlen_k=1&seqlen_q=9&seqlen_k=2&x=1",
         "The link says seqlen_q and seqlen_k more than once; the last counts. The link also says x, which nothing here knows."),
    ],
)  # fmt: skip
def test_what_a_link_says_in_vain(query: str, said: str) -> None:
    assert links.in_vain(get("flash-attention-2"), parse_qsl(query, keep_blank_values=True)) == said


def test_every_name_that_a_page_reads_is_known() -> None:
    scripts = [(path, SCRIPT) for path in (ROOT / "static").rglob("*.js") if "vendor" not in path.parts]
    handlers = [(path, HANDLER) for path in (ROOT / "app").glob("*.py")]
    found = {name: path.name for path, read in (*scripts, *handlers) for name in read.findall(path.read_text("utf-8"))}
    assert {"step", "cell", "slot", "engine", "theme", "steps", "per", "card", "embed", "lesson"} <= found.keys()
    assert {name: where for name, where in found.items() if name not in links.KNOWN} == {}


@pytest.mark.parametrize("place", ["explore", "lessons", "compare"])
def test_the_page_says_it_and_works(client: TestClient, place: str) -> None:
    page = client.get(f"/{place}/flash-attention-2?seqlen_k=4&seqlen_k=5&<b>=1&step=2&step=3")
    assert page.status_code == 200
    (said,) = re.findall(r'<p class="in-vain" role="note">(.*?)</p>', page.text)
    wanted = "The link says seqlen_k more than once; the last counts. The link also says <b>, which nothing here knows."
    assert unescape(said) == wanted
    assert "<b>, which" not in page.text
    assert 'name="seqlen_k" value="5"' in page.text


def test_an_odd_order_is_told_once(client: TestClient) -> None:
    """By the player where one opens at it, by the page elsewhere."""
    assert "order is “zzz”" not in client.get("/explore/standard?order=zzz").text
    assert "order is “zzz”; serial and together are understood." in client.get("/compare/standard?order=zzz").text
    for place in ("explore", "compare"):
        assert "theme is “zzz”; light and dark are understood." in client.get(f"/{place}/standard?theme=zzz").text


def test_what_is_understood_is_what_the_pages_read() -> None:
    assert links.CHOICES["engine"] == tuple(verdicts.ENGINES)
    assert links.CHOICES.keys() <= links.KNOWN


@pytest.mark.parametrize("name", KERNELS)
def test_a_plain_link_is_not_remarked_on(client: TestClient, name: str) -> None:
    for place in ("explore", "compare", *(["lessons"] if name in LESSONS else [])):
        assert "in-vain" not in client.get(f"/{place}/{name}?step=1&theme=light&causal=false").text


def test_a_refused_link_says_both(client: TestClient) -> None:
    page = client.get("/explore/standard?seqlen_k=no&seqlenk=4")
    assert page.status_code == 422
    assert "seqlenk, which nothing here knows; did you mean seqlen_k?" in page.text
    assert "is not a whole number" in page.text
