"""The pages' templates: one environment for pages, parts of pages and exported files."""

from __future__ import annotations

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from . import assets

templates = Environment(
    loader=FileSystemLoader(assets.TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
