"""Progress of a recording (or a comparison), on standard error and only when a person watches."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

Report = Callable[[int, int], None]


@contextlib.contextmanager
def recording_progress(title: str, doing: str = "recording") -> Iterator[Report | None]:
    """A bar that `flashstep.record(progress=…)` fills: steps done, of how many, and the time left. It leaves no trace."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{doing} {title}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
