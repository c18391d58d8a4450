"""FlashAttention 2."""

from __future__ import annotations

from pathlib import Path

from ..kernel import Kernel, attention_inputs
from .twin import flash_attention_2, sizes

KERNEL = Kernel(
    name="flash-attention-2",
    title="FlashAttention 2",
    idea="Q goes outside: each block keeps one query tile, lets K and V stream past, and divides once.",
    order=3,
    twin=flash_attention_2,
    sizes=sizes,
    source=Path(__file__).with_name("twin.py"),
    standing=attention_inputs,
)
