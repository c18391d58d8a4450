"""Online softmax of the rows of a matrix."""

from __future__ import annotations

from pathlib import Path

from ..kernel import Kernel
from .twin import online_softmax, sizes, standing

KERNEL = Kernel(
    name="online-softmax",
    title="Online softmax",
    idea="The maximum and the sum of a row in one sweep: when the maximum rises, what was summed shrinks by α.",
    order=1,
    twin=online_softmax,
    sizes=sizes,
    source=Path(__file__).with_name("twin.py"),
    standing=standing,
    parameters=("batch", "heads", "seqlen_q", "seqlen_k", "inputs", "seed", "block_rows", "block_cols"),
    presets=("random", "hand", "equal", "large", "first-tile-masked", "fully-masked-row"),
    matrix=True,
    outputs=("Y", "m", "l"),
)
