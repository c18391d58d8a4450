"""A lesson's prose holds no typed number: what is computed stands in {{ }}, and this finds what is not."""

from __future__ import annotations

import re

# What Jinja computes, what is code, and the containers' own words (whose numbers Jinja writes too).
COMPUTED = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|```.*?```|^:::+.*?$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
MATH = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)
# Names that hold a digit, and the first of several things, which is called number 0 in the figure.
NAMES = re.compile(
    r"FlashAttention[- ]\d|FA\d|flash-attention-\d|b?f(?:loat|p)?(?:16|32|64)|[HAB]\d00|L[12]\b|PyTorch \d\.\d+|CUDA \d+"
    r"|\b(?i:row|block|split|launch|tile|head|key|query|column|step) 0\b|log2\b|O\(n²\)"
)
IN_MATH = re.compile(r"\d+\.\d+|\d{2,}")  # a formula's own small numbers (2NM, e^0, 1/2) are no results


def typed(text: str) -> list[str]:
    """Every number that was typed, with what stands around it."""
    text = COMPUTED.sub("¤", text)
    found = [match[0] for part in MATH.findall(text) for match in IN_MATH.finditer(part)]
    plain = NAMES.sub("¤", CODE.sub("¤", MATH.sub("¤", text)))
    plain = re.sub(r"^ *\d+\. ", "", plain, flags=re.MULTILINE)  # a numbered list
    return found + [plain[max(0, at.start() - 30) : at.end() + 20].strip() for at in re.finditer(r"\d+", plain)]
