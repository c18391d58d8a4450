"""The page's static files: where they are, and which modules the player needs, read from its import statements."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "static"
TEMPLATES = ROOT / "templates"

_IMPORT = re.compile(
    r"""^\s*(?:import|export)\b[^"';]*?\bfrom\s*["'](\.[^"']+)["']|^\s*import\s*["'](\.[^"']+)["']""", re.M
)


def modules(entry: str) -> list[str]:
    """`entry` (a path under static/, e.g. "player/main.js") and every module it imports, in the order found.

    A browser learns of an import only when it has the importing file; these links let it ask for all at once.
    """
    found: list[str] = []
    waiting = [entry]
    while waiting:
        name = waiting.pop(0)
        path = STATIC / name
        if name in found or not path.is_file():
            continue
        found.append(name)
        waiting += _imports(name, path.stat().st_mtime_ns)
    return found


@lru_cache(maxsize=512)
def _imports(name: str, changed: int) -> list[str]:
    text = (STATIC / name).read_text(encoding="utf-8")
    here = PurePosixPath(name).parent
    return [_resolve(here, first or second) for first, second in _IMPORT.findall(text)]


def _resolve(here: PurePosixPath, target: str) -> str:
    parts: list[str] = list(here.parts)
    for part in target.split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
