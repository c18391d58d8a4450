"""A lesson's Markdown as HTML: its links to steps, its sections of steps, formulas, questions, source and notes.

The vocabulary (templates/lessons/*.md, after Jinja):

    [a phrase](step:5) [a phrase](step:none)     moves the figure; without such a step it stays a phrase
    ::: step update m, l                         a section about those steps: the figure's step marks it ("|" between several)
    ::: live li row=0 col=0                      a rule; the page sets the numbers of the current step below it
    ::: question id answer=0.5 step=5 cell=li.0.0  predict, then reveal; holds ::: answer. A lecture asks it before that step.
                                                 cell: where the step shows the answer; see=no: the step does not show it
    ::: cuda update m, l                         the step's lines of kernel.cu; its text is the caption
    ::: formulas                                 displayed formulas side by side, one below another where it is narrow
    ::: derivation                               a table of three columns, (left | = right | why), a line a row
    ```chart                                     curves as JSON, with their numbers as a table (`chart()` writes it)
    ```fragment                                  HTML of the page's own templates (`decode_form()` writes it)
    ::: aside Title                              a remark beside the thread
    ::: notes                                    for the lecturer alone

Nothing here knows a run: what a step's name stands for comes with `Place`.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from mdit_py_plugins.anchors import anchors_plugin
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers.c_like import CudaLexer

SAID = re.compile(r"(\w+)=((?:(?! \w+=).)*)")
NOWHERE = "These sizes have no such step"
ABSENT = f'<p class="absent">{NOWHERE}.</p>\n'


@dataclass(frozen=True)
class Place:
    """What a text is set in: its own address, its query without a step, and what the names of steps stand for."""

    path: str
    query: str
    kinds: Callable[[str], list[int]]
    lines: Callable[[str], tuple[str, int, int]]  # of a step in kernel.cu: text, first and last line
    occurs: Callable[[list[int]], bool]  # whether the run has a step of these kinds


@dataclass(frozen=True)
class Question:
    """A question to the reader. `prompt` and `answer` are HTML; `result` is the computed answer in a word, or ""."""

    id: str
    prompt: str
    answer: str
    step: int | None
    result: str = ""


@dataclass
class Written:
    """What came of a text. `notes`: (kinds of step, HTML), no kinds where they stand outside of any step's section."""

    html: str = ""
    questions: list[Question] = field(default_factory=list)
    notes: list[tuple[tuple[int, ...], str]] = field(default_factory=list)
    links: list[tuple[str, int]] = field(default_factory=list)
    contents: list[tuple[str, str]] = field(default_factory=list)  # id and title of each chapter


def write(text: str, place: Place) -> Written:
    """The HTML of a text, and what is in it."""
    md = parser()
    env: dict[str, Any] = {"place": place, "section": ""}
    tokens = md.parse(text, env)
    result = Written()
    for opened, closed, kinds in _notes(tokens, place):
        result.notes.append((kinds, _render(md, tokens[opened + 1 : closed], place)))
    for opened, closed in reversed(list(_spans(tokens, "notes"))):
        del tokens[opened : closed + 1]
    for opened, closed in reversed(list(_spans(tokens, "derivation"))):  # a line of reasoning has no head
        heads = [n for n in range(opened, closed) if tokens[n].type in ("thead_open", "thead_close")]
        if heads:
            del tokens[heads[0] : heads[1] + 1]
    for opened, closed in _spans(tokens, "question"):
        (answer,) = _spans(tokens[opened : closed + 1], "answer")
        name, said = _info(tokens[opened])
        result.questions.append(
            Question(
                name,
                _render(md, tokens[opened + 1 : opened + answer[0]], place),
                _render(md, tokens[opened + answer[0] + 1 : opened + answer[1]], place),
                _step(said.get("step")),
                said.get("answer", ""),
            )
        )
    result.links = list(_links(tokens))
    result.contents = [
        (str(token.attrs.get("id", "")), _plain(tokens[n + 1]))
        for n, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h2"
    ]
    result.html = md.renderer.render(tokens, md.options, env)
    return result


@cache
def parser() -> MarkdownIt:
    """CommonMark without HTML, with tables, mathematics, definition lists and the lessons' containers."""
    md = MarkdownIt("commonmark", {"html": False, "typographer": False}).enable("table")
    md.use(dollarmath_plugin, allow_space=False, allow_digits=False, renderer=lambda content, _: escape(content.strip()))
    md.use(deflist_plugin)
    md.use(anchors_plugin, min_level=2, max_level=3)
    for name, draw in CONTAINERS.items():
        md.use(container_plugin, name, render=draw)
    md.add_render_rule("link_open", _link_open)
    md.add_render_rule("link_close", _link_close)
    md.add_render_rule("heading_open", _heading_open)
    md.add_render_rule("fence", _fence)
    for cell in ("th_open", "td_open"):
        md.add_render_rule(cell, _cell_open)
    md.add_render_rule("table_open", lambda *_: '<div class="table"><table>\n')
    md.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return md


