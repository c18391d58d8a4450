"""A kernel's sources as highlighted HTML, one element a line, made once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers.c_like import CudaLexer
from pygments.lexers.python import PythonLexer


def sources(twin: Path) -> dict[str, Any]:
    """The twin, and the CUDA kernel beside it when there is one: `{"twin": {html, lines}, "cuda": … | None}`.

    Each line is `<span class="line" id="twin-12">`; colours are base.css's.
    """
    cuda = twin.with_name("kernel.cu")
    return {
        "twin": _highlighted(twin, "twin", twin.stat().st_mtime_ns),
        "cuda": _highlighted(cuda, "cuda", cuda.stat().st_mtime_ns) if cuda.is_file() else None,
    }


@cache
def highlighted(text: str) -> str:
    """A few lines of Python as HTML."""
    return str(highlight(text, PythonLexer(), HtmlFormatter(nowrap=True)))


def coloured(texts: Mapping[str, str]) -> dict[str, Any]:
    """As `sources`, from the texts themselves: a trace holds those that it was recorded with."""
    return {name: _coloured(texts[name], name) if name in texts else None for name in ("twin", "cuda")}


@cache
def _highlighted(path: Path, prefix: str, changed: int) -> dict[str, Any]:
    return _coloured(path.read_text(encoding="utf-8"), prefix)


def _coloured(text: str, prefix: str) -> dict[str, Any]:
    # Leading blank lines are kept, so that line numbers are the file's.
    options = {"stripnl": False, "ensurenl": True}
    kind: type[Lexer] = CudaLexer if prefix == "cuda" else PythonLexer
    lexer = kind(**options)
    # With nowrap Pygments closes every element at the end of its line (and leaves `linespans` out).
    rows = highlight(text, lexer, HtmlFormatter(nowrap=True)).removesuffix("\n").split("\n")
    html = "\n".join(f'<span class="line" id="{prefix}-{n}">{row}</span>' for n, row in enumerate(rows, 1))
    return {"html": html, "lines": len(rows)}
