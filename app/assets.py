"""The page's static files: serving them, and which modules a page needs, read from their import statements."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "static"
TEMPLATES = ROOT / "templates"

_IMPORT = re.compile(
    r"""^\s*(?:import|export)\b[^"';]*?\bfrom\s*["'](\.[^"']+)["']|^\s*import\s*["'](\.[^"']+)["']""", re.M
)


# Written out, because Windows takes them from its registry, where they are often wrong.
TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".json": "application/json",
}
TEXT = ("text/", "image/svg", "application/json")
UNPACKED = 512  # bytes that are not worth packing


@dataclass(frozen=True)
class Asset:
    """One static file, packed and named by its content once."""

    changed: tuple[int, int]
    kind: str
    etag: str
    plain: bytes
    packed: bytes | None


class StaticFiles:
    """The files of a folder from memory, each read again when it changed on disk.

    A page asks for some fifty modules at once. Starlette's own files cost four turns through a thread each, and are
    packed anew each time; this costs one `stat`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()
        self._assets: dict[str, Asset] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a GET or HEAD below the place that this is mounted at."""
        if scope["type"] != "http":
            return
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405)
        name = scope["path"].removeprefix(scope.get("root_path", "")).lstrip("/")
        asset = self._find(name)
        if asset is None:
            raise HTTPException(404)
        asked = Headers(scope=scope)
        headers = {"ETag": asset.etag, "Vary": "Accept-Encoding"}
        if asset.etag in asked.get("if-none-match", ""):
            response = Response(status_code=304, headers=headers)
        elif asset.packed is not None and "gzip" in asked.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            response = Response(asset.packed, headers=headers, media_type=asset.kind)
        else:
            response = Response(asset.plain, headers=headers, media_type=asset.kind)
        await response(scope, receive, send)

    def _find(self, name: str) -> Asset | None:
        path = self._directory / name
        known = self._assets.get(name)
        try:
            status = os.stat(path)
            changed = (status.st_mtime_ns, status.st_size)
            if known is not None and known.changed == changed:
                return known
            # Only now, because the names that are known were looked at when they came.
            path = path.resolve()
            if not path.is_relative_to(self._directory) or not path.is_file():
                return None
            plain = path.read_bytes()
        except (OSError, ValueError):  # ValueError: a NUL in the name
            self._assets.pop(name, None)
            return None
        kind = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        packed = gzip.compress(plain, 6, mtime=0) if kind.startswith(TEXT) and len(plain) > UNPACKED else None
        asset = Asset(changed, kind, f'"{hashlib.sha256(plain).hexdigest()[:32]}"', plain, packed)
        self._assets[name] = asset
        return asset


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


def renamed(module: str, name: Callable[[str], str]) -> str:
    """The text of a module with `name(path)` wherever it imports the module at `path`, both under static/."""

    def rename(found: re.Match[str]) -> str:
        target = found[1] or found[2]
        return found[0].replace(target, name(_resolve(PurePosixPath(module).parent, target)))

    return _IMPORT.sub(rename, (STATIC / module).read_text(encoding="utf-8"))


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
