"""FlashAttention 2: Q outer, one block a query tile, O unnormalised until one division at the end.

Dao 2023, arXiv 2307.08691, algorithm 1. K and V stream past while the block keeps its query tile and its
carries m, l and O; each tile of O is written once, with lse = m + ln l for the backward pass.
"""

from __future__ import annotations

import numpy as np

from ...trace.recorder import Machine, Step, edges
from .. import captions
from ..kernel import Floats, Inputs, LaunchSize, key_mask_array
from ..numerics import INF, logsumexp, ratio, rescale, row_max, row_sum, scores, visible, weight, weighted_sum
from ..problem import Problem, Tiling, tiles

STEPS = (
    Step("block appears", "block {block} appears"),
    Step("load Q, initialise", "load Q{Q}; m = −∞, l = 0, O = 0", formulas={"mi": "-inf", "li": "0", "Oi": "0"}),
    Step("load K, V", "load K{K}, V{V}", ("j",)),
    Step("fill Sij", "fill S{S}", ("j",), formulas={"Sij": "masked(scale * dot(Qi[r, :], Kj[c, :]))"}),
    Step(
        "update m, l, O",
        "update m, l, O",
        ("j",),
        relabel={"Sij": "Pij"},
        formulas={
            "mi": "max(old(mi[r]), old(Sij[r, :]))",
            "alpha": "rescale(old(mi[r]), mi[r])",
            "Sij": "weight(old(Sij[r, c]), mi[r])",
            "li": "alpha[r] * old(li[r]) + sum(Sij[r, :])",
            "Oi": "alpha[r] * old(Oi[r, c]) + mix(Sij[r, :], Vj[:, c])",
        },
    ),
    Step(
        "divide and store O, lse",
        "O ÷ l; store O{O}, lse{lse}",
        formulas={"Oi": "ratio(old(Oi[r, c]), li[r])", "lsei": "lse(mi[r], li[r])"},
    ),
)


