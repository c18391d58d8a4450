"""The events of a trace: what a block can do, and the columns that remember it.

`trace/FORMAT.md` is the contract; this file is its vocabulary in code.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Kind(IntEnum):
    """What a block did. The numbers are part of the file format."""

    LOAD = 0  # HBM tile -> slot
    STORE = 1  # slot -> HBM tile
    INIT = 2  # slot := constant
    FILL = 3  # slot := function of other slots (Sij)
    UPDATE = 4  # slot := function of itself and other slots (m, l, O)
    BARRIER = 5  # __syncthreads()
    PARTIAL = 6  # slot -> HBM tile, as a split's unfinished result


CROSSINGS = (Kind.LOAD, Kind.STORE, Kind.PARTIAL)
"""The kinds that move numbers between HBM and the block."""

NONE = 65535
"""No node, no loop index."""

MAX_INDEX = NONE - 1
"""The largest loop index, tile count and slot extent that the columns can hold."""

EVENT_COLUMNS: dict[str, type[np.generic]] = {
    "kind": np.uint8,
    "src": np.uint16,
    "dst": np.uint16,
    "tile": np.uint32,
    "tiles": np.uint16,
    "rows": np.uint16,
    "cols": np.uint16,
    "elements": np.uint32,
    "flops": np.uint32,
    "value": np.int32,
}
"""Column name -> dtype, in the order in which the recorder writes a row."""

STEP_COLUMNS: dict[str, type[np.generic]] = {
    "kind": np.uint16,
    "block": np.uint32,
    "loop": np.uint16,  # two a step
    "events": np.uint32,
    "caption": np.uint16,
    "args": np.uint32,
}
