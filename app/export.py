"""A run as one HTML file: the player, its style, the sources and the trace in it, so that it plays without a server.

Pure: from a trace's bytes (and the files under static/) to the page's text. The same trace gives the same page. Its own
policy forbids the network, and lets nothing run but what was put in here: scripts and styles bear the page's nonce, which
is the hash of all that the page is made of, so that nothing inside the trace could have known it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ..kernels import registry
from ..kernels.record import load_bytes
from ..trace.file import from_bytes
from ..trace.layout import Meta
from . import assets
from .fields import MATRIX, NUMBERS
from .lessons import LESSONS, MAX_STEPS, read
from .source import coloured
from .tables import size
from .templating import templates

LIMIT = 64 * 2**20  # bytes of a trace; a browser reads the page whole before it shows anything
STYLES = ("css/base.css", "css/figure.css", "css/player.css", "css/saved.css")
LESSON_STYLES = (*STYLES, "vendor/katex/katex.min.css", "css/math.css", "css/lesson.css", "css/decode.css")
CHART_STYLE, CHARTS = "css/charts.css", "vendor/plotly-cartesian.min.js"
PREFIX = "flashstep/"  # of a module's name inside the page
POLICY = (
    "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; img-src data: blob:; base-uri 'none'; form-action 'none'"
)
# Of mathematics: its letters are in the page, and KaTeX and Plotly place things by style attributes.
LESSON_POLICY = POLICY + "; font-src data:; style-src-attr 'unsafe-inline'"
FONT = re.compile(r"url\((fonts/[\w-]+\.woff2)\) ?format\([^)]*\)(?:,url\([^)]*\) ?format\([^)]*\))*")
PICTURE = re.compile(r'url\("/static/([\w./-]+)"\)')
SITE_LINK = re.compile(r'<a\b[^>]*\bhref="/[^"]*"[^>]*>(.*?)</a>', re.S)
FORM = re.compile(r"(<form\b[^>]*>)(.*?)(</form>)", re.S)
BUTTON = re.compile(r"<button\b.*?</button>", re.S)


class TooLarge(ValueError):
    """A trace that is too large for one page; the message is a sentence that says how to make it smaller."""


class NoLesson(ValueError):
    """A run that no lesson tells; the message is a sentence."""


def page(trace: bytes, at: Mapping[str, str] | None = None) -> str:
    """The HTML of a page that plays the trace in `trace`, the bytes of a trace file.

    `at` is where it opens, as links say it: step, order, focus, cell.
    Raises `TooLarge`, and `TraceError` for bytes that are no sound trace: both ValueErrors, with one sentence.
    """
    refuse_too_large(len(trace))
    meta = from_bytes(trace).meta
    kernel = registry.KERNELS.get(meta.kernel)
    data = {"idea": kernel.idea if kernel else "", "at": urlencode(dict(at or {})), "sources": coloured(meta.sources)}
    return assembled("saved.html", meta, trace, entry="player/saved.js", styles=STYLES, policy=POLICY, data=data)


def lesson_page(trace: bytes) -> str:
    """The HTML of a page with the lesson of the trace's kernel, told on this very run, and the player beside it.

    Raises as `page`, and `NoLesson` where there is none to tell of it.
    """
    refuse_too_large(len(trace))
    run = load_bytes(trace)
    meta, steps = run.trace.meta, len(run.trace.steps) - 1
    lesson = LESSONS.get(meta.kernel)
    if lesson is None:
        raise NoLesson(f"There is no lesson on {meta.title}; without --lesson the run is exported as it is.")
    if steps > MAX_STEPS:
        raise NoLesson(f"This run takes {steps:,} steps, and a lesson goes through {MAX_STEPS:,} at most; choose smaller sizes.")
    if meta.values != "all":
        raise NoLesson("A lesson tells every number of its run, and not all of this one's were kept; choose smaller sizes.")
    reading = read(lesson, run)
    charts = 'class="chart"' in reading.html
    return assembled(
        "saved-lesson.html",
        meta,
        trace,
        entry="lesson/saved.js",
        styles=LESSON_STYLES,
        scripts=("vendor/katex/katex.min.js", *((CHARTS,) if charts else ())),
        policy=LESSON_POLICY,
        charts=charts,
        lesson=lesson,
        contents=reading.contents,
        text=without_server(reading.html),
        data={},
    )


def without_server(html: str) -> str:
    """A lesson's text where nothing can be asked: links within the site are words, and its forms show what they were asked."""
    html = SITE_LINK.sub(r"\1", html)
    return FORM.sub(lambda form: f'{form[1]}<fieldset disabled class="kept">{BUTTON.sub("", form[2])}</fieldset>{form[3]}', html)


