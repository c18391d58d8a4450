"""What a person may set: limits and places, from `FLASHSTEP_…` environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from ..trace.words import listed
from .tables import plural, short

MEBIBYTE = 2**20
PREFIX = "FLASHSTEP_"
OTHERS = ("FLASHSTEP_CACHE",)  # read elsewhere: where the cpu engine keeps its builds


def cache_directory() -> Path:
    """The platform's directory for what can be made again: recordings, and arrays that expire."""
    try:
        return _cache_directory()
    except RuntimeError:  # a user without a home
        return Path(os.devnull, "flashstep")  # where nothing can be written


def _cache_directory() -> Path:
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "flashstep"


class Settings(BaseSettings):
    """The server's limits. Each field is read from `FLASHSTEP_` and its name, e.g. `FLASHSTEP_MAX_STEPS=50000`.

    Sizes are bytes unless the name says otherwise. Raises `ValueError` for a value out of range.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)

    # Names, besides this machine's own, by which a browser may call the server.
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    data_directory: Path = Field(default_factory=cache_directory)

    # One recording. 200,000 steps is what the page is built to step through.
    max_steps: int = Field(default=250_000, ge=1)
    value_bytes: int = Field(default=64 * MEBIBYTE, ge=0)
    max_hbm_bytes: int = Field(default=1024 * MEBIBYTE, ge=0)  # all arrays of the model's HBM
    max_flops: int = Field(default=200_000_000_000, ge=1)  # some ten seconds of a small machine

    # The pool.
    workers: int = Field(default=2, ge=1, le=64)
    queue: int = Field(default=8, ge=0, le=1000)
    patience_seconds: float = Field(default=1.0, ge=0, le=30)  # how long a POST waits for a small recording

    # One comparison with the CUDA kernel: a step takes some 5 ms, a number 16 bytes in its result.
    compare_steps: int = Field(default=8_000, ge=1)
    compare_bytes: int = Field(default=8 * MEBIBYTE, ge=0)
    compare_probes: int = Field(default=128 * MEBIBYTE, ge=0)  # what the kernel writes after its steps, whole tiles
    comparisons_memory: int = Field(default=64 * MEBIBYTE, ge=0)

    # Recordings that are kept: they can be made again, so only room limits them.
    recordings_memory: int = Field(default=64 * MEBIBYTE, ge=0)
    recordings_disk: int = Field(default=512 * MEBIBYTE, ge=0)

    # The person's own arrays: one upload, and all of them together.
    upload_bytes: int = Field(default=32 * MEBIBYTE, ge=1)
    arrays_bytes: int = Field(default=256 * MEBIBYTE, ge=1)
    arrays_count: int = Field(default=64, ge=1)
    arrays_days: float = Field(default=30.0, gt=0)

    # Lectures that are followed, and everyone who follows them.
    follow_sessions: int = Field(default=8, ge=1)
    follow_hours: float = Field(default=12.0, gt=0)  # without a move
    followers: int = Field(default=2_000, ge=1)

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """`FLASHSTEP_ALLOWED_HOSTS=lab.example,hall.example` reads more simply than a JSON list."""
        if isinstance(value, str):
            return tuple(part.strip().lower() for part in value.split(",") if part.strip())
        return value


def read_settings() -> Settings:
    """The settings of the environment. Raises `ValueError`: one sentence that names the variable and says what would be right."""
    try:
        return Settings()
    except ValidationError as error:
        first, *more = error.errors()
        bounds = first.get("ctx", {})
        words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
        wanted = listed([f"{word} {bounds[name]:,g}" for name, word in words.items() if name in bounds])
        name = str(first["loc"][0])
        kind = "a number" if Settings.model_fields[name].annotation is float else "a whole number"
        example = Settings.model_fields[name].default
        value = short(str(first["input"]))
        also = f"; {plural(len(more), 'other')} of these variables cannot be used either" if more else ""
        raise ValueError(f"{variable(name)} is “{value}”; write {wanted or f'{kind} such as {example}'}{also}.") from None


def variable(field: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + field.upper()


def unknown_variables(names: Iterable[str]) -> str:
    """Which of an environment's variables look like settings and are none, in a sentence; "" where all are known."""
    known = [variable(field) for field in Settings.model_fields]
    unknown = sorted(name for name in names if name.upper().startswith(PREFIX) and name.upper() not in (*known, *OTHERS))
    if not unknown:
        return ""
    meant = get_close_matches(unknown[0].upper(), known, 1)
    end = f"; did you mean {meant[0]}?" if meant and len(unknown) == 1 else "."
    return f"Nothing heeds {listed(unknown[:4])}{end}"
