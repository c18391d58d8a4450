"""FlashAttention 1."""

from __future__ import annotations

from pathlib import Path

from ..kernel import Kernel
from .twin import flash_attention_1, sizes, standing

KERNEL = Kernel(
    name="flash-attention-1",
    title="FlashAttention 1",
    idea="S never leaves the chip: one tile of K and V stays while the queries sweep past, and O, m, l travel.",
    order=2,
    twin=flash_attention_1,
    sizes=sizes,
    source=Path(__file__).with_name("twin.py"),
    standing=standing,
)
