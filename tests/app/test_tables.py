"""Numbers as a person reads them."""

from __future__ import annotations

import pytest

from flashstep.app.tables import size


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (2**16, "64 KiB"), (2**20 - 1, "1 MiB"),
     (2**25, "32 MiB"), (2**30 - 1, "1 GiB"), (2**41, "2,048 GiB")],
)  # fmt: skip
def test_sizes_are_said_as_people_read_them(count: int, text: str) -> None:
    assert size(count) == text
