"""FlashAttention 1: K and V outer, and the carries O, m and l travel through HBM at every tile.

Dao et al. 2022, arXiv 2205.14135, algorithm 1, with the new maximum taken before P is made, as the CUDA
kernel of the lesson does. O is normalised at each step, so what lies in HBM is always the softmax over the
keys seen so far. One block serves one (batch, head).
"""

from __future__ import annotations

import numpy as np

from ...trace.recorder import Machine, Step, edges
from .. import captions
from ..kernel import Floats, Inputs, LaunchSize, attention_inputs, key_mask_array
from ..numerics import INF, logsumexp, ratio, rescale, row_max, row_sum, scores, visible, weight, weighted_sum
from ..problem import Problem, Tiling, tiles

STEPS = (
    Step("block appears", "block {block} appears"),
    Step("load K, V", "load K{K}, V{V}", ("j",)),
    Step("load Q, m, l, O", "load Q{Q}, m{m}, l{l}, O{O}", ("j", "i")),
    Step("fill Sij", "fill S{S}", ("j", "i"), formulas={"Sij": "masked(scale * dot(Qi[r, :], Kj[c, :]))"}),
    Step(
        "update m, l, O",
        "update m, l, O",
        ("j", "i"),
        relabel={"Sij": "Pij"},
        formulas={
            "mi": "max(old(mi[r]), old(Sij[r, :]))",
            "alpha": "rescale(old(mi[r]), mi[r])",
            "Sij": "weight(old(Sij[r, c]), mi[r])",
            "li": "alpha[r] * old(li[r]) + sum(Sij[r, :])",
            "Oi": "ratio(alpha[r] * old(li[r]) * old(Oi[r, c]) + mix(Sij[r, :], Vj[:, c]), li[r])",
        },
    ),
    Step("store O, m, l", "store O{O}, m{m}, l{l}", ("j", "i")),
)


