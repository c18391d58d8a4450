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
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..kernels import registry
from ..trace.file import from_bytes
from ..trace.layout import Meta
from . import assets
from .fields import MATRIX, NUMBERS
from .source import coloured
from .tables import size

LIMIT = 64 * 2**20  # bytes of a trace; a browser reads the page whole before it shows anything
STYLES = ("css/base.css", "css/figure.css", "css/player.css", "css/saved.css")
ENTRY = "player/saved.js"
PREFIX = "flashstep/"  # of a module's name inside the page

templates = Environment(
    loader=FileSystemLoader(assets.TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


class TooLarge(ValueError):
    """A trace that is too large for one page; the message is a sentence that says how to make it smaller."""


def page(trace: bytes, at: Mapping[str, str] | None = None) -> str:
    """The HTML of a page that plays the trace in `trace`, the bytes of a trace file.

    `at` is where it opens, as links say it: step, order, focus, cell.
    Raises `TooLarge`, and `TraceError` for bytes that are no sound trace: both ValueErrors, with one sentence.
    """
    refuse_too_large(len(trace))
    meta = from_bytes(trace).meta
    kernel = registry.KERNELS.get(meta.kernel)
    return assembled(
        "saved.html",
        entry=ENTRY,
        styles=STYLES,
        title=meta.title,
        facts=facts(meta),
        data={"idea": kernel.idea if kernel else "", "at": urlencode(dict(at or {})), "sources": coloured(meta.sources)},
        trace=base64.b64encode(gzip.compress(trace, 9, mtime=0)).decode(),
    )


def refuse_too_large(count: int) -> None:
    """Raises `TooLarge` where a trace of `count` bytes is more than one page holds."""
    if count > LIMIT:
        raise TooLarge(
            f"This run takes {size(count)} and one page holds at most {size(LIMIT)}: keep fewer numbers "
            "(values focus, or none), or choose smaller sizes or larger tiles."
        )


def assembled(template: str, *, entry: str, styles: tuple[str, ...], **parts: Any) -> str:
    """`template` with the modules that `entry` needs, `styles` and the theme's script inlined, and the page's nonce."""
    modules = {PREFIX + name: _address(assets.renamed(name, PREFIX.__add__)) for name in assets.modules(entry)}
    inlined = {
        "imports": _json({"imports": modules}),
        "style": _inside("style", "\n".join(_text(name) for name in styles)),
        "theme": _inside("script", _text("theme.js")),
        "icon": "data:image/svg+xml;base64," + base64.b64encode((assets.STATIC / "favicon.svg").read_bytes()).decode(),
        "start": PREFIX + entry,
    }
    found = json.dumps([inlined, parts], sort_keys=True).encode()
    nonce = base64.b64encode(hashlib.sha256(found).digest()[:18]).decode()
    return templates.get_template(template).render(**inlined, **parts, nonce=nonce)


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
