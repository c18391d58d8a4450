"""Pasted numbers: what is read as a matrix, and what is refused with its line."""

from __future__ import annotations

import numpy as np
import pytest
from web import is_sentence

from flashstep.app.arraytext import read_text
from flashstep.app.ownarrays import ArraysError, settle


def test_pasted_numbers() -> None:
    found = read_text("q = [[1, 2], [3, 4]]\nK:\n1 −2.5\n\n3e-1\tinf\nv\n nan, -inf;\n0 .5\nmask: 1 0\n")
    assert found["q"].tolist() == [[1, 2], [3, 4]]
    assert found["k"].tolist() == np.array([[1, -2.5], [0.3, np.inf]], np.float32).tolist()
    assert np.isnan(found["v"][0, 0])
    assert found["key_mask"].tolist() == [1, 0]
    assert settle(read_text("x\n0.1 0.2")).notes == ()  # everyone rounds decimals
    for huge in ("1e300", "1e999999999999", "-1e400", "9" * 400):
        settled = settle(read_text(f"x\n{huge} inf -inf"))
        assert settled.notes == ("x was float64: 1 number beyond float32's range became infinite.",)
        assert np.isinf(settled.arrays["x"]).all()
    assert settle(read_text("x\ninf -inf infinity")).notes == ()
    assert list(read_text("1 2\n3 4\n")) == ["x"]
    assert list(read_text("1\n\n2\n\n3")) == ["q", "k", "v"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no numbers"),
        ("q\n1 2\n3", "Row 2 of q"),
        ("q\n1 two\n", "Line 2 has “two”"),
        ("w\n1 2", "Line 1 names “w”"),
        ("q\n1\nq\n2", "a second time"),
        ("1 2\nq\n3", "before the first name"),
        ("1\n\n2", "2 matrices without names"),
        ("q: __import__('os')", "not a number"),
        ("1 " * 300_000, "200,000 numbers"),
    ],
)
def test_pasted_text_that_cannot_be_read_says_where(text: str, says: str) -> None:
    with pytest.raises(ArraysError) as error:
        read_text(text)
    assert says in str(error.value)
    assert is_sentence(str(error.value))
