"""Flash decoding: one query, many keys; the keys are split among blocks, and a second launch combines.

Dao, Haziza, Massa and Sizov 2023. Each split leaves an unnormalised O with its own m and l; the combine
weighs them by exp(m_split − m) and divides once. K and V are read once in all, as without splits.
"""

from __future__ import annotations

import numpy as np

from ...trace.recorder import Array, Machine, Step, edges
from .. import captions
from ..kernel import Floats, Inputs, LaunchSize, key_mask_array
from ..numerics import INF, logsumexp, ratio, rescale, row_max, row_sum, scores, visible, weight, weighted_sum
from ..problem import Problem, Tiling, tiles

SPLIT = (
    Step("block appears", "block {block} appears"),
    Step("load Q, initialise", "load Q; m = −∞, l = 0, O = 0", formulas={"mi": "-inf", "li": "0", "Oi": "0"}),
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
    Step("write the partial", "write partial O, m, l"),
)

COMBINE = (
    Step("block appears", "block {block} appears"),
    Step("global m", "global m", formulas={"m": "max(ms[:, 0])"}),
    Step("global l", "global l", formulas={"ws": "weight(ms[r], m[0])", "l": "dot(ws[:, 0], ls[:, 0])"}),
    Step("weighted O", "weighted O", formulas={"ws": "weight(ms[r], m[0])", "Oi": "dot(ws[:, 0], Os[:, c])"}),
    Step("divide and write", "O ÷ l; write O", formulas={"Oi": "ratio(old(Oi[r, c]), l[0])"}),
)


