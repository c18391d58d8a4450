"""Standard attention: three launches, with S and P written to HBM and read back.

Scores, safe softmax in three sweeps, and the product with V, each a launch of its own, as a library
without fusion would run them. It is the baseline whose N² traffic the other kernels avoid.
"""

from __future__ import annotations

import numpy as np

from ...trace.recorder import Array, Machine, Step, edges
from .. import captions
from ..kernel import Floats, Inputs, LaunchSize, key_mask_array
from ..numerics import INF, logsumexp, ratio, row_max, row_sum, scores, visible, weight, weighted_sum
from ..problem import Problem, Tiling, tiles

SCORES = (
    Step("block appears", "block {block} appears"),
    Step("load Q, K", "load Q{Q}, K{K}"),
    Step("fill Sij", "fill S{S}", formulas={"Sij": "masked(scale * dot(Qi[r, :], Kj[c, :]))"}),
    Step("store S", "store S{S}"),
)

MAXIMUM, SUM, DIVIDE = (
    ("#first sweep: maximum", "j"), ("#second sweep: sum", "j"), ("#third sweep: divide", "j"),
)  # fmt: skip

SOFTMAX = (
    Step("block appears", "block {block} appears; m = −∞, l = 0", formulas={"mi": "-inf", "li": "0"}),
    Step("load S for the maximum", "load S{S}", MAXIMUM),
    Step("fold the maximum", "fold into m", MAXIMUM, formulas={"mi": "max(old(mi[r]), Sij[r, :])"}),
    Step("load S for the sum", "load S{S}", SUM),
    Step("fold the sum", "fold into l", SUM, formulas={"li": "old(li[r]) + sum(weight(Sij[r, :], mi[r]))"}),
    Step("load S to divide", "load S{S}", DIVIDE),
    Step(
        "write P",
        "write P{P}",
        DIVIDE,
        relabel={"Sij": "Pij"},
        formulas={"Sij": "ratio(weight(old(Sij[r, c]), mi[r]), li[r])"},
    ),
)

PRODUCT = (
    Step("block appears", "block {block} appears; O = 0", formulas={"Oi": "0"}),
    Step("load P, V", "load P{P}, V{V}", ("j",)),
    Step("accumulate O", "accumulate O", ("j",), formulas={"Oi": "old(Oi[r, c]) + mix(Pij[r, :], Vj[:, c])"}),
    Step("store O", "store O{O}"),
)


def standard(machine: Machine, problem: Problem, tiling: Tiling, inputs: Inputs) -> dict[str, Floats]:
    """O (batch, heads, seqlen_q, head_dim), and lse (batch, heads, seqlen_q) from m and l on the host."""
    p, Br, Bc = problem, tiling.block_rows, tiling.block_cols
    tiles(p.seqlen_q, Br, "block_rows"), tiles(p.seqlen_k, Bc, "block_cols")
    rows, keys = edges(p.seqlen_q, Br), edges(p.seqlen_k, Bc)
    square = (p.batch, p.heads, p.seqlen_q, p.seqlen_k)

    Q = machine.array("Q", inputs.q, role="input", row_edges=rows)
    K = machine.array("K", inputs.k, role="input", row_edges=keys)
    V = machine.array("V", inputs.v, role="input", row_edges=keys)
    mask = key_mask_array(machine, inputs.key_mask, keys)
    S = machine.array("S", None, shape=square, role="scratch", row_edges=rows, col_edges=keys)
    P = machine.array("P", None, shape=square, role="scratch", row_edges=rows, col_edges=keys)
    O = machine.array("O", None, shape=(*square[:3], p.head_dim), role="output", row_edges=rows)

    write_scores(machine, p, tiling, Q, K, S, mask)
    lse = softmax_rows(machine, p, tiling, S, P)
    weigh_values(machine, p, tiling, P, V, O, mask)
    return {"O": O.data.reshape(O.info.shape), "lse": lse}


