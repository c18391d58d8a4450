"""A person's own arrays: which is which, and what is changed of them on the way in."""

from __future__ import annotations

import numpy as np
import pytest
from arraybytes import K, Q, V
from web import is_sentence

from flashstep.app import ownarrays
from flashstep.app.ownarrays import Array, ArraysError, settle


def test_what_conversion_changes_is_said() -> None:
    assert settle({"x": np.array([[0.5, 2.0]])}).notes == ()
    assert "rounded to float32" in settle({"x": np.array([[0.1]])}).notes[0]
    assert "became infinite" in settle({"x": np.array([[1e300]])}).notes[0]
    assert "rounded" in settle({"x": np.array([[2**24 + 1]])}).notes[0]


def test_names_are_understood_or_asked_for() -> None:
    assert list(settle({"Query": Q, "KEYS": K, "v": V}).arrays) == ["q", "k", "v"]
    in_order = settle({"first": Q, "second": K, "third": V})
    assert list(in_order.arrays) == ["q", "k", "v"]
    assert "q: first" in in_order.notes[0]
    assert "Left out: o" in settle({"q": Q, "k": K, "v": V, "o": Q}).notes[0]
    refused: list[tuple[dict[str, Array], str]] = [
        ({"q": Q, "k": K}, "v is missing"),
        ({"q": Q, "query": Q, "k": K, "v": V}, "both q"),
        ({"q": Q}, "k and v are missing"),
        ({"a": Q, "k": K, "v": V}, "q is missing; send q, k and v together: the name of a file or entry says which"),
        ({"a": Q, "b": K}, "The name of a file or entry says which array it is: call them q, k and v"),
        ({"foo": Q[0, :]}, "The name of a file or entry says which array it is: call them q, k and v"),
        ({"q1": Q, "q2": K, "k": K, "v": V}, "q1 and q2 are both q"),
        ({"q": Q[0], "k": K, "v": V}, "q is (2,); give (seqlen, head_dim)"),
        ({"q": Q[0], "k": K, "v": V}, "(seqlen, head_dim)"),
        ({"x": Q[None]}, "rows by columns"),
        ({"q": Q, "k": K, "v": V, "key_mask": np.full(4, 0.5)}, "0 and 1"),
    ]
    for found, says in refused:
        with pytest.raises(ArraysError) as error:
            settle(found)
        assert says in str(error.value)
        assert is_sentence(str(error.value))


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (("q64", "k", "v"), {"q64": "q", "k": "k", "v": "v"}),
        (("Query-states", "K_cache", "value 1"), {"Query-states": "q", "K_cache": "k", "value 1": "v"}),
        (("Mask.b", "key-mask"), {"key-mask": "key_mask"}),
        (("q", "q64", "k", "v", "x"), {"q": "q", "k": "k", "v": "v", "x": "x"}),
        (("kernel", "variance", "xs", "quiet"), {}),
    ],
)
def test_a_name_says_which_array_it_is(names: tuple[str, ...], roles: dict[str, str]) -> None:
    assert ownarrays._roles(names) == roles
