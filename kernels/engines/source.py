"""A kernel.cu as the engines read it: functions and their parameters, step markers, hash, and probes.

The source marks each step of the lesson with a comment, `// step: fill Sij`, in the twin's words. Those
comments are all the instrumentation a reader sees. Here they become line ranges for the code pane and, in a
probing build, calls that write the step's slots to a buffer. A marker's region runs from its line to the next
marker, to the end of the braces around it, or to the first loop that holds another marker: a probe at its
end runs exactly once each time the step does.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_MARKER = re.compile(r"^\s*// step: (?P<name>.+?)\s*$")
_FUNCTION = re.compile(
    r"template\s*<(?P<template>[^>]*)>\s*__global__\s+void\s+(?P<name>\w+)\s*\((?P<parameters>[^)]*)\)\s*\{", re.S
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_TOKEN = re.compile(r"\w+|\S")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: its name, its C type, and whether it points to an array in HBM."""

    name: str
    type: str

    @property
    def pointer(self) -> bool:
        return self.type.endswith("*")


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

    def step(self, name: str) -> Marked | None:
        return next((step for step in self.steps if step.name == name), None)


@dataclass(frozen=True)
class Source:
    """The text of a kernel.cu, and what is to be known of it."""

    text: str

    @classmethod
    def read(cls, path: Path) -> Source:
        return cls(path.read_text("utf-8"))

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
        for match in _FUNCTION.finditer(self.text):
            first = self.text.count("\n", 0, match.end()) + 1
            last = self._closing_line(match.end())
            found[match["name"]] = Function(
                match["name"],
                tuple(part.split()[-1] for part in match["template"].split(",")),
                tuple(_parameter(part) for part in match["parameters"].split(",")),
                first,
                last,
                self._steps(first, last),
            )
        return found

    def _closing_line(self, start: int) -> int:
        """The line of the brace that closes the one before `start`."""
        depth = 1
        for place in range(start, len(self.text)):
            depth += {"{": 1, "}": -1}.get(self.text[place], 0)
            if depth == 0:
                return self.text.count("\n", 0, place) + 1
        raise ValueError("The kernel's source has a brace that is never closed.")

    @cached_property
    def _depths(self) -> list[int]:
        """The depth of braces before each line, 1-based; comments do not count."""
        depths, depth = [0, 0], 0
        for line in self.text.split("\n"):
            depth += sum({"{": 1, "}": -1}.get(c, 0) for c in _COMMENT.sub("", line))
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

    def probing(self, slots: dict[str, dict[str, tuple[str, ...]]]) -> str:
        """The source with probes: `slots[function][step]` are the shared arrays to write when the step ends.

        Steps without slots get no probe, so that one in divergent code gets no barrier.
        """
        lines = self.text.split("\n")
        after: dict[int, str] = {}
        for function in self.functions.values():
            after[function.first] = after.get(function.first, "") + " FS_ENTER"
            for number, step in enumerate(function.steps):
                wanted = slots.get(function.name, {}).get(step.name, ())
                if wanted:
                    probes = " ".join(f"FS_PROBE({slot})" for slot in wanted)
                    after[step.last] = after.get(step.last, "") + f"\n__syncthreads(); FS_STEP({number}) {probes} __syncthreads();"
            lines[function.last - 1] = "FS_EXIT " + lines[function.last - 1]
        return "\n".join(line + after.get(number, "") for number, line in enumerate(lines, 1))


def _parameter(text: str) -> Parameter:
    match = re.match(r"^\s*(?P<type>.+?[\s*])\s*(?P<name>\w+)\s*$", text, re.S)
    if match is None:
        raise ValueError(f"A kernel's parameter cannot be read: {text!r}.")
    return Parameter(match["name"], match["type"].strip())