def _render(md: MarkdownIt, tokens: Sequence[Token], place: Place) -> str:
    return str(md.renderer.render(tokens, md.options, {"place": place, "section": ""}))


# ---- finding things among the tokens


def _spans(tokens: Sequence[Token], name: str) -> Iterator[tuple[int, int]]:
    """(opening, closing) of each container of this name; they do not nest in themselves."""
    opened = -1
    for n, token in enumerate(tokens):
        if token.type == f"container_{name}_open":
            opened = n
        elif token.type == f"container_{name}_close":
            yield opened, n


def _notes(tokens: Sequence[Token], place: Place) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    around = [(opened, closed, _kinds(tokens[opened], place)) for opened, closed in _spans(tokens, "step")]
    for opened, closed in _spans(tokens, "notes"):
        yield opened, closed, next((tuple(kinds) for a, b, kinds in around if a < opened < b), ())


def _links(tokens: Sequence[Token]) -> Iterator[tuple[str, int]]:
    for token in tokens:
        children = token.children or []
        for n, child in enumerate(children):
            step = _asked(child)
            if child.type == "link_open" and step is not None:
                end = next(m for m in range(n, len(children)) if children[m].type == "link_close")
                yield "".join(part.content for part in children[n + 1 : end]), step


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or [])


def _info(token: Token) -> tuple[str, dict[str, str]]:
    """What stands behind a container's name: its first words, and its key=value."""
    rest = token.info.strip().partition(" ")[2]
    said = {match[1]: match[2].strip() for match in SAID.finditer(rest)}
    return SAID.sub("", rest).strip(), said


