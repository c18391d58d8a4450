"""Reads a QR code as a telephone would, from the modules of its drawing: what is printed for a room is what is tested.

Versions 1 to 4 in byte mode, without correcting errors: ISO/IEC 18004, sections 7 and 8.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

BORDER = 4  # light modules around, which the standard asks for
#: Data codewords of each block, by version and level.
BLOCKS = {
    1: {"L": [19], "M": [16], "Q": [13], "H": [9]},
    2: {"L": [34], "M": [28], "Q": [22], "H": [16]},
    3: {"L": [55], "M": [44], "Q": [17, 17], "H": [13, 13]},
    4: {"L": [80], "M": [32, 32], "Q": [24, 24], "H": [9, 9, 9, 9]},
}
LEVELS = {1: "L", 0: "M", 3: "Q", 2: "H"}
MASKS: list[Callable[[int, int], int]] = [
    lambda i, j: (i + j) % 2, lambda i, j: i % 2, lambda i, j: j % 3, lambda i, j: (i + j) % 3,
    lambda i, j: (i // 2 + j // 3) % 2, lambda i, j: i * j % 2 + i * j % 3, lambda i, j: (i * j % 2 + i * j % 3) % 2,
    lambda i, j: ((i + j) % 2 + i * j % 3) % 2,
]  # fmt: skip


def modules(address: str) -> list[list[bool]]:
    """The dark and light modules of an SVG of segno's in a data address, its border apart."""
    svg = unquote(address.split(",", 1)[1])
    side = int(re.findall(r"d='M0 0h(\d+)", svg)[0])
    (path,) = re.findall(r"class='qrline'[^>]* d='([^']+)'", svg)
    dark: set[tuple[int, int]] = set()
    x = y = 0.0
    for move, numbers in re.findall(r"([Mmh])([-\d. ]+)", path):
        by = [float(number) for number in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", numbers)]
        if move == "h":
            dark |= {(int(y), int(x) + n) for n in range(int(by[0]))}
            x += by[0]
        else:
            x, y = (by[0], by[1]) if move == "M" else (x + by[0], y + by[1])
    assert all(BORDER <= at < side - BORDER for place in dark for at in place), "something dark lies in the quiet border"
    return [[(i, j) in dark for j in range(BORDER, side - BORDER)] for i in range(BORDER, side - BORDER)]


def read(address: str) -> str:
    """The text of the QR code in a data address."""
    grid = modules(address)
    side = len(grid)
    version = (side - 17) // 4
    form = [grid[8][j] for j in (0, 1, 2, 3, 4, 5, 7, 8)] + [grid[i][8] for i in (7, 5, 4, 3, 2, 1, 0)]
    bits = int("".join("01"[bit] for bit in form), 2) ^ 0b101010000010010
    blocks, mask = BLOCKS[version][LEVELS[bits >> 13]], MASKS[bits >> 10 & 7]

    def kept(i: int, j: int) -> bool:
        """Whether a module holds no data: finders and format, timing, the one alignment pattern."""
        corner = (i < 9 and (j < 9 or j >= side - 8)) or (i >= side - 8 and j < 9)
        aligned = version > 1 and side - 9 <= i <= side - 5 and side - 9 <= j <= side - 5
        return corner or i == 6 or j == 6 or aligned

    stream: list[int] = []
    columns = [*range(side - 1, 6, -2), 5, 3, 1]
    for n, right in enumerate(columns):
        for i in range(side) if n % 2 else range(side - 1, -1, -1):
            stream += [grid[i][j] ^ (mask(i, j) == 0) for j in (right, right - 1) if not kept(i, j)]
    words = [int("".join(map(str, map(int, stream[at : at + 8]))), 2) for at in range(0, len(stream) - 7, 8)]
    data = bytes(words[n * len(blocks) + block] for block in range(len(blocks)) for n in range(blocks[0]))
    assert data[0] >> 4 == 4, "not in byte mode"
    length = (data[0] & 15) << 4 | data[1] >> 4
    return bytes((data[at] & 15) << 4 | data[at + 1] >> 4 for at in range(1, length + 1)).decode()
