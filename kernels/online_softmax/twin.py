"""Online softmax: the softmax of each row of a matrix in two fetches instead of three.

Milakov and Gimelshein 2018, arXiv 1805.02867, algorithm 3, tile by tile: the first sweep finds the maximum
and the sum together, rescaling the sum whenever the maximum rises; the second sweep writes the answer.
"""

from __future__ import annotations

import numpy as np

from ...trace.recorder import Machine, Step, edges
from .. import captions
from ..kernel import Floats, Inputs, LaunchSize
from ..numerics import INF, ratio, rescale, row_max, row_sum, weight
from ..problem import Problem, Tiling, tiles

FIRST, SECOND = ("#first sweep: maximum and sum", "j"), ("#second sweep: write", "j")

STEPS = (
    Step("block appears", "block {block} appears; m = −∞, l = 0", formulas={"mi": "-inf", "li": "0"}),
    Step("load X", "load X{X}", FIRST),
    Step(
        "update m, l",
        "update m, l",
        FIRST,
        formulas={
            "mi": "max(old(mi[r]), Xij[r, :])",
            "alpha": "rescale(old(mi[r]), mi[r])",
            "li": "alpha[r] * old(li[r]) + sum(weight(Xij[r, :], mi[r]))",
        },
    ),
    Step("load X again", "load X{X} again", SECOND),
    Step(
        "write Y",
        "write Y{Y}",
        SECOND,
        relabel={"Xij": "Yij"},
        formulas={"Xij": "ratio(weight(old(Xij[r, c]), mi[r]), li[r])"},
    ),
)


def online_softmax(machine: Machine, problem: Problem, tiling: Tiling, inputs: Inputs) -> dict[str, Floats]:
    """Y, the softmax of each row of x, and each row's m and l: (batch, heads, seqlen_q, seqlen_k), (…, seqlen_q)."""
    p, Br, Bc = problem, tiling.block_rows, tiling.block_cols
    Tr, Tc = tiles(p.seqlen_q, Br, "block_rows"), tiles(p.seqlen_k, Bc, "block_cols")
    rows, keys = edges(p.seqlen_q, Br), edges(p.seqlen_k, Bc)
    shape = (p.batch, p.heads, p.seqlen_q, p.seqlen_k)

    X = machine.array("X", inputs.x, role="input", row_edges=rows, col_edges=keys)
    Y = machine.array("Y", None, shape=shape, role="output", row_edges=rows, col_edges=keys)
    maxima, sums = np.empty(shape[:3], np.float32), np.empty(shape[:3], np.float32)

    launch = machine.launch("online_softmax", "online softmax", {"i": Tr, "head": p.heads, "batch": p.batch}, 128, STEPS)
    Xij = launch.shared("Xij", Br, Bc)
    mi, li = (launch.shared(name, Br, 1, lifetime="block", carry=True) for name in ("mi", "li"))
    alpha = launch.register("alpha", Br, 1, carry=True)

    for block in launch.blocks():
        i, head, batch = block.at
        plane, r = batch * p.heads + head, rows[i + 1] - rows[i]
        with block.step("block appears") as step:
            mi.init(-INF, r)
            li.init(0, r)
            step.say("Block {block} owns row tile {block.i}. Before any number is seen, m = −∞ and l = 0.")
        for j in range(Tc):
            c = keys[j + 1] - keys[j]
            with block.step("load X", 0, j) as step:
                Xij.load(X, plane, i, j)
                block.barrier()
                step.say("X{X} comes from HBM: the first of its two trips.")
            with block.step("update m, l", 0, j) as step:
                m_new = np.maximum(mi.now, row_max(Xij.now))
                a = rescale(mi.now, m_new)
                captions.update(step, mi.now, m_new, a, "l")
                mi.update(m_new, r * c)
                alpha.update(a, 2 * r)
                li.update(a * li.now + row_sum(weight(Xij.now, m_new)), 3 * r * c + 2 * r)
                block.barrier()
        maxima[batch, head, rows[i] : rows[i + 1]], sums[batch, head, rows[i] : rows[i + 1]] = mi.now[:, 0], li.now[:, 0]
        for j in range(Tc):
            c = keys[j + 1] - keys[j]
            with block.step("load X again", 1, j) as step:
                Xij.load(X, plane, i, j)
                block.barrier()
                step.say("X{X} comes from HBM a second time: m and l are final now, so the answer can be written.")
            with block.step("write Y", 1, j) as step:
                Xij.update(ratio(weight(Xij.now, mi.now), li.now), 3 * r * c, X, X.index(plane, i, j))
                Xij.store(Y, plane, i, j)
                block.barrier()
                step.say("Y = exp(X − m) ÷ l, written to HBM. With three sweeps X would have come three times.")
    return {"Y": Y.data.reshape(shape), "m": maxima, "l": sums}


def standing(problem: Problem, key_mask: bool) -> int:
    """X."""
    return problem.batch * problem.heads * problem.seqlen_q * problem.seqlen_k


def sizes(problem: Problem, tiling: Tiling, key_mask: bool) -> list[LaunchSize]:
    """What the launch leaves behind."""
    p, Br, Bc = problem, tiling.block_rows, tiling.block_cols
    Tr, Tc = tiles(p.seqlen_q, Br, "block_rows"), tiles(p.seqlen_k, Bc, "block_cols")
    heads, row = p.batch * p.heads, 2 + 3 * Tc + p.seqlen_k
    return [
        LaunchSize(
            blocks=heads * Tr,
            steps=heads * Tr * (1 + 4 * Tc),
            events=heads * Tr * (2 + Tc * (2 + 4 + 2 + 3)),
            kept=heads * p.seqlen_q * row,
            kept_most=min(Br, p.seqlen_q) * row,
            stored=heads * p.seqlen_q * p.seqlen_k,
            made=heads * p.seqlen_q * p.seqlen_k,
            flops=heads * p.seqlen_q * (7 * p.seqlen_k + 4 * Tc),
        )
    ]
