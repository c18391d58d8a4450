"""A kernel.cu as the engines read it: functions and their parameters, step markers, hash, and probes.

The source marks each step of the lesson with a comment, `// step: fill Sij`, in the twin's words. Those
comments are all the instrumentation a reader sees. Here they become line ranges for the code pane and, in a
probing build, calls that write the step's slots to a buffer. A marker's region runs from its line to the next
marker, to the end of the braces around it, or to the first loop that holds another marker: a probe at its
end runs exactly once each time the step does. A step may be marked twice, as in a peeled loop.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .result import EngineError

_MARKER = re.compile(r"^\s*// step: (?P<name>.+?)\s*$")
_BOUNDS = r"(?:__launch_bounds__\s*\([^)]*\)\s*)?"
_FUNCTION = re.compile(
    r"(?:template\s*<(?P<template>[^>]*)>\s*)?__global__\s+" + _BOUNDS + r"void\s+" + _BOUNDS
    + r"(?P<name>\w+)\s*\((?P<parameters>[^)]*)\)\s*\{", re.S,
)  # fmt: skip
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_UNREAD = re.compile(_COMMENT.pattern + r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.S)  # comments and literals
_TOKEN = re.compile(r"\w+|\S")
_SHARED = re.compile(r"(?<!\w)(?P<extern>extern\s+)?__shared__\b(?P<declared>[^;{}]*);")
_ALIGNED = re.compile(r"(?:__align__|alignas)\s*\([^()]*\)")
MOST_BYTES = 2**20  # of one kernel's source; those of the course have some thousand
Shapes = dict[str, dict[str, tuple[int, int]]]


class SourceError(EngineError):
    """A kernel.cu that cannot be read, or that is not the twin's: one sentence says why and what would be right."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: its name, its C type, and whether it points to an array in HBM."""

    name: str
    type: str

    @property
    def pointer(self) -> bool:
        return "*" in self.type

    @property
    def base(self) -> str:
        """The type of what is passed or pointed to, in a word: "float", "int", "unsigned char"."""
        return " ".join(word for word in self.type.replace("*", " ").split() if word not in ("const", "__restrict__", "__restrict"))


@dataclass(frozen=True)
class Marked:
    """A step in the source: its name and its region, 1-based lines, both ends included."""

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class Function:
    """A `__global__` function: template parameters, parameters, its lines and its marked steps."""

    name: str
    templates: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    first: int
    last: int
    steps: tuple[Marked, ...]

    def number(self, name: str) -> int:
        """The number that a step leaves in its probes. Raises ValueError where it is not marked."""
        return [step.name for step in self.steps].index(name)


