"""The papers that the lessons cite, once, so that every lesson names them alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A paper or post: `address` leads to it (an arXiv number is enough to find it without)."""

    authors: str
    year: int
    title: str
    where: str
    address: str

    def markdown(self) -> str:
        """One line of Markdown that cites it."""
        return f"{self.authors} ({self.year}). [*{self.title}*]({self.address}). {self.where}."


def _arxiv(authors: str, year: int, title: str, number: str) -> Paper:
    return Paper(authors, year, title, f"arXiv {number}", f"https://arxiv.org/abs/{number}")


PAPERS: dict[str, Paper] = {
    "attention": _arxiv("Vaswani and others", 2017, "Attention is all you need", "1706.03762"),
    "online-softmax": _arxiv(
        "Milakov and Gimelshein", 2018, "Online normalizer calculation for softmax", "1805.02867"
    ),
    "self-attention": _arxiv(
        "Rabe and Staats", 2021, "Self-attention does not need O(n²) memory", "2112.05682"
    ),
    "flash-attention": _arxiv(
        "Dao, Fu, Ermon, Rudra and Ré", 2022,
        "FlashAttention: fast and memory-efficient exact attention with IO-awareness", "2205.14135",
    ),
    "flash-attention-2": _arxiv(
        "Dao", 2023, "FlashAttention-2: faster attention with better parallelism and work partitioning", "2307.08691"
    ),
    "flash-decoding": Paper(
        "Dao, Haziza, Massa and Sizov", 2023, "Flash-Decoding for long-context inference", "Stanford CRFM and PyTorch blogs",
        "https://crfm.stanford.edu/2023/10/12/flashdecoding.html",
    ),
    "flash-decoding-2": _arxiv(
        "Hong and others", 2023, "FlashDecoding++: faster large language model inference on GPUs", "2311.01282"
    ),
    "paged-attention": _arxiv(
        "Kwon and others", 2023, "Efficient memory management for large language model serving with PagedAttention", "2309.06180"
    ),
    "lean-attention": _arxiv(
        "Sanovar and others", 2024,
        "Lean Attention: hardware-aware scalable attention mechanism for the decode-phase of transformers",
        "2405.10480",
    ),
    "flash-attention-3": _arxiv(
        "Shah and others", 2024, "FlashAttention-3: fast and accurate attention with asynchrony and low-precision", "2407.08608"
    ),
}  # fmt: skip
