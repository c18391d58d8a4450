"""The named inputs in words and sizes; `inputs.py` makes their arrays."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, str] = {
    "random": "Normally distributed numbers from the seed.",
    "hand": "Five scores 0, 1, 4, 2, 3 and values 1, 2, 3, 5, 4: small enough to check by hand.",
    "equal": "Every score is the same, so every key weighs alike and O is the mean of V.",
    "large": "Scores near 2,000: without the maximum taken off, exp would overflow.",
    "first-tile-masked": "The first key tile is hidden: m is still −∞ when the second tile comes.",
    "fully-masked-row": "A row that sees no key: m = −∞, l = 0, O = 0 and lse = −∞, and no NaN.",
    "decode": "One query against many keys, with several query heads to a key-value head.",
}
"""Name -> what it shows."""

SIZES: dict[str, dict[str, Any]] = {
    "hand": {"seqlen_q": 1, "seqlen_k": 5, "head_dim": 1, "scale": 1.0, "block_rows": 1, "block_cols": 2},
    "fully-masked-row": {"seqlen_q": 8, "seqlen_k": 6, "causal": True},
    "decode": {"seqlen_q": 1, "seqlen_k": 16, "heads": 4, "kv_heads": 2, "splits": 4},
}
"""Name -> the parameters that differ from the textbook's."""