def refuse_too_large(count: int) -> None:
    """Raises `TooLarge` where a trace of `count` bytes is more than one page holds."""
    if count > LIMIT:
        raise TooLarge(
            f"This run takes {size(count)} and one page holds at most {size(LIMIT)}: keep fewer numbers "
            "(values focus, or none), or choose smaller sizes or larger tiles."
        )


def assembled(
    template: str,
    meta: Meta,
    trace: bytes,
    *,
    entry: str,
    styles: tuple[str, ...],
    policy: str,
    scripts: tuple[str, ...] = (),
    charts: bool = False,
    **parts: Any,
) -> str:
    """`template` with the trace, the modules that `entry` needs, styles and scripts inlined, and the page's nonce."""
    modules = {PREFIX + name: _address(assets.renamed(name, PREFIX.__add__)) for name in assets.modules(entry)}
    found: dict[str, Any] = {
        "title": meta.title,
        "facts": facts(meta),
        "trace": base64.b64encode(gzip.compress(trace, 9, mtime=0)).decode(),
        "imports": _json({"imports": modules}),
        # Plotly leaves the page's styles alone where it finds one under this name.
        "styles": [("", _inside("style", "\n".join(map(_style, styles))))]
        + ([("plotly.js-style-global", _inside("style", _style(CHART_STYLE)))] if charts else []),
        "scripts": [_inside("script", _text(name)) for name in scripts],
        "theme": _inside("script", _text("theme.js")),
        "icon": _data(assets.STATIC / "favicon.svg"),
        "start": PREFIX + entry,
        **parts,
    }
    digest = hashlib.sha256(json.dumps(found, sort_keys=True, default=repr).encode()).digest()
    nonce = base64.b64encode(digest[:18]).decode()
    return templates.get_template(template).render(**found, nonce=nonce, policy=policy.format(nonce))


def facts(meta: Meta) -> list[tuple[str, str]]:
    """What was recorded, as (label, value): the sizes that the kernel has a use for, then what is not as usual."""
    kernel = registry.KERNELS.get(meta.kernel)
    names = MATRIX if kernel and kernel.matrix else {}
    asked = {**meta.problem, **meta.tiling}
    sizes = [name for name in NUMBERS if name not in ("scale", "seed") and isinstance(asked.get(name), int)]
    if kernel:
        sizes = [name for name in sizes if name in kernel.parameters]
    told = [name for name in sizes if asked[name] != 1 or name == "seqlen_q"]  # one head, one batch: nobody asks
    found = [((names.get(name) or NUMBERS[name])[0], f"{asked[name]:,}") for name in told]
    inputs = "your arrays" if asked.get("arrays") else str(asked.get("inputs", ""))
    found += [("inputs", inputs)] if inputs else []
    found += [("seed", str(asked["seed"]))] if inputs == "random" and isinstance(asked.get("seed"), int) else []
    return found + [(name.replace("_", " "), "on") for name in ("causal", "key_mask") if asked.get(name) is True]


def _text(name: str) -> str:
    return (assets.STATIC / name).read_text(encoding="utf-8")


def _style(name: str) -> str:
    """A style sheet with its fonts and pictures in it."""
    folder = (assets.STATIC / name).parent

    def font(found: re.Match[str]) -> str:
        return f'url({_data(folder / found[1])}) format("woff2")'

    def picture(found: re.Match[str]) -> str:
        return f'url("{_data(assets.STATIC / found[1])}")'

    return PICTURE.sub(picture, FONT.sub(font, _text(name)))


def _data(path: Path) -> str:
    """A file as a data address."""
    return f"data:{assets.TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _address(text: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()


def _inside(tag: str, text: str) -> str:
    """Text for the inside of a <script> or <style>, which ends only where it should."""
    if f"</{tag}" in text.lower() or "<!--" in text:
        raise AssertionError(f"a file under static/ would end the <{tag}> that it is put in")
    return text


def _json(data: object) -> str:
    """JSON for the inside of a <script>: nothing in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
