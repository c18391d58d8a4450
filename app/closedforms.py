"""Requested traffic in closed form: what each kernel should ask of HBM, array by array, from its sizes alone.

Pure functions of the problem and the tiling that share nothing with the twins, the recorder or the ledger: the lessons
set both side by side, and a test holds them equal. Counts are elements, over all heads and sequences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..kernels.problem import Problem, Tiling


@dataclass(frozen=True)
class Term:
    """One array in one direction: its formula per head in TeX (N queries, M keys), and the elements it comes to in all."""

    array: str
    way: str  # "loads" | "stores"
    tex: str
    elements: int


@dataclass(frozen=True)
class Sizes:
    """The letters of the formulas."""

    N: int  # queries
    M: int  # keys
    d: int
    Tr: int
    Tc: int
    ns: int  # splits
    heads: int  # query heads, over all sequences

    @classmethod
    def of(cls, problem: Problem, tiling: Tiling) -> Sizes:
        p = problem
        return cls(
            p.seqlen_q, p.seqlen_k, p.head_dim, -(-p.seqlen_q // tiling.block_rows), -(-p.seqlen_k // tiling.block_cols),
            tiling.splits, p.batch * p.heads,
        )  # fmt: skip


Parts = list[tuple[str, str, str, int]]


def _standard(s: Sizes, masked: bool) -> Parts:
    return [
        ("Q", "loads", "T_c N d", s.Tc * s.N * s.d),
        ("K", "loads", "T_r M d", s.Tr * s.M * s.d),
        ("V", "loads", "T_r M d", s.Tr * s.M * s.d),
        *([("key_mask", "loads", "2 T_r M", 2 * s.Tr * s.M)] if masked else []),
        ("S", "stores", "N M", s.N * s.M),
        ("S", "loads", "3 N M", 3 * s.N * s.M),
        ("P", "stores", "N M", s.N * s.M),
        ("P", "loads", "N M", s.N * s.M),
        ("O", "stores", "N d", s.N * s.d),
    ]


def _online_softmax(s: Sizes, masked: bool) -> Parts:
    return [("X", "loads", "2 N M", 2 * s.N * s.M), ("Y", "stores", "N M", s.N * s.M)]


def _flash_attention_1(s: Sizes, masked: bool) -> Parts:
    return [
        ("Q", "loads", "T_c N d", s.Tc * s.N * s.d),
        ("K", "loads", "M d", s.M * s.d),
        ("V", "loads", "M d", s.M * s.d),
        *([("key_mask", "loads", "M", s.M)] if masked else []),
        ("O", "loads", "T_c N d", s.Tc * s.N * s.d),
        ("O", "stores", "T_c N d", s.Tc * s.N * s.d),
        ("m", "loads", "T_c N", s.Tc * s.N),
        ("m", "stores", "T_c N", s.Tc * s.N),
        ("l", "loads", "T_c N", s.Tc * s.N),
        ("l", "stores", "T_c N", s.Tc * s.N),
    ]


def _flash_attention_2(s: Sizes, masked: bool) -> Parts:
    return [
        ("Q", "loads", "N d", s.N * s.d),
        ("K", "loads", "T_r M d", s.Tr * s.M * s.d),
        ("V", "loads", "T_r M d", s.Tr * s.M * s.d),
        *([("key_mask", "loads", "T_r M", s.Tr * s.M)] if masked else []),
        ("O", "stores", "N d", s.N * s.d),
        ("lse", "stores", "N", s.N),
    ]


def _flash_decoding(s: Sizes, masked: bool) -> Parts:
    return [
        ("Q", "loads", "n_s d", s.ns * s.d),
        ("K", "loads", "M d", s.M * s.d),
        ("V", "loads", "M d", s.M * s.d),
        *([("key_mask", "loads", "M", s.M)] if masked else []),
        ("O_partial", "stores", "n_s d", s.ns * s.d),
        ("O_partial", "loads", "n_s d", s.ns * s.d),
        ("m_partial", "stores", "n_s", s.ns),
        ("m_partial", "loads", "n_s (2 + d)", s.ns * (2 + s.d)),
        ("l_partial", "stores", "n_s", s.ns),
        ("l_partial", "loads", "n_s", s.ns),
        ("O", "stores", "d", s.d),
    ]


FORMS: dict[str, Callable[[Sizes, bool], Parts]] = {
    "standard": _standard,
    "online-softmax": _online_softmax,
    "flash-attention-1": _flash_attention_1,
    "flash-attention-2": _flash_attention_2,
    "flash-decoding": _flash_decoding,
}


def terms(kernel: str, problem: Problem, tiling: Tiling, key_mask: bool = False) -> tuple[Term, ...]:
    """What `kernel` asks of HBM, array by array. Raises KeyError for a kernel that no form was written for."""
    sizes = Sizes.of(problem, tiling)
    return tuple(Term(array, way, tex, sizes.heads * count) for array, way, tex, count in FORMS[kernel](sizes, key_mask))


def total(found: tuple[Term, ...], way: str | None = None) -> int:
    """Elements over all arrays, in one direction or both."""
    return sum(term.elements for term in found if way in (None, term.way))


def ideal(problem: Problem) -> int:
    """Standard attention with each input read once a head, in elements: S and P go out and come back, no sweep re-reads.

    The baseline that papers compare with: 3Nd + 2N² read and 2N² + Nd written for N = M.
    """
    p = problem
    N, M, d = p.seqlen_q, p.seqlen_k, p.head_dim
    return p.batch * p.heads * (N * d + 2 * M * d + 2 * N * M + 2 * N * M + N * d)


def least(problem: Problem) -> int:
    """What any attention must move: Q, K and V in once and O out once, in elements. Heads may share keys and values."""
    p = problem
    return p.batch * p.head_dim * (2 * p.heads * p.seqlen_q + 2 * p.kv_heads * p.seqlen_k)


def saves_from(kernel: str, head_dim: int) -> int:
    """The smallest tile with which FlashAttention asks for no more than `ideal`, on long sequences that the tiles divide.

    Of FlashAttention 1 the keys of a tile (Bc), of FlashAttention 2 its queries (Br): the other side does not matter.
    FlashAttention 1: Tc (3d + 4) <= 4M, so 4 Bc >= 3d + 4. FlashAttention 2, N = M: 2 Tr d <= 4N, so 2 Br >= d.
    Raises KeyError for other kernels.
    """
    return {"flash-attention-1": -(-3 * head_dim // 4) + 1, "flash-attention-2": -(-head_dim // 2)}[kernel]


def tile_bytes(block_rows: int, block_cols: int, head_dim: int, key_mask: bool = False) -> int:
    """The shared memory of one FlashAttention block, 1 or 2: tiles of Q, O, K, V and S, m and l, and the mask's bytes."""
    floats = 2 * block_rows * head_dim + 2 * block_cols * head_dim + block_rows * block_cols + 2 * block_rows
    return 4 * floats + (block_cols if key_mask else 0)
