"""fs.check: any attention output against exact arithmetic, in the types that kernels write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flashstep as fs

Case = tuple[Any, Any, Any, fs.Run]


@pytest.fixture(scope="module")
def case() -> Case:
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((2, 4, n, 8)).astype(np.float32) for n in (5, 9, 9))
    return q, k, v, fs.record("standard", q, k, v, causal=True)


def test_check_takes_arrays_from_elsewhere(case: Case) -> None:
    q, k, v, run = case
    right = fs.check(run.outputs["O"], q, k, v, causal=True, lse=run.outputs["lse"])
    assert (right.ok, right.note) == (True, "")
    assert not fs.check(run.outputs["O"], q, k, v).ok
    blind = fs.check(np.zeros((1, 8), np.float32), q[0, 0, :1], k[0, 0], v[0, 0], key_mask=[False] * 9)
    assert blind.ok  # a right zero is no failure
    with pytest.raises(ValueError, match="it should be"):
        fs.check(run.outputs["O"][:, :, 1:], q, k, v)


def test_the_place_of_a_difference_is_in_the_array_that_was_given(case: Case) -> None:
    q, k, v, run = case
    off = run.outputs["O"].copy()
    off[1, 2, 3, 4] += 1e-4
    said = str(fs.check(off, q, k, v, causal=True).first_divergence)
    assert said.startswith("first differs in O, batch 1, head 2, query 3, feature 4: ")
    lse = run.outputs["lse"].copy()
    lse[0, 3, 2] = np.nan
    said = str(fs.check(run.outputs["O"], q, k, v, causal=True, lse=lse).first_divergence)
    assert said.startswith("first differs in lse, batch 0, head 3, query 2: NaN against ")
    plain = fs.check(off[1, 2], q[1, 2], k[1, 2], v[1, 2], causal=True)
    assert str(plain.first_divergence).startswith("first differs in O, query 3, feature 4: ")
    assert "step" not in said


@pytest.mark.parametrize(("kind", "digits"), [("float16", 11), ("bfloat16", 8)])
def test_a_half_precision_output_may_be_rounded_once(case: Case, kind: str, digits: int) -> None:
    q, k, v, run = case
    rounded, lse = (nearest(run.outputs[name], digits) for name in ("O", "lse"))
    assert not fs.check(rounded, q, k, v, causal=True).ok  # as float32 it is wrong
    right = fs.check(Typed(rounded, kind), q, k, v, causal=True, lse=Typed(lse, kind))
    assert right.ok
    assert f"O is {kind}: rounding it once to that type, by 2^-{digits} of each value, is allowed" in right.note
    assert f"lse is {kind}" in right.note
    off = rounded.copy()
    off[0, 0, 2, 1] *= 1 + 2.5 * 2.0**-digits
    assert not fs.check(Typed(off, kind), q, k, v, causal=True).ok
    tiny = fs.check(Typed(np.full((1, 8), 1e-9, np.float32), kind), q[0, 0, :1], k[0, 0], v[0, 0], key_mask=[False] * 9)
    assert not tiny.ok  # what must be 0 is 0 in every type


def test_numpys_float16_is_such_a_type(case: Case) -> None:
    q, k, v, run = case
    assert fs.check(run.outputs["O"].astype(np.float16), q.astype(np.float16).astype(np.float32), k, v, causal=True).note
    halves = [array.astype(np.float16) for array in (q, k, v)]
    exact = fs.record("standard", *(half.astype(np.float32) for half in halves))
    assert fs.check(exact.outputs["O"].astype(np.float16), *halves).ok


def test_a_float64_output_is_held_to_float32_and_told_so(case: Case) -> None:
    q, k, v, run = case
    verdict = fs.check(run.outputs["O"].astype(np.float64), q, k, v, causal=True)
    assert verdict.ok
    assert verdict.note == "O is float64: it was rounded to float32 and held to the bound of float32."


@pytest.mark.parametrize("kind", [np.int32, np.int8, np.bool_, np.complex64])
def test_an_output_of_another_type_is_refused(case: Case, kind: Any) -> None:
    q, k, v, run = case
    with pytest.raises(ValueError, match=f"^O is {np.dtype(kind)}: check takes outputs in float16, bfloat16, float32, float64"):
        fs.check(np.zeros(run.outputs["O"].shape, kind), q, k, v)
    with pytest.raises(ValueError, match=r"^lse is"):
        fs.check(run.outputs["O"], q, k, v, lse=np.zeros(run.outputs["lse"].shape, kind))


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_where_nothing_may_be_lost_the_sentence_says_so(case: Case, kind: Any) -> None:
    q, k, v, run = case
    o, lse = np.zeros(run.outputs["O"].shape, kind), np.full(run.outputs["lse"].shape, np.nan, kind)
    verdict = fs.check(o, q, k, v, key_mask=np.zeros((2, 9), bool), lse=lse)
    assert str(verdict.first_divergence) == "first differs in lse, batch 0, head 0, query 0: NaN against −∞ (allowed: 0)"


@pytest.mark.parametrize(("kind", "bits", "signalling"), [
    (np.float16, np.uint16, 0x7C01), (np.float32, np.uint32, 0x7F800001), (np.float64, np.uint64, 0x7FF0000000000001),
])  # fmt: skip
def test_a_signalling_nan_is_a_nan_and_no_warning(case: Case, kind: Any, bits: Any, signalling: int) -> None:
    *inputs, run = case
    off = run.outputs["O"].astype(kind)
    off.view(bits)[1, 2, 3, 4] = signalling
    verdict = fs.check(off, *inputs, causal=True)
    assert "O, batch 1, head 2, query 3, feature 4: NaN against " in str(verdict.first_divergence)
    halves = [array.astype(kind) for array in inputs]
    right = fs.record("standard", *halves, causal=True).outputs["O"]
    halves[2].view(bits)[1, 2, 8, 4] = signalling
    verdict = fs.check(right, *halves, causal=True)
    assert str(verdict.first_divergence).endswith(" against NaN (allowed: 0)")
    assert "O, batch 1, head 2, query 4, feature 4: " in str(verdict.first_divergence)


def test_a_float64_output_beyond_float32_is_an_infinity_and_no_warning(case: Case) -> None:
    q, k, v, run = case
    assert "∞ against" in str(fs.check(run.outputs["O"].astype(np.float64) * 1e300, q, k, v, causal=True).first_divergence)


def test_a_verdict_is_shown_in_a_sentence(case: Case) -> None:
    """A failed assertion prints it: pages of arrays would hide the place."""
    q, k, v, run = case
    right = fs.check(run.outputs["O"], q, k, v, causal=True)
    assert repr(right).startswith("<Agreement of your own: agrees; used at most 0.")
    wrong = fs.check(run.outputs["O"], q, k, v)
    assert repr(wrong) == f"<Agreement of your own: differs; {wrong.first_divergence}>"


def nearest(x: np.ndarray, digits: int) -> np.ndarray:
    """x rounded to a significand of so many binary digits."""
    fraction, exponent = np.frexp(x)
    return np.asarray(np.ldexp(np.round(np.ldexp(fraction, digits)), exponent - digits), np.float32)


class Typed:
    """An array as PyTorch holds it: its type has a name that NumPy lacks, and it comes home as float32."""

    def __init__(self, array: np.ndarray, kind: str) -> None:
        self.array, self.dtype = array, f"torch.{kind}"

    def detach(self) -> Typed:
        return self

    cpu = float = detach

    def numpy(self) -> np.ndarray:
        return self.array