def write_scores(
    machine: Machine, p: Problem, tiling: Tiling, Q: Array, K: Array, S: Array, mask: Array | None
) -> None:
    """Launch 1: a block a tile of S."""
    d, Br, Bc, scale = p.head_dim, tiling.block_rows, tiling.block_cols, np.float32(p.effective_scale)
    rows, keys = S.info.row_edges, S.info.col_edges
    grid = {"j": S.info.col_tiles, "i": S.info.row_tiles, "head": p.heads, "batch": p.batch}
    launch = machine.launch("scores", "launch 1: S = Q Kᵀ", grid, 128, SCORES)
    Qi, Kj, Sij = launch.shared("Qi", Br, d), launch.shared("Kj", Bc, d), launch.shared("Sij", Br, Bc)
    maskj = launch.shared("maskj", Bc, 1, dtype="bool") if mask else None
    for block in launch.blocks():
        j, i, head, batch = block.at
        plane, kv = batch * p.heads + head, batch * p.kv_heads + head // p.group
        r, c = rows[i + 1] - rows[i], keys[j + 1] - keys[j]
        with block.step("block appears") as step:
            step.say("Block {block} will make one tile of S, for query tile {block.i} and key tile {block.j}.")
        with block.step("load Q, K") as step:
            Qi.load(Q, plane, i)
            Kj.load(K, kv, j)
            if mask and maskj:
                maskj.load(mask, batch, j)
            block.barrier()
            step.say("Q{Q} and K{K} come from HBM. Every block loads its own: each tile of Q is read once a key tile.")
        with block.step("fill Sij") as step:
            seen = visible(p, rows[i], r, keys[j], c, maskj.now if maskj else None)
            Sij.fill(scores(Qi.now, Kj.now, scale, seen), 2 * r * c * d + r * c, S, S.index(plane, i, j))
            block.barrier()
            captions.fill(step, Sij.now, seen)
        with block.step("store S") as step:
            Sij.store(S, plane, i, j)
            step.say(f"S{{S}} goes to HBM, {captions.count(r * c, 'number')}, to be read back three times.", r * c)


def softmax_rows(machine: Machine, p: Problem, tiling: Tiling, S: Array, P: Array) -> Floats:
    """Launch 2: a block a row tile, three sweeps over S. Returns lse."""
    rows, keys, Tc = S.info.row_edges, S.info.col_edges, S.info.col_tiles
    lse = np.empty((p.batch, p.heads, p.seqlen_q), np.float32)
    grid = {"i": S.info.row_tiles, "head": p.heads, "batch": p.batch}
    launch = machine.launch("softmax", "launch 2: P = softmax(S)", grid, 128, SOFTMAX)
    Sij = launch.shared("Sij", tiling.block_rows, tiling.block_cols)
    mi, li = (launch.shared(name, tiling.block_rows, 1, lifetime="block", carry=True) for name in ("mi", "li"))
    for block in launch.blocks():
        i, head, batch = block.at
        plane, r = batch * p.heads + head, rows[i + 1] - rows[i]
        with block.step("block appears") as step:
            mi.init(-INF, r)
            li.init(0, r)
            step.say("Block {block} will turn row tile {block.i} of S into P. It starts at m = −∞ and l = 0.")
        for j in range(Tc):
            c = keys[j + 1] - keys[j]
            with block.step("load S for the maximum", 0, j) as step:
                Sij.load(S, plane, i, j)
                block.barrier()
                step.say("S{S} comes back from HBM, for the maximum.")
            with block.step("fold the maximum", 0, j) as step:
                m_new = np.maximum(mi.now, row_max(Sij.now))
                m_old = float(mi.now[0, 0])
                mi.update(m_new, r * c)
                block.barrier()
                if step.speaks:
                    step.say("m takes in the tile's largest score: row 0's goes from {0} to {1}.", m_old, float(m_new[0, 0]))
                else:
                    step.say("m takes in the tile's largest score.")
        for j in range(Tc):
            c = keys[j + 1] - keys[j]
            with block.step("load S for the sum", 1, j) as step:
                Sij.load(S, plane, i, j)
                block.barrier()
                step.say("S{S} comes back from HBM a second time, for the sum.")
            with block.step("fold the sum", 1, j) as step:
                l_old = float(li.now[0, 0])
                li.update(li.now + row_sum(weight(Sij.now, mi.now)), 3 * r * c)
                block.barrier()
                if step.speaks:
                    step.say("l takes in exp(S − m): row 0's goes from {0} to {1}. m is final, so nothing is rescaled.", l_old, float(li.now[0, 0]))
                else:
                    step.say("l takes in exp(S − m). m is final, so nothing is rescaled.")
        lse[batch, head, rows[i] : rows[i + 1]] = logsumexp(mi.now, li.now)[:, 0]
        for j in range(Tc):
            c = keys[j + 1] - keys[j]
            with block.step("load S to divide", 2, j) as step:
                Sij.load(S, plane, i, j)
                block.barrier()
                step.say("S{S} comes back from HBM a third time, to be divided.")
            with block.step("write P", 2, j) as step:
                Sij.update(ratio(weight(Sij.now, mi.now), li.now), 3 * r * c, S, S.index(plane, i, j))
                Sij.store(P, plane, i, j)
                block.barrier()
                step.say(f"P = exp(S − m) ÷ l goes to HBM, another {captions.count(r * c, 'number')} only passing through.", r * c)
    return lse


