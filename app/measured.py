"""What was measured on a GPU and is told on the compare page: how many numbers a fused multiply-add changes.

`kernels/engines/measured.json` is taken from the newest `benchmarks/results/gpu-check-*.json` by

    python -m flashstep.app.measured benchmarks/results/gpu-check-….json
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent.parent / "kernels" / "engines" / "measured.json"
KEPT = ("ok", "worst_share_of_allowed", "max_ulp")


@cache
def measured() -> dict[str, Any]:
    """`device` and, by "<kernel> <problem>", `probed_numbers`, `changed_by_fmad` and both builds' results."""
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


def facts(kernel: str, problem: str | None) -> dict[str, Any]:
    """The measurements of one kernel: of `problem` if it is among them, and of all its problems together.

    Numbers count probed float32 values; shares are of what rounding allows, the worst of any element.
    """
    own = {name.split(" ", 1)[1]: entry for name, entry in measured()["problems"].items() if name.split(" ", 1)[0] == kernel}
    return {
        "device": measured()["device"],
        "problem": problem if problem in own else None,
        "this": own.get(problem or ""),
        "problems": len(own),
        "numbers": sum(entry["probed_numbers"] for entry in own.values()),
        "changed": sum(entry["changed_by_fmad"] for entry in own.values()),
        "fmad": max((entry["fmad"]["worst_share_of_allowed"] for entry in own.values()), default=0.0),
        "no_fmad": max((entry["no_fmad"]["worst_share_of_allowed"] for entry in own.values()), default=0.0),
        "all_agree": all(entry[build]["ok"] for entry in own.values() for build in ("fmad", "no_fmad")),
    }


def taken(results: dict[str, Any], source: str) -> dict[str, Any]:
    """The part of a GPU check's results that the page tells."""
    return {
        "source": source,
        "device": results["device"],
        "problems": {
            name: {
                "probed_numbers": entry["probed_numbers"],
                "changed_by_fmad": entry["changed_by_fmad"],
                **{build: {key: entry[build][key] for key in KEPT} for build in ("fmad", "no_fmad")},
            }
            for name, entry in results["agreement"].items()
        },
    }


def main() -> None:
    path = Path(sys.argv[1])
    content = taken(json.loads(path.read_text("utf-8")), f"benchmarks/results/{path.name}")
    FILE.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
