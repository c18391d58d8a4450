"""What a link may say besides a kernel's parameters, and what it says in vain.

The one list of these names: the pages' handlers take theirs from here, and the pages' scripts read no others (a test looks).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from ..kernels.kernel import Kernel
from ..kernels.problem import PROBLEM_FIELDS, TILING_FIELDS
from ..trace.words import listed
from . import occupancy
from .parameters import truth
from .tables import short

RECORDED = ("values", "focus", "arrays")  # of a recording, beside its kernel's parameters
PLACE = ("step", "cell", "order", "slot", "card")  # where in the run a page stands
THEME = "theme"
COMPARED = ("engine", "fmad")
TAKEN = ("embed", "lesson", "steps", "per")  # how the run is taken elsewhere: in a frame, a file, on paper
OWN = tuple(occupancy.PREFIX + name for name in occupancy.FIELDS)  # the reader's own decode
KNOWN = frozenset((*PROBLEM_FIELDS, *TILING_FIELDS, *RECORDED, *PLACE, THEME, *COMPARED, *TAKEN, *OWN))
# What those names may say whose page says nothing of its own of another text; "true", "false": whatever is on or off.
CHOICES = {THEME: ("light", "dark"), "engine": ("gpu", "cpu", "recorded"), "order": ("serial", "together"),
           "fmad": ("true", "false"), "embed": ("true", "false")}  # fmt: skip
SHOWN = 4  # names that are told; of more, how many there are


def in_vain(kernel: Kernel, said: Iterable[tuple[str, str]], told: Collection[str] = ()) -> str:
    """What a link says and nothing heeds, in a sentence or two; "" where all of it counts.

    said: its (name, text) pairs in their order, one name perhaps several times. told: names whose odd texts the page's own
    script tells of.
    """
    texts: dict[str, list[str]] = {}
    for name, text in said:
        texts.setdefault(name, []).append(text)
    unknown = [name for name in texts if name.strip() and name not in KNOWN]
    asked = (*kernel.parameters, "values", "arrays")
    doubled = [name for name in asked if len(set(texts.get(name, ()))) > 1]
    sentences = [f"The link says {_some(doubled)} more than once; the last counts."] if doubled else []
    for name, choices in CHOICES.items():
        text = texts.get(name, [""])[-1].strip()
        meant = (truth(text) is not None) if "true" in choices else text in choices
        if text and name not in told and not meant:
            sentences.append(f"The link's {name} is “{short(text)}”; {listed(choices)} are understood.")
    if unknown:
        close = get_close_matches(unknown[0], asked, 1) if len(unknown) == 1 else []
        end = f"; did you mean {close[0]}?" if close else "."
        sentences.append(f"The link also says {_some([short(name) for name in unknown])}, which nothing here knows{end}")
    return " ".join(sentences)


def _some(parts: list[str]) -> str:
    """The parts in a sentence; of more than are told, the last as their number."""
    if len(parts) > SHOWN:
        parts = [*parts[: SHOWN - 1], f"{len(parts) - SHOWN + 1} more"]
    return listed(parts)