def _step(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _asked(token: Token) -> int | None:
    href = str(token.attrs.get("href", "")) if token.type == "link_open" else ""
    return _step(href.split(":")[1]) if href.startswith("step:") else None


def _kinds(token: Token, place: Place) -> list[int]:
    found: list[int] = []
    for name in _info(token)[0].split("|"):
        kinds = place.kinds(name.strip())
        if not kinds:
            raise KeyError(f"no step is called {name.strip()!r}")
        found += kinds
    return found


# ---- drawing


def _link_open(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    token, place = tokens[n], env["place"]
    href = str(token.attrs["href"])
    if href == "step:none":
        env["closing"] = "</span>"
        return f'<span class="nowhere" title="{NOWHERE}">'
    if href.startswith("step:"):
        _, step, cell = (*href.split(":"), "")[:3]
        token.attrs["href"] = address(place.query, step=step, cell=cell)
        token.attrs |= {"class": "go", "data-step": step} | ({"data-cell": cell} if cell else {})
    elif href.startswith("/lessons/"):
        token.attrs["class"] = "go other"
        if href.partition("?")[0] == place.path and env["section"]:
            token.attrs["href"] = f"{href}#{env['section']}"
    return str(self.renderToken(tokens, n, options, env))


def _link_close(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    return str(env.pop("closing", "</a>"))


def _heading_open(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    env["section"] = tokens[n].attrs.get("id", "")
    return str(self.renderToken(tokens, n, options, env))


def _fence(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    if tokens[n].info.strip() == "fragment":
        return str(tokens[n].content)
    if tokens[n].info.strip() != "chart":
        return str(self.fence(tokens, n, options, env))
    data = json.loads(tokens[n].content)
    series: dict[str, dict[str, float]] = data["series"]
    places = sorted({int(x) for curve in series.values() for x in curve})
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in series)
    rows = "".join(
        f'<tr><th scope="row">{x:,}</th>'
        + "".join(f'<td class="right">{_told(curve.get(str(x)))}</td>' for curve in series.values())
        + "</tr>"
        for x in places
    )
    return (
        f'<figure class="chart" data-chart="{escape(tokens[n].content.strip())}">\n'
        f"<figcaption>{escape(data['title'])}</figcaption>\n"
        f'<div class="plot" aria-hidden="true"></div>\n<details><summary>The numbers: {escape(data["y"])}</summary>\n'
        f'<div class="table"><table><thead><tr><th scope="col">{escape(data["x"])}</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details></figure>\n"
    )


def _told(y: float | None) -> str:
    return "–" if y is None else f"{y:,.0f}" if y >= 100 else f"{y:.1f}"


def _cell_open(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    """A cell's alignment as a class: the pages carry no styles of their own."""
    style = str(tokens[n].attrs.pop("style", ""))
    if style == "text-align:right":
        tokens[n].attrs["class"] = "right"
    if tokens[n].type == "th_open" and not tokens[n + 1].content:  # what heads nothing is no heading
        tokens[n].tag = tokens[n + 2].tag = "td"
    return str(self.renderToken(tokens, n, options, env))


def address(query: str, **more: str) -> str:
    """`?query` with more behind it, what is empty left out."""
    return "?" + "&".join(part for part in (query, *(f"{key}={value}" for key, value in more.items() if value)) if part)


def _draw_step(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    if tokens[n].nesting < 0:
        return "</div>\n"
    place = env["place"]
    kinds = _kinds(tokens[n], place)
    absent = "" if place.occurs(kinds) else ABSENT
    return f'<div class="of-step" data-kinds="{" ".join(map(str, kinds))}">\n{absent}'


def _draw_live(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    if tokens[n].nesting < 0:
        return "</div>\n"
    slot, said = _info(tokens[n])
    return (f'<div class="live" data-slot="{escape(slot)}" data-row="{escape(said.get("row", "0"))}"'
            f' data-col="{escape(said.get("col", "0"))}">\n')  # fmt: skip


def _draw_question(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    if tokens[n].nesting < 0:
        return "</section>\n"
    name, _ = _info(tokens[n])
    env["question"] = tokens[n]
    return (
        f'<section class="question" id="q-{escape(name)}">\n<p class="kind">Predict, then reveal</p>\n'
    )


def _draw_answer(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    name, said = _info(env["question"])
    result, step = said.get("answer", ""), _step(said.get("step"))
    if tokens[n].nesting < 0:
        see, cell = "", said.get("cell", "")
        if step is not None and said.get("see") != "no":
            href = escape(address(env["place"].query, step=str(step), cell=cell))
            at = f' data-cell="{escape(cell)}"' if cell else ""
            see = f'<p><a class="go" href="{href}" data-step="{step}"{at}>See it in the figure: step {step}</a></p>\n'
        return f"{see}</div></details>\n"
    shown = f'<p class="result">Answer: <b>{escape(result)}</b></p>\n' if result else ""
    return (
        f'<div class="predict"><label for="predict-{escape(name)}">Your prediction</label>'
        f'<input type="text" id="predict-{escape(name)}" autocomplete="off"></div>\n'
        f'<details class="reveal" data-result="{escape(result)}"><summary>Reveal</summary><div class="answer">\n'
        f'<p class="said" hidden>You predicted <b></b></p>\n{shown}'
    )


def _draw_cuda(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    if tokens[n].nesting < 0:
        return "</figure>\n"
    name, _ = _info(tokens[n])
    text, first, last = env["place"].lines(name)
    where = f"line {first}" if first == last else f"lines {first} to {last}"
    shown = name.rpartition("/")[2]
    return (f'<figure class="cuda"><figcaption><b>kernel.cu</b>, {where}: the step “{escape(shown)}”</figcaption>\n'
            f'<pre class="source">{_coloured(text)}</pre>\n')  # fmt: skip


def _draw_aside(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    if tokens[n].nesting < 0:
        return "</aside>\n"
    title = tokens[n].info.strip().partition(" ")[2]
    return f'<aside class="remark" role="note" aria-label="{escape(title)}">\n<p class="kind">{escape(title)}</p>\n'


def _draw_derivation(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    return '<div class="derivation">\n' if tokens[n].nesting > 0 else "</div>\n"


def _draw_formulas(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    return '<div class="formulas">\n' if tokens[n].nesting > 0 else "</div>\n"


def _draw_notes(self: RendererHTML, tokens: Sequence[Token], n: int, options: Any, env: dict[str, Any]) -> str:
    raise AssertionError("notes are taken out before a page is drawn")


@cache
def _coloured(text: str) -> str:
    lexer: type[Lexer] = CudaLexer
    return str(highlight(textwrap.dedent(text).rstrip(), lexer(stripnl=False), HtmlFormatter(nowrap=True)))


CONTAINERS: dict[str, Callable[..., str]] = {
    "step": _draw_step,
    "live": _draw_live,
    "question": _draw_question,
    "answer": _draw_answer,
    "cuda": _draw_cuda,
    "derivation": _draw_derivation,
    "formulas": _draw_formulas,
    "aside": _draw_aside,
    "notes": _draw_notes,
}
