"""Standard attention."""

from __future__ import annotations

from pathlib import Path

from ..kernel import Kernel, attention_inputs
from .twin import sizes, standard

KERNEL = Kernel(
    name="standard",
    title="Standard attention",
    idea="Three launches: S and P, N² numbers each, go out to HBM and come back. This is the memory wall.",
    order=0,
    twin=standard,
    sizes=sizes,
    source=Path(__file__).with_name("twin.py"),
    standing=attention_inputs,
)
