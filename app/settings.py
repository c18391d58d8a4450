"""What a person may set: limits and places, from `FLASHSTEP_…` environment variables."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MEBIBYTE = 2**20


def cache_directory() -> Path:
    """The platform's directory for what can be made again: recordings, and arrays that expire."""
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

    model_config = SettingsConfigDict(env_prefix="FLASHSTEP_", frozen=True)

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
