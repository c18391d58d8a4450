"""Flash decoding."""

from __future__ import annotations

from pathlib import Path

from ..kernel import ATTENTION, Kernel, attention_inputs
from .twin import flash_decoding, sizes

KERNEL = Kernel(
    name="flash-decoding",
    title="Flash decoding",
    idea="One query, many keys: split the keys among blocks, keep each partial unnormalised, combine at the end.",
    order=4,
    twin=flash_decoding,
    sizes=sizes,
    source=Path(__file__).with_name("twin.py"),
    standing=attention_inputs,
    parameters=(*ATTENTION, "block_cols", "splits"),
    one_query=True,
    overrides={"seqlen_q": 1, "block_cols": 2},
)
