"""The order of steps, which reads like the lesson, and the traffic, which is the closed form."""

from __future__ import annotations

from typing import Any

import pytest

import flashstep as fs
from flashstep.trace.ledger import total


def labels(kernel: str, **parameters: Any) -> list[str]:
    return [step.label for step in fs.record(kernel, **parameters).trace.steps]


def test_flash_decoding() -> None:
    expected = ["start"]
    for split, tiles in ((0, (0, 1)), (1, (2, 3))):
        expected += [f"block {split} appears", "load Q; m = −∞, l = 0, O = 0"]
        for tile in tiles:
            expected += [f"load K{tile}, V{tile}", f"fill S0{tile}", "update m, l, O"]
        expected.append("write partial O, m, l")
    expected += ["block 0 appears", "global m", "global l", "weighted O", "O ÷ l; write O"]
    assert labels("flash-decoding") == expected
    assert len(expected) == 24


def test_flash_attention_1() -> None:
    turn = "load Q{i}, m{i}, l{i}, O{i}|fill S{i}{j}|update m, l, O|store O{i}, m{i}, l{i}"
    expected = ["start", "block 0 appears"]
    for j in (0, 1):
        expected.append(f"load K{j}, V{j}")
        for i in (0, 1):
            expected += turn.format(i=i, j=j).split("|")
    assert labels("flash-attention-1") == expected


def test_flash_attention_2() -> None:
    expected = ["start"]
    for i in (0, 1):
        expected += [f"block {i} appears", f"load Q{i}; m = −∞, l = 0, O = 0"]
        for j in (0, 1):
            expected += [f"load K{j}, V{j}", f"fill S{i}{j}", "update m, l, O"]
        expected.append(f"O ÷ l; store O{i}, lse{i}")
    assert labels("flash-attention-2") == expected


def test_online_softmax() -> None:
    expected = ["start"]
    for i in (0, 1):
        expected.append(f"block {i} appears; m = −∞, l = 0")
        for j in (0, 1):
            expected += [f"load X{i}{j}", "update m, l"]
        for j in (0, 1):
            expected += [f"load X{i}{j} again", f"write Y{i}{j}"]
    assert labels("online-softmax") == expected


def test_standard() -> None:
    expected = ["start"]
    for block in range(4):
        i, j = divmod(block, 2)
        expected += [f"block {block} appears", f"load Q{i}, K{j}", f"fill S{i}{j}", f"store S{i}{j}"]
    for i in (0, 1):
        expected.append(f"block {i} appears; m = −∞, l = 0")
        for after in ("fold into m", "fold into l", "write P{i}{j}"):
            for j in (0, 1):
                expected += [f"load S{i}{j}", after.format(i=i, j=j)]
    for i in (0, 1):
        expected.append(f"block {i} appears; O = 0")
        for j in (0, 1):
            expected += [f"load P{i}{j}, V{j}", "accumulate O"]
        expected.append(f"store O{i}")
    assert labels("standard") == expected


@pytest.mark.parametrize("kernel", fs.kernels)
def test_a_step_in_which_a_block_appears_moves_nothing(kernel: str) -> None:
    trace = fs.record(kernel).trace
    for step in trace.steps:
        if step.name == "block appears":
            assert trace.ledger(step.index) == trace.ledger(step.index - 1)


@pytest.mark.parametrize(("N", "d", "tile", "standard", "fa1", "fa2"), [(8, 4, 2, 800, 576, 328), (8, 4, 4, 608, 320, 200)])
def test_requested_traffic_of_the_textbook_sizes(N: int, d: int, tile: int, standard: int, fa1: int, fa2: int) -> None:
    sizes: dict[str, Any] = {"seqlen_q": N, "seqlen_k": N, "head_dim": d, "block_rows": tile, "block_cols": tile}
    for kernel, expected in (("standard", standard), ("flash-attention-1", fa1), ("flash-attention-2", fa2)):
        ledger = fs.record(kernel, **sizes).trace.ledger()
        assert total(ledger, "loads") + total(ledger, "stores") == expected


@pytest.mark.parametrize("N", [1, 7, 12])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize(("Br", "Bc"), [(2, 3), (4, 4), (5, 2)])
def test_requested_traffic_is_the_closed_form(N: int, heads: int, Br: int, Bc: int) -> None:
    d, Tr, Tc = 4, -(-N // Br), -(-N // Bc)
    sizes: dict[str, Any] = {
        "seqlen_q": N, "seqlen_k": N, "head_dim": d, "block_rows": Br, "block_cols": Bc, "heads": heads, "values": "none",
    }  # fmt: skip
    closed = {
        "standard": ((Tc + Tr) * N * d + 3 * N * N + N * N + Tr * N * d, 2 * N * N + N * d),
        "flash-attention-1": (2 * N * d + Tc * (2 * N * d + 2 * N), Tc * (N * d + 2 * N)),
        "flash-attention-2": (N * d + Tr * 2 * N * d, N * d + N),
        "online-softmax": (2 * N * N, N * N),
    }
    for kernel, (loads, stores) in closed.items():
        asked = {name: value for name, value in sizes.items() if kernel != "online-softmax" or name != "head_dim"}
        ledger = fs.record(kernel, **asked).trace.ledger()
        assert (total(ledger, "loads"), total(ledger, "stores")) == (heads * loads, heads * stores), kernel


@pytest.mark.parametrize("splits", [1, 2, 5, 20])
def test_requested_traffic_of_flash_decoding(splits: int) -> None:
    N, d, ns = 13, 4, splits
    ledger = fs.record("flash-decoding", seqlen_k=N, head_dim=d, splits=splits, block_cols=3).trace.ledger()
    loads = {name: entry["loads"]["elements"] for name, entry in ledger.items()}
    stores = {name: entry["stores"]["elements"] for name, entry in ledger.items()}
    assert loads == {
        "Q": ns * d, "K": N * d, "V": N * d, "O_partial": ns * d, "m_partial": ns * (2 + d), "l_partial": ns, "O": 0,
    }  # fmt: skip
    assert stores == {"Q": 0, "K": 0, "V": 0, "O_partial": ns * d, "m_partial": ns, "l_partial": ns, "O": d}


def test_a_key_mask_is_counted_a_byte_a_key() -> None:
    ledger = fs.record("flash-attention-2", key_mask=[True] * 8).trace.ledger()
    assert ledger["key_mask"]["loads"] == {"transfers": 4, "elements": 16, "bytes": 16}