def split_edges(seqlen_k: int, block_cols: int, splits: int) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    """The key tiles of all splits, as edges, and for each split its first tile and the tile after its last.

    Split s covers keys [s·C, min((s+1)·C, N)) with C = max(1, ceil(N / splits)); its tiles start at s·C, so
    every key belongs to one split, and late splits can be empty.
    """
    size = max(1, -(-seqlen_k // splits))
    found, ranges = [0], []
    for split in range(splits):
        start, end = min(split * size, seqlen_k), min((split + 1) * size, seqlen_k)
        first = len(found) - 1
        found += [min(key + block_cols, end) for key in range(start, end, block_cols)]
        ranges.append((first, len(found) - 1))
    return tuple(found), ranges


def flash_decoding(machine: Machine, problem: Problem, tiling: Tiling, inputs: Inputs) -> dict[str, Floats]:
    """O (batch, heads, 1, head_dim), and lse (batch, heads, 1) from the combine's m and l on the host."""
    p, d, splits = problem, problem.head_dim, tiling.splits
    keys, ranges = split_edges(p.seqlen_k, tiling.block_cols, splits)
    each = edges(splits, 1)

    Q = machine.array("Q", inputs.q, role="input", row_edges=(0, 1))
    K = machine.array("K", inputs.k, role="input", row_edges=keys)
    V = machine.array("V", inputs.v, role="input", row_edges=keys)
    mask = key_mask_array(machine, inputs.key_mask, keys)
    partial = (p.batch, p.heads, splits)
    O_partial = machine.array("O_partial", None, shape=(*partial, d), role="scratch", row_edges=each)
    m_partial = machine.array("m_partial", None, shape=partial, role="scratch", row_edges=each)
    l_partial = machine.array("l_partial", None, shape=partial, role="scratch", row_edges=each)
    O = machine.array("O", None, shape=(p.batch, p.heads, 1, d), role="output", row_edges=(0, 1))

    split_keys(machine, p, tiling, ranges, Q, K, V, mask, (O_partial, m_partial, l_partial))
    lse = combine(machine, p, splits, (O_partial, m_partial, l_partial), O)
    return {"O": O.data.reshape(O.info.shape), "lse": lse}


def split_keys(machine: Machine, p: Problem, tiling: Tiling, ranges: list[tuple[int, int]], Q: Array, K: Array,
               V: Array, mask: Array | None, partials: tuple[Array, Array, Array]) -> None:  # fmt: skip
    """Launch 1: a block a split writes O, m, l unnormalised."""
    d, Bc, scale, keys = p.head_dim, tiling.block_cols, np.float32(p.effective_scale), K.info.row_edges
    O_partial, m_partial, l_partial = partials
    S = machine.virtual("S", (p.batch, p.heads, 1, p.seqlen_k), (0, 1), keys)
    grid = {"split": tiling.splits, "head": p.heads, "batch": p.batch}
    launch = machine.launch("split", "launch 1: one block a split", grid, 128, SPLIT)
    Qi = launch.shared("Qi", 1, d, lifetime="block")
    Kj, Vj, Sij = launch.shared("Kj", Bc, d), launch.shared("Vj", Bc, d), launch.shared("Sij", 1, Bc)
    mi, li = (launch.shared(name, 1, 1, lifetime="block", carry=True) for name in ("mi", "li"))
    Oi = launch.shared("Oi", 1, d, lifetime="block", carry=True)
    maskj = launch.shared("maskj", Bc, 1, dtype="bool") if mask else None
    alpha = launch.register("alpha", 1, 1, carry=True)

    others = " Other blocks read the other keys, side by side." if tiling.splits > 1 else ""
    again = f", once for each of the {p.group} query heads that share them" if p.group > 1 else ", once"

    for block in launch.blocks():
        split, head, batch = block.at
        plane, kv = batch * p.heads + head, batch * p.kv_heads + head // p.group
        first, end = ranges[split]
        with block.step("block appears") as step:
            if first == end:
                step.say("Block {block} owns split {block.split}, which has no keys: its partial will be m = −∞, l = 0, O = 0.")
            elif keys[end] - keys[first] == 1:
                step.say(f"Block {{block}} owns split {{block.split}}, key {{0}} alone.{others}", keys[first])
            else:
                step.say(f"Block {{block}} owns split {{block.split}}, keys {{0}} to {{1}}.{others}", keys[first], keys[end] - 1)
        with block.step("load Q, initialise") as step:
            Qi.load(Q, plane, 0)
            mi.init(-INF, 1)
            li.init(0, 1)
            Oi.init(0, 1)
            block.barrier()
            step.say("The one query row comes to every split. The carries start at m = −∞, l = 0, O = 0.")
        for j, tile in enumerate(range(first, end)):
            c = keys[tile + 1] - keys[tile]
            with block.step("load K, V", j) as step:
                Kj.load(K, kv, tile)
                Vj.load(V, kv, tile)
                if mask and maskj:
                    maskj.load(mask, batch, tile)
                block.barrier()
                step.say(f"K{{K}} and V{{V}} come from HBM: {captions.count(c)} that only this split reads{again}.", c)
            seen = visible(p, 0, 1, keys[tile], c, maskj.now if maskj else None)
            with block.step("fill Sij", j) as step:
                Sij.fill(scores(Qi.now, Kj.now, scale, seen), 2 * c * d + c, S, S.index(plane, 0, tile))
                block.barrier()
                captions.fill(step, Sij.now, seen)
            with block.step("update m, l, O", j) as step:
                m_new = np.maximum(mi.now, row_max(Sij.now))
                a = rescale(mi.now, m_new)
                captions.update(step, mi.now, m_new, a, "l and O")
                mi.update(m_new, c)
                alpha.update(a, 2)
                Sij.update(weight(Sij.now, m_new), 2 * c, S, S.index(plane, 0, tile))
                li.update(a * li.now + row_sum(Sij.now), 2 + c)
                Oi.update(a * Oi.now + weighted_sum(Sij.now, Vj.now, seen), d + 2 * c * d)
                block.barrier()
        with block.step("write the partial") as step:
            Oi.partial(O_partial, plane, split)
            mi.partial(m_partial, plane, split)
            li.partial(l_partial, plane, split)
            if first == end:
                step.say("The empty split writes m = −∞, l = 0, O = 0, which will change nothing.")
            elif step.speaks:
                step.say(
                    "Split {block.split} writes its partial, not yet divided: m = {0}, l = {1}, and O.",
                    float(mi.now[0, 0]), float(li.now[0, 0]),
                )  # fmt: skip
            else:
                step.say("Split {block.split} writes its partial m, l and O, not yet divided.")


def combine(machine: Machine, p: Problem, splits: int, partials: tuple[Array, Array, Array], O: Array) -> Floats:
    """Launch 2: a block a (batch, head); the partials pass through registers. Returns lse."""
    d, (O_partial, m_partial, l_partial) = p.head_dim, partials
    lse = np.empty((p.batch, p.heads, 1), np.float32)
    launch = machine.launch("combine", "launch 2: combine", {"head": p.heads, "batch": p.batch}, d, COMBINE)
    m, l = (launch.shared(name, 1, 1, lifetime="block", carry=True) for name in ("m", "l"))
    Oi = launch.register("Oi", 1, d, lifetime="block", carry=True)
    ms, ls, ws = (launch.register(name, splits, 1, lifetime="block") for name in ("ms", "ls", "ws"))
    Os = launch.register("Os", splits, d, lifetime="block")
    for block in launch.blocks():
        head, batch = block.at
        plane = batch * p.heads + head
        with block.step("block appears") as step:
            step.say(f"A second launch: block {{block}} gathers the {captions.count(splits, 'partial')} of this head. The numbers pass through registers.", splits)
        with block.step("global m") as step:
            ms.load(m_partial, plane, 0, tiles=splits)
            m.fill(ms.now.max(axis=0, keepdims=True), splits)
            block.barrier()
            if step.speaks:
                step.say("The global maximum of the partial maxima: m = {0}.", float(m.now[0, 0]))
            else:
                step.say("The global maximum of the partial maxima.")
        with block.step("global l") as step:
            ms.load(m_partial, plane, 0, tiles=splits)
            ls.load(l_partial, plane, 0, tiles=splits)
            ws.fill(weight(ms.now, m.now), 2 * splits)
            l.fill((ws.now * ls.now).sum(axis=0, keepdims=True), 2 * splits)
            block.barrier()
            if step.speaks:
                step.say("Each split weighs w = exp(m_split − m): split 0 weighs {0}. The global l = Σ w · l_split = {1}.", float(ws.now[0, 0]), float(l.now[0, 0]))
            else:
                step.say("Each split weighs w = exp(m_split − m); the global l = Σ w · l_split.")
        with block.step("weighted O") as step:
            ms.load(m_partial, plane, 0, tiles=splits, each=d)
            Os.load(O_partial, plane, 0, tiles=splits)
            ws.fill(weight(ms.now, m.now), 2 * splits * d)
            Oi.fill((ws.now * Os.now).sum(axis=0, keepdims=True), 2 * splits * d)
            step.say("Every thread sums a column: O = Σ w · O_split. Each asks for all the partial maxima again, {0} × {1} in all.", d, splits)
        with block.step("divide and write") as step:
            Oi.update(ratio(Oi.now, l.now), d)
            Oi.store(O, plane, 0)
            step.say("The one division: O = O ÷ l goes to HBM, equal to attention over all keys at once.")
        lse[batch, head] = logsumexp(m.now, l.now)[0]
    return lse


def sizes(problem: Problem, tiling: Tiling, key_mask: bool) -> list[LaunchSize]:
    """What the two launches leave behind."""
    p, d, splits = problem, problem.head_dim, tiling.splits
    tiles(p.seqlen_k, tiling.block_cols, "block_cols")
    _, ranges = split_edges(p.seqlen_k, tiling.block_cols, splits)
    heads, count = p.batch * p.heads, ranges[-1][1]
    size = max(1, -(-p.seqlen_k // splits))
    most = max(end - first for first, end in ranges)
    kept = splits * (2 + d) + 2 * p.seqlen_k + count * (3 + d)
    # A launch's partials are loaded as one run of tiles, which stands nowhere in one piece: they are kept again.
    again = splits * (3 + 1 + d) + 2 + 2 * splits + 2 * d
    return [
        LaunchSize(
            heads * splits, heads * (3 * splits + 3 * count), heads * (splits * (5 + 3) + count * (11 + key_mask)),
            heads * kept, 2 + d + 2 * min(size, p.seqlen_k) + most * (3 + d), heads * splits * (2 + d),
            heads * splits * (2 + d), heads * (p.seqlen_k * (4 * d + 5) + count * (4 + d)),
        ),
        LaunchSize(
            heads, heads * 5, heads * (3 + 5 + 4 + 2), heads * again, again, heads * d,
            heads * d, heads * (5 * splits + 4 * splits * d + d),
        ),
    ]  # fmt: skip
