"""Where each step stands in the sources: the `with block.step(…)` of a twin, the `// step: …` of a kernel.cu.

Read from the code itself, so the ranges cannot drift from what ran.
"""

from __future__ import annotations

import ast
from functools import cache, lru_cache
from pathlib import Path

from .engines.source import Function, Source, SourceError

Lines = dict[tuple[int, str], tuple[int, int]]


@cache
def step_lines(path: Path) -> Lines:
    """(launch, step name) -> first and last line. Launches are numbered as they stand in the file."""
    found: Lines = {}
    launch = -1
    for node in _in_order(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "launch":
            launch += 1
        if isinstance(node, ast.With):
            name = _step_name(node.items[0].context_expr)
            if name is not None:
                found[launch, name] = (node.lineno, node.end_lineno or node.lineno)
    return found


def _in_order(tree: ast.AST) -> list[ast.stmt | ast.expr]:
    """Statements and expressions as they begin in the text."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.stmt, ast.expr))]
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


def _step_name(call: ast.expr) -> str | None:
    match call:
        case ast.Call(func=ast.Attribute(attr="step"), args=[ast.Constant(value=str(name)), *_]):
            return name
    return None


def cuda_lines(path: Path, launches: list[str]) -> Lines:
    """(launch, step name) -> first and last line of the step's region in a kernel.cu."""
    functions = _functions(path.read_text("utf-8")) if path.exists() else {}  # a new kernel may begin with its twin
    return {
        (number, step.name): (step.first, step.last)
        for number, launch in enumerate(launches)
        if launch in functions
        for step in functions[launch].steps
    }


@lru_cache(maxsize=32)
def _functions(text: str) -> dict[str, Function]:
    """The functions of a source, read once a text: every recording asks, and a change of the file is a new text.

    A source that is half written lights no line, and hinders no recording: `compare` says what is wrong with it.
    """
    try:
        return Source(text).functions
    except SourceError:
        return {}