@dataclass(frozen=True)
class Source:
    """The text of a kernel.cu, and what is to be known of it."""

    text: str
    name: str = "kernel.cu"

    @classmethod
    def read(cls, path: Path) -> Source:
        """Raises OSError, and SourceError for what is no text, or more of it than a kernel is (`MOST_BYTES`)."""
        with path.open("rb") as file:
            read = file.read(MOST_BYTES + 1)  # a pipe or a device may have no end
        if len(read) > MOST_BYTES:
            raise SourceError(f"{path} has more than {MOST_BYTES // 2**20} MiB; name a CUDA source, such as kernel.cu.")
        try:
            return cls(io.TextIOWrapper(io.BytesIO(read), "utf-8").read(), path.name)
        except UnicodeDecodeError:
            raise SourceError(f"{path} is not UTF-8 text; name a CUDA source, such as kernel.cu.") from None

    @cached_property
    def code(self) -> str:
        """The text with comments and literals blank, place for place: what they hold is no code."""
        return _UNREAD.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), self.text)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The code without comments and white space: a reworded comment changes nothing."""
        return tuple(_TOKEN.findall(_COMMENT.sub(" ", self.text)))

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256("\n".join(self.tokens).encode()).hexdigest()

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Name -> function, in the order of the file, which is the order of the launches."""
        found = {}
        for match in _FUNCTION.finditer(self.code):
            first = self.text.count("\n", 0, match.end()) + 1
            last = self._closing_line(match.end())
            found[match["name"]] = Function(
                match["name"],
                tuple(part.split("=")[0].split()[-1] for part in (match["template"] or "").split(",") if part.strip()),
                tuple(self._parameter(part) for part in match["parameters"].split(",") if part.strip()),
                first,
                last,
                self._steps(first, last),
            )
        return found

    def _closing_line(self, start: int) -> int:
        """The line of the brace that closes the one before `start`."""
        depth = 1
        for place in range(start, len(self.code)):
            depth += {"{": 1, "}": -1}.get(self.code[place], 0)
            if depth == 0:
                return self.text.count("\n", 0, place) + 1
        raise SourceError(f"{self.name} has a brace that is never closed: it opens in line {self.text.count(chr(10), 0, start) + 1}.")

    def _parameter(self, text: str) -> Parameter:
        match = re.match(r"^\s*(?P<type>.+?[\s*])\s*(?P<name>\w+)\s*$", text, re.S)
        if match is None:
            raise SourceError(f"{self.name} has a parameter that cannot be read: {text.strip()!r}.")
        return Parameter(match["name"], match["type"].strip())

    @cached_property
    def _depths(self) -> list[int]:
        """The depth of braces before each line, 1-based; comments do not count."""
        depths, depth = [0, 0], 0
        for line in self.code.split("\n"):
            depth += sum({"{": 1, "}": -1}.get(c, 0) for c in line)
            depths.append(depth)
        return depths

    def _steps(self, first: int, last: int) -> tuple[Marked, ...]:
        lines, depths = self.text.split("\n"), self._depths
        markers = {n: match["name"] for n in range(first, last + 1) if (match := _MARKER.match(lines[n - 1]))}
        steps = []
        for line, name in markers.items():
            depth, end = depths[line], line
            while end < last:
                following = end + 1
                leaves = depths[following + 1] < depth  # this line closes the braces around the marker
                if following in markers or leaves:
                    break
                close = following
                while depths[close + 1] > depth:
                    close += 1
                if any(following < marker <= close for marker in markers):
                    break
                end = close
            while not lines[end - 1].strip():
                end -= 1
            steps.append(Marked(name, line, end))
        return tuple(steps)

    def undefining(self) -> str:
        """The source with a call after each declaration of shared memory that makes it undefined (see shim.h), line for line."""
        parts, at = [], 0
        for number, found in enumerate(_SHARED.finditer(self.code)):
            names = [] if found["extern"] else _declared(found["declared"])
            if names:
                parts += [self.text[at : found.end()], f" static Undefined fs_undefined_{number}({', '.join(names)});"]
                at = found.end()
        return "".join([*parts, self.text[at:]])

    def step_at(self, line: int) -> tuple[Function, Marked | None] | None:
        """The function that a line stands in, and the step if it is of one; None outside of all functions."""
        for function in self.functions.values():
            if function.first <= line <= function.last:
                return function, next((step for step in function.steps if step.first <= line <= step.last), None)
        return None

    def probing(self, slots: dict[str, dict[str, tuple[str, ...]]], shapes: Shapes) -> str:
        """The source with probes: `slots[function][step]` are the shared arrays to write when the step ends, and
        `shapes[function][slot]` their rows and columns, which the compiler is told to insist on.

        Steps without slots get no probe, so that one in divergent code gets no barrier.
        """
        lines = self.text.split("\n")
        after: dict[int, str] = {}
        for function in self.functions.values():
            after[function.first] = after.get(function.first, "") + "\nFS_ENTER"
            for step in function.steps:
                number = function.number(step.name)
                wanted = slots.get(function.name, {}).get(step.name, ())
                if wanted:
                    probes = " ".join(_probe(slot, *shapes[function.name][slot]) for slot in wanted)
                    after[step.last] = after.get(step.last, "") + f"\n__syncthreads(); FS_STEP({number}) {probes} __syncthreads();"
            lines[function.last - 1] = "FS_EXIT " + lines[function.last - 1]
        told = {number: f"{text}\n#line {number + 1}" for number, text in after.items()}  # a compiler names the lines of the file
        return "\n".join(line + told.get(number, "") for number, line in enumerate(lines, 1))


def shown_name(source: Source) -> str:
    """The source's name as the compiler is told it, and tells it."""
    return "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "_" for c in source.name)


def _probe(slot: str, rows: int, cols: int) -> str:
    right = f'static_assert(sizeof({slot}) == {4 * rows * cols}, "{slot} should hold {rows} x {cols} floats, as the twin\'s does");'
    return f"{right} FS_PROBE({slot})"


def _declared(text: str) -> list[str]:
    """The names that a declaration declares, given what stands between __shared__ and the semicolon; none where it is no plain one."""
    text = _ALIGNED.sub(" ", text)
    while (less := re.sub(r"\[[^\[\]]*\]|<[^<>]*>", " ", text)) != text:
        text = less
    parts = [re.findall(r"\w+", part) for part in text.split(",")]
    if "(" in text or "=" in text or len(parts[0]) < 2 or not all(parts):
        return []
    return [words[-1] for words in parts]