def flash_attention_2(machine: Machine, problem: Problem, tiling: Tiling, inputs: Inputs) -> dict[str, Floats]:
    """O (batch, heads, seqlen_q, head_dim) and lse (batch, heads, seqlen_q), float32."""
    p, d, scale = problem, problem.head_dim, np.float32(problem.effective_scale)
    Br, Bc = tiling.block_rows, tiling.block_cols
    Tr, Tc = tiles(p.seqlen_q, Br, "block_rows"), tiles(p.seqlen_k, Bc, "block_cols")
    rows, keys = edges(p.seqlen_q, Br), edges(p.seqlen_k, Bc)

    Q = machine.array("Q", inputs.q, role="input", row_edges=rows)
    K = machine.array("K", inputs.k, role="input", row_edges=keys)
    V = machine.array("V", inputs.v, role="input", row_edges=keys)
    mask = key_mask_array(machine, inputs.key_mask, keys)
    O = machine.array("O", None, shape=(p.batch, p.heads, p.seqlen_q, d), role="output", row_edges=rows)
    lse = machine.array("lse", None, shape=(p.batch, p.heads, p.seqlen_q), role="output", row_edges=rows)
    S = machine.virtual("S", (p.batch, p.heads, p.seqlen_q, p.seqlen_k), rows, keys)

    launch = machine.launch(
        "flash_attention_2", "flash attention 2", {"i": Tr, "head": p.heads, "batch": p.batch}, 128, STEPS
    )
    Qi = launch.shared("Qi", Br, d, lifetime="block")
    Kj, Vj, Sij = launch.shared("Kj", Bc, d), launch.shared("Vj", Bc, d), launch.shared("Sij", Br, Bc)
    mi, li = (launch.shared(name, Br, 1, lifetime="block", carry=True) for name in ("mi", "li"))
    Oi = launch.shared("Oi", Br, d, lifetime="block", carry=True)
    maskj = launch.shared("maskj", Bc, 1, dtype="bool") if mask else None
    alpha, lsei = launch.register("alpha", Br, 1, carry=True), launch.register("lsei", Br, 1)

    blocks = Tr * p.group  # every query tile of every head that shares the keys
    readers = f"Each of {blocks} blocks reads them for itself." if blocks > 1 else "No other block needs them."

    for block in launch.blocks():
        i, head, batch = block.at
        plane, kv = batch * p.heads + head, batch * p.kv_heads + head // p.group
        r = rows[i + 1] - rows[i]
        with block.step("block appears") as step:
            step.say("Block {block} gets its shared memory. It will own query tile {block.i} and write O{block.i} alone, once.")
        with block.step("load Q, initialise") as step:
            Qi.load(Q, plane, i)
            mi.init(-INF, r)
            li.init(0, r)
            Oi.init(0, r)
            block.barrier()
            step.say("Q{Q} comes to shared memory and stays. The carries start at m = −∞, l = 0, O = 0: no key has been seen.")
        for j in range(Tc):
            c = keys[j + 1] - keys[j]
            with block.step("load K, V", j) as step:
                Kj.load(K, kv, j)
                Vj.load(V, kv, j)
                if mask and maskj:
                    maskj.load(mask, batch, j)
                block.barrier()
                step.say(f"K{{K}} and V{{V}} come from HBM: {captions.count(c)}. {readers}", c)
            seen = visible(p, rows[i], r, keys[j], c, maskj.now if maskj else None)
            with block.step("fill Sij", j) as step:
                Sij.fill(scores(Qi.now, Kj.now, scale, seen), 2 * r * c * d + r * c, S, S.index(plane, i, j))
                block.barrier()
                captions.fill(step, Sij.now, seen)
            with block.step("update m, l, O", j) as step:
                m_new = np.maximum(mi.now, row_max(Sij.now))
                a = rescale(mi.now, m_new)
                captions.update(step, mi.now, m_new, a, "l and O")
                mi.update(m_new, r * c)
                alpha.update(a, 2 * r)
                Sij.update(weight(Sij.now, m_new), 2 * r * c, S, S.index(plane, i, j))
                li.update(a * li.now + row_sum(Sij.now), 2 * r + r * c)
                Oi.update(a * Oi.now + weighted_sum(Sij.now, Vj.now, seen), r * d + 2 * r * c * d)
                block.barrier()
        with block.step("divide and store O, lse") as step:
            Oi.update(ratio(Oi.now, li.now), r * d)
            lsei.fill(logsumexp(mi.now, li.now), 2 * r)
            Oi.store(O, plane, i)
            lsei.store(lse, plane, i)
            step.say("The one division: O{O} = O ÷ l, written to HBM once. lse{lse} = m + ln l goes with it, for the backward pass.")
    return {"O": O.data.reshape(O.info.shape), "lse": lse.data.reshape(lse.info.shape)}


def sizes(problem: Problem, tiling: Tiling, key_mask: bool) -> list[LaunchSize]:
    """What the launch leaves behind."""
    p, d, Br, Bc = problem, problem.head_dim, tiling.block_rows, tiling.block_cols
    Tr, Tc = tiles(p.seqlen_q, Br, "block_rows"), tiles(p.seqlen_k, Bc, "block_cols")
    heads = p.batch * p.heads
    N, M = p.seqlen_q, p.seqlen_k
    # A row is kept: m, l, O at the start; S, P, m, alpha, l, O a tile; O, lse at the end.
    row = (2 + d) + 2 * M + Tc * (3 + d) + (d + 1)
    return [
        LaunchSize(
            blocks=heads * Tr,
            steps=heads * Tr * (3 + 3 * Tc),
            events=heads * Tr * (5 + Tc * (11 + key_mask) + 4),
            kept=heads * N * row,
            kept_most=min(Br, N) * row,
            stored=heads * N * (d + 1),
            made=heads * N * (d + 1),
            flops=heads * (N * M * (4 * d + 5) + N * Tc * (4 + d) + N * (d + 2)),
        )
    ]
