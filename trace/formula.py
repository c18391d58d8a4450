"""Formulas: how a step says where a number came from.

A twin writes them as text beside its code, in a small part of Python's own expression syntax::

    "alpha[r] * old(li[r]) + sum(Sij[r, :])"

and the page evaluates them on the step's own numbers. `parse` turns the text into the nested lists
that `trace/FORMAT.md` lists under "Formulas". Nothing is ever executed: the text is read, not run.
"""

from __future__ import annotations

import ast
from typing import Any

FUNCTIONS = frozenset(
    {"max", "sum", "exp", "log", "dot", "masked", "mix", "rescale", "weight", "ratio", "lse"}
)
CONSTANTS = frozenset({"scale"})

_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def parse(text: str) -> list[Any]:
    """The formula in `text` as nested lists.

    A reference is `name[row]` or `name[row, col]`, each index `r`, `c`, `:` or an integer;
    `old(…)` around anything makes the references within it mean the value before the step.
    Raises ValueError on anything else.
    """
    return _node(ast.parse(text, mode="eval").body, "new", text)


def _node(node: ast.expr, when: str, text: str) -> list[Any]:
    match node:
        case ast.Constant(value=int() | float() as value):
            return ["num", value]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return ["call", "max"]  # the maximum of nothing: JSON has no infinity
        case ast.Name(id=name) if name in CONSTANTS:
            return ["const", name]
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return ["op", _OPERATORS[type(operator)], _node(left, when, text), _node(right, when, text)]
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            row, col = index.elts if isinstance(index, ast.Tuple) else (index, ast.Constant(0))
            return ["ref", name, _index(row, text), _index(col, text), when]
        case ast.Call(func=ast.Name(id="old"), args=[inner]):
            return _node(inner, "old", text)
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS:
            return ["call", name, *(_node(argument, when, text) for argument in arguments)]
    raise ValueError(f"The formula {text!r} holds something that formulas have no word for: {ast.unparse(node)}.")


def _index(node: ast.expr, text: str) -> str | int:
    match node:
        case ast.Name(id="r" | "c" as letter):
            return letter
        case ast.Slice(lower=None, upper=None, step=None):
            return ":"
        case ast.Constant(value=int() as number):
            return number
    raise ValueError(f"The formula {text!r} has an index that is neither r, c, : nor a number: {ast.unparse(node)}.")


def references(formula: list[Any]) -> set[str]:
    """The names of every slot and array that a parsed formula reads."""
    if formula[0] == "ref":
        return {formula[1]}
    found: set[str] = set()
    for part in formula[1:]:
        if isinstance(part, list):
            found |= references(part)
    return found


def row_slot(formula: list[Any]) -> str | None:
    """The slot whose row of numbers a formula runs along: `Sij` in `weight(Sij[r, :], mi[r])`."""
    match formula:
        case ["ref", str(name), _, ":", _]:
            return name
    return next((found for part in formula[1:] if isinstance(part, list) and (found := row_slot(part))), None)


def sound(formula: object, depth: int = 32) -> bool:
    """Whether nested lists from an untrusted file are a formula that this version knows."""
    if not isinstance(formula, list) or not formula or depth == 0:
        return False
    match formula:
        case ["num", int() | float()]:
            return True
        case ["const", str(name)]:
            return name in CONSTANTS
        case ["ref", str(), row, col, "old" | "new"]:
            return all(index in ("r", "c", ":") or (type(index) is int and index >= 0) for index in (row, col))
        case ["op", "+" | "-" | "*" | "/", a, b]:
            return sound(a, depth - 1) and sound(b, depth - 1)
        case ["call", str(name), *parts]:
            return name in FUNCTIONS and all(sound(part, depth - 1) for part in parts)
    return False
