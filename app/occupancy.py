"""How many SMs one decoded token keeps busy, for the reader's own sizes and GPU, and how often engines would split it.

Pure: sizes in, numbers and sentences out. The lesson on flash decoding tells them, and /api/splits answers with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from . import splits
from .decode import measured
from .tables import percent, plural, size

PREFIX = "my-"  # of these sizes in a page's address, where the recorded run has batch and heads of its own
# The number of SMs as the makers give it.
GPUS = (("H200, H100 SXM", 132), ("A100", 108))
COUNTS = (1, 2, 3, 4, 6, 8, 16, 32, 64)  # numbers of splits that are set side by side
WHOLE = re.compile(r"0*[0-9]{1,9}")
TYPED = 200  # characters of what was typed that a form gives back
TOLD = 24  # of which an error repeats so many


@dataclass(frozen=True)
class Asked:
    """One field: its label, what it means, and what it may hold."""

    label: str
    about: str
    least: int
    most: int


FIELDS = {
    "batch": Asked("batch", "sequences that are decoded at once", 1, 65_536),
    "heads": Asked("heads", "query heads", 1, 4_096),
    "kv_heads": Asked("key-value heads", "as many as heads where it is left empty", 1, 4_096),
    "seqlen_k": Asked("keys", "tokens before the new one", 0, 2**26),
    "head_dim": Asked("head dim", "numbers a head", 1, 512),
    "sms": Asked("SMs", "of the GPU", 1, 1_000),
}


@dataclass(frozen=True)
class Sizes:
    """A decode: one query a sequence, all sequences of seqlen_k keys, on a GPU of so many SMs."""

    batch: int
    heads: int
    kv_heads: int
    seqlen_k: int
    head_dim: int
    sms: int


@dataclass(frozen=True)
class Parsed:
    """The sizes that were asked for, the default in place of each that cannot be; what was typed; what is wrong, by field."""

    sizes: Sizes
    texts: dict[str, str]
    errors: dict[str, str]


def usual() -> Sizes:
    """The decode that was measured, at 65,536 keys, on the GPU that it was measured on."""
    results = measured()
    problem = results["problem"]
    return Sizes(problem["batch"], problem["heads"], problem["kv_heads"], 65_536, problem["head_dim"], results["device"]["sms"])


def parse(query: Mapping[str, str], prefix: str = "") -> Parsed:
    """The sizes in a query, each under `prefix` and its own name; what is not given is `usual`."""
    found: dict[str, int] = asdict(usual())
    texts, errors = {}, {}
    for name, field in FIELDS.items():
        text = " ".join(query.get(prefix + name, "").split())[:TYPED]
        texts[name] = text
        if not text:
            continue
        said = text.replace(",", "")
        if WHOLE.fullmatch(said) and field.least <= int(said) <= field.most:
            found[name] = int(said)
        else:
            told = text if len(text) <= TOLD else f"{text[:TOLD]} …"
            errors[name] = f"“{told}” will not do; write a whole number from {field.least:,} to {field.most:,}."
    if not texts["kv_heads"] or "kv_heads" in errors or "heads" in errors:  # what shares unknown heads is not judged
        found["kv_heads"] = found["heads"]
    elif found["heads"] % found["kv_heads"]:
        shared = f"{found['kv_heads']} cannot share {plural(found['heads'], 'head')} evenly; use a divisor of {found['heads']}."
        errors.setdefault("kv_heads", shared)
        found["kv_heads"] = found["heads"]
    return Parsed(Sizes(**found), texts, errors)


def report(asked: Sizes) -> dict[str, Any]:
    """What there is to say of these sizes, as JSON: numbers, and the sentences that a page tells.

    `unsplit` and `split`: blocks, busy and idle SMs, without splits and with the fewest that give every SM a block (`split`
    is None where that needs none); `counts`: numbers of splits side by side; `engines`: what each engine would choose;
    `said`: sentences; `picture`: the SMs as two SVG paths each. A block is one (sequence, head, split); waves are counted as
    if an SM held one block at a time.
    """
    blocks = asked.batch * asked.heads
    needed = -(-asked.sms // blocks)
    spread = min(needed, max(1, asked.seqlen_k))
    chosen = splits.choices(**asdict(asked))
    whole, spread_out = _row(asked, 1), _row(asked, spread)
    return {
        "sizes": asdict(asked),
        "unsplit": whole,
        "split": spread_out if spread > 1 else None,
        "counts": [_row(asked, n) for n in COUNTS],
        "engines": [
            {"engine": one.engine, "splits": one.splits, "keys": _keys(asked, one.splits), "why": one.why, "source": one.source}
            for one in chosen
        ],
        "said": {
            "idle": _idle(asked, whole),
            "each": _each(asked),
            "spread": _spread(asked, spread_out, needed),
            "choice": _range(asked, chosen),
        },
        "picture": {"unsplit": picture(whole["busy"], asked.sms), "split": picture(spread_out["busy"], asked.sms)},
    }


def _keys(asked: Sizes, count: int) -> int:
    """The keys of a split, the last one's rounding aside."""
    return -(-asked.seqlen_k // count)


def _row(asked: Sizes, count: int) -> dict[str, Any]:
    """What `count` splits make of the grid. Splits past the last key get none, and are no blocks that work."""
    keys = _keys(asked, count)
    filled = -(-asked.seqlen_k // keys) if keys else 1
    blocks = asked.batch * asked.heads * filled
    waves = -(-blocks // asked.sms)
    busy = min(blocks, asked.sms)
    return {
        "splits": count, "with_keys": filled, "keys": keys, "blocks": blocks, "busy": busy, "idle": asked.sms - busy,
        "waves": waves, "filled": blocks / (waves * asked.sms), "share": percent(blocks / (waves * asked.sms)),
    }  # fmt: skip


def _idle(asked: Sizes, row: dict[str, Any]) -> str:
    are = "is" if row["blocks"] == 1 else "are"
    grid = f"{plural(asked.batch, 'sequence')} × {plural(asked.heads, 'head')} {are} {plural(row['blocks'], 'block')}"
    if row["idle"]:
        rest = f"{row['idle']:,} of the GPU's {plural(asked.sms, 'SM')} {have(row['idle'])} nothing to do"
        return f"Without splits, {grid}: {rest}, {percent(row['idle'] / asked.sms)} of them, however many keys there are."
    if asked.sms == 1:
        return f"Without splits, {grid}, and the one SM is busy with any of them."
    if row["blocks"] == asked.sms:
        return f"Without splits, {grid}, one for each of the {asked.sms} SMs: none is idle."
    return f"Without splits, {grid}, {row['blocks'] / asked.sms:.1f} for each of the {asked.sms} SMs: none need be idle."


def _each(asked: Sizes) -> str:
    alone = 2 * asked.seqlen_k * asked.head_dim * 2
    cache = alone * asked.batch * asked.kv_heads
    each = f"{plural(asked.seqlen_k, 'key')} and as many values, {plural(asked.head_dim, 'number')} each"
    return f"One block alone reads its head's {each}: {size(alone)} in fp16. The whole cache is {size(cache)} a layer."


def _spread(asked: Sizes, row: dict[str, Any], needed: int) -> str:
    if needed == 1:
        return "There are as many blocks as SMs, or more: splitting puts no further SM to work, and only evens out the last wave."
    if row["splits"] == 1:
        keys = plural(asked.seqlen_k, "key")
        return f"To give every SM a block would take {needed} splits, and {keys} cannot be divided further."
    work, short = f"all {asked.sms:,} SMs have", ""
    if row["idle"]:
        work = f"{plural(row['busy'], 'SM')} {have(row['busy'])}"
        short = f" {plural(row['idle'], 'SM')} still {have(row['idle'])} none: the keys are too few."
    blocks, keys = plural(row["blocks"], "block"), plural(row["keys"], "key")
    return f"Split in {row['splits']}: {blocks} of at most {keys}, and {work} work.{short}"


def _range(asked: Sizes, chosen: list[splits.Choice]) -> str:
    found = sorted({one.splits for one in chosen})
    where = f"For {asked.batch:,} × {plural(asked.heads, 'head')}, {plural(asked.seqlen_k, 'key')} and {plural(asked.sms, 'SM')}"
    if found == [1]:
        return f"{where} none of the five engines would split."
    if len(found) == 1:
        return f"{where} all five engines agree on {plural(found[0], 'split')}."
    return f"{where} the five engines choose from {found[0]} to {plural(found[-1], 'split')}."


def have(count: int) -> str:
    """The verb for so many."""
    return "has" if count == 1 else "have"


def picture(busy: int, sms: int, step: int = 12, side: int = 9) -> dict[str, Any]:
    """The SMs as squares in rows: the busy ones as one SVG path, the idle ones as another, and the view they fill."""
    across = max(1, round((sms * 11 / 3) ** 0.5))
    places = [(step * (at % across) + 1, step * (at // across) + 1) for at in range(sms)]
    square = f"h{side}v{side}h-{side}z"
    return {
        "busy": "".join(f"M{x} {y}{square}" for x, y in places[:busy]),
        "idle": "".join(f"M{x} {y}{square}" for x, y in places[busy:]),
        "width": step * across,
        "height": step * (-(-sms // across)),
    }