def flash_attention_1(machine: Machine, problem: Problem, tiling: Tiling, inputs: Inputs) -> dict[str, Floats]:
    """O (batch, heads, seqlen_q, head_dim), and lse (batch, heads, seqlen_q) from m and l on the host."""
    p, d, scale = problem, problem.head_dim, np.float32(problem.effective_scale)
    Br, Bc = tiling.block_rows, tiling.block_cols
    Tr, Tc = tiles(p.seqlen_q, Br, "block_rows"), tiles(p.seqlen_k, Bc, "block_cols")
    rows, keys = edges(p.seqlen_q, Br), edges(p.seqlen_k, Bc)
    matrix, vector = (p.batch, p.heads, p.seqlen_q, d), (p.batch, p.heads, p.seqlen_q)
    filled = "The launcher fills it before the kernel starts; that fill is not counted."

    Q = machine.array("Q", inputs.q, role="input", row_edges=rows)
    K = machine.array("K", inputs.k, role="input", row_edges=keys)
    V = machine.array("V", inputs.v, role="input", row_edges=keys)
    mask = key_mask_array(machine, inputs.key_mask, keys)
    O = machine.array("O", np.zeros(matrix, np.float32), role="output", row_edges=rows, filled=filled)
    m = machine.array("m", np.full(vector, -INF, np.float32), role="scratch", row_edges=rows, filled=filled)
    l = machine.array("l", np.zeros(vector, np.float32), role="scratch", row_edges=rows, filled=filled)
    S = machine.virtual("S", (p.batch, p.heads, p.seqlen_q, p.seqlen_k), rows, keys)
    machine.start("The inputs stand in HBM. The launcher has filled O with 0, m with −∞ and l with 0; that fill is not counted.")

    launch = machine.launch("flash_attention_1", "flash attention 1", {"head": p.heads, "batch": p.batch}, 128, STEPS)
    Kj, Vj = launch.shared("Kj", Bc, d), launch.shared("Vj", Bc, d)
    Qi, Sij = launch.shared("Qi", Br, d), launch.shared("Sij", Br, Bc)
    mi, li = (launch.shared(name, Br, 1, carry=True) for name in ("mi", "li"))
    Oi = launch.shared("Oi", Br, d, carry=True)
    maskj = launch.shared("maskj", Bc, 1, dtype="bool") if mask else None
    alpha = launch.register("alpha", Br, 1, carry=True)

    for block in launch.blocks():
        head, batch = block.at
        plane, kv = batch * p.heads + head, batch * p.kv_heads + head // p.group
        with block.step("block appears") as step:
            step.say("Block {block} gets its shared memory. It alone serves this head: every tile of K, and within each, every tile of Q.")
        for j in range(Tc):
            c = keys[j + 1] - keys[j]
            with block.step("load K, V", j) as step:
                Kj.load(K, kv, j)
                Vj.load(V, kv, j)
                if mask and maskj:
                    maskj.load(mask, batch, j)
                block.barrier()
                step.say("K{K} and V{V} come from HBM, once, and stay while every tile of Q sweeps past them.")
            for i in range(Tr):
                r = rows[i + 1] - rows[i]
                with block.step("load Q, m, l, O", j, i) as step:
                    Qi.load(Q, plane, i)
                    mi.load(m, plane, i)
                    li.load(l, plane, i)
                    Oi.load(O, plane, i)
                    block.barrier()
                    step.say("Q{Q} comes with its carries m, l and O, as they were left in HBM: turn {0} of {1} for these rows.", j + 1, Tc)
                seen = visible(p, rows[i], r, keys[j], c, maskj.now if maskj else None)
                with block.step("fill Sij", j, i) as step:
                    Sij.fill(scores(Qi.now, Kj.now, scale, seen), 2 * r * c * d + r * c, S, S.index(plane, i, j))
                    block.barrier()
                    captions.fill(step, Sij.now, seen)
                with block.step("update m, l, O", j, i) as step:
                    m_new = np.maximum(mi.now, row_max(Sij.now))
                    a = rescale(mi.now, m_new)
                    captions.update(step, mi.now, m_new, a, "l and O")
                    l_old = a * li.now
                    mi.update(m_new, r * c)
                    alpha.update(a, 2 * r)
                    Sij.update(weight(Sij.now, m_new), 2 * r * c, S, S.index(plane, i, j))
                    li.update(l_old + row_sum(Sij.now), 2 * r + r * c)
                    mixed = l_old * Oi.now + weighted_sum(Sij.now, Vj.now, seen)
                    Oi.update(ratio(mixed, li.now), 3 * r * d + 2 * r * c * d)
                    block.barrier()
                with block.step("store O, m, l", j, i) as step:
                    Oi.store(O, plane, i)
                    mi.store(m, plane, i)
                    li.store(l, plane, i)
                    block.barrier()
                    step.say("O{O}, m{m} and l{l} go back to HBM, normalised: the answer over the keys seen so far, {0} of {1}.", keys[j + 1], p.seqlen_k)
    result, top, total = (array.data.reshape(array.info.shape) for array in (O, m, l))
    return {"O": result, "lse": logsumexp(top, total)}


def standing(problem: Problem, key_mask: bool) -> int:
    """Q, K, V and the mask, and the O, m, l that the launcher fills."""
    return attention_inputs(problem, key_mask) + problem.batch * problem.heads * problem.seqlen_q * (problem.head_dim + 2)


def sizes(problem: Problem, tiling: Tiling, key_mask: bool) -> list[LaunchSize]:
    """What the launch leaves behind."""
    p, d, Br, Bc = problem, problem.head_dim, tiling.block_rows, tiling.block_cols
    Tr, Tc = tiles(p.seqlen_q, Br, "block_rows"), tiles(p.seqlen_k, Bc, "block_cols")
    heads = p.batch * p.heads
    # A row is kept: S and P over all keys, and m, alpha, l, O a tile. What is loaded stands in HBM already.
    head = p.seqlen_q * (2 * p.seqlen_k + Tc * (3 + d))
    return [
        LaunchSize(
            blocks=heads,
            steps=heads * (1 + Tc * (1 + 4 * Tr)),
            events=heads * Tc * (3 + key_mask + Tr * (5 + 2 + 6 + 4)),
            kept=heads * head,
            kept_most=head,
            stored=heads * p.seqlen_q * Tc * (d + 2),
            made=0,
            flops=heads * p.seqlen_q * (p.seqlen_k * (4 * d + 5) + Tc * (4 + 3 * d)),
        )
    ]