def weigh_values(
    machine: Machine, p: Problem, tiling: Tiling, P: Array, V: Array, O: Array, mask: Array | None
) -> None:
    """Launch 3: a block a row tile, O = P V."""
    d, Br, Bc = p.head_dim, tiling.block_rows, tiling.block_cols
    rows, keys, Tc = P.info.row_edges, P.info.col_edges, P.info.col_tiles
    grid = {"i": P.info.row_tiles, "head": p.heads, "batch": p.batch}
    launch = machine.launch("values", "launch 3: O = P V", grid, 128, PRODUCT)
    Pij, Vj = launch.shared("Pij", Br, Bc), launch.shared("Vj", Bc, d)
    Oi = launch.shared("Oi", Br, d, lifetime="block", carry=True)
    maskj = launch.shared("maskj", Bc, 1, dtype="bool") if mask else None
    for block in launch.blocks():
        i, head, batch = block.at
        plane, kv = batch * p.heads + head, batch * p.kv_heads + head // p.group
        r = rows[i + 1] - rows[i]
        with block.step("block appears") as step:
            Oi.init(0, r)
            step.say("Block {block} will make O{block.i}. It starts at O = 0.")
        for j in range(Tc):
            c = keys[j + 1] - keys[j]
            with block.step("load P, V", j) as step:
                Pij.load(P, plane, i, j)
                Vj.load(V, kv, j)
                if mask and maskj:
                    maskj.load(mask, batch, j)
                block.barrier()
                step.say("P{P} comes back from HBM, and V{V} with it.")
            with block.step("accumulate O", j) as step:
                seen = visible(p, rows[i], r, keys[j], c, maskj.now if maskj else None)
                Oi.update(Oi.now + weighted_sum(Pij.now, Vj.now, seen), 2 * r * c * d)
                block.barrier()
                step.say(f"O grows by P V: {captions.count(c)} mixed into {{1}} row{'s' if r > 1 else ''}. P sums to 1 over all keys, so nothing is divided.", c, r)
        with block.step("store O") as step:
            Oi.store(O, plane, i)
            step.say("O{O} goes to HBM, once.")


def sizes(problem: Problem, tiling: Tiling, key_mask: bool) -> list[LaunchSize]:
    """What the three launches leave behind."""
    p, d, Br, Bc = problem, problem.head_dim, tiling.block_rows, tiling.block_cols
    Tr, Tc = tiles(p.seqlen_q, Br, "block_rows"), tiles(p.seqlen_k, Bc, "block_cols")
    heads, N, M = p.batch * p.heads, p.seqlen_q, p.seqlen_k
    most, square, blocks = min(Br, N), N * M, heads * Tr
    return [
        LaunchSize(
            blocks * Tc, blocks * Tc * 4, blocks * Tc * (6 + key_mask),
            heads * square, most * min(Bc, M), heads * square, heads * square, heads * square * (2 * d + 1),
        ),
        LaunchSize(
            blocks, blocks * (1 + 6 * Tc), blocks * (2 + Tc * (2 + 2 + 2 + 2 + 2 + 3)),
            heads * N * (2 + 2 * Tc + M), most * (2 + 2 * Tc + M), heads * square, heads * square, heads * square * 7,
        ),
        LaunchSize(
            blocks, blocks * (2 + 2 * Tc), blocks * (1 + Tc * (5 + key_mask) + 1),
            heads * N * d * (1 + Tc), most * d * (1 + Tc), heads * N * d, heads * N * d, heads * square * 2 * d,
        ),
    ]  # fmt: skip
