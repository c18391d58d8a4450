"""What the app's tests share: the app in this process, and a word on what it must say."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient

ADDRESS = "http://127.0.0.1:8642"
Start = Callable[..., TestClient]
JSON = dict[str, Any]


def is_sentence(text: str) -> bool:
    """Whether a message is for people: a capital or a quotation first, a full stop last, no traceback."""
    return bool(re.match(r"[A-Z“\w]", text)) and text.endswith(".") and "Traceback" not in text
