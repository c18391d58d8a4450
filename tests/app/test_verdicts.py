"""Shares of what rounding allows, as a person reads them."""

from __future__ import annotations

from flashstep.app import verdicts


def test_a_large_share_is_a_number_of_times() -> None:
    assert [verdicts.share(x) for x in (0.341, 9.5, 677794.84, float("inf"))] == ["35 %", "950 %", "677,795 times", "∞"]


def test_shares_are_rounded_up() -> None:
    assert [verdicts.percent(x) for x in (0, 1e-9, 0.341, 0.34, 1.0, 12.345, float("inf"))] == [
        "0 %", "1 %", "35 %", "34 %", "100 %", "1,235 %", "∞",
    ]  # fmt: skip
