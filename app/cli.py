"""The command line: `flashstep serve | record | show | export | ledger | compare | engines`.

The names are Python's, with hyphens. Results go to standard output; progress and errors, one sentence each, to
standard error. Exit codes, as `diff`'s: 0 done, 1 the kernel and the trace differ, 2 refused or failed; 130 cancelled,
141 nobody read on.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import Run, __version__, load
from .. import compare as compare_run
from .. import engines as every_engine
from .. import record as record_run
from ..kernels import registry
from ..kernels.engines.gpu import too_much_shared
from ..trace.agreement import Agreement
from ..trace.file import destination, write_whole
from ..trace.words import listed
from . import allproblems, serving, verdicts
from .endings import Refused, ended, note, sentence_of, terminated_as_cancelled
from .options import Asked, takes_a_problem
from .progress import recording_progress
from .tables import size, table

cli = typer.Typer(
    help="Step through attention kernels tile by tile, and see every number that moves.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

KERNEL_NAMES = ", ".join(registry.KERNELS)
Kernel = Annotated[str, typer.Argument(help=f"One of {KERNEL_NAMES}.", show_default=False)]
Source = Annotated[
    str, typer.Argument(help=f"A saved run, or a kernel to record first: {KERNEL_NAMES}.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for a program to read.")]


@cli.callback(invoke_without_command=True)
def flashstep(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Step through attention kernels tile by tile, and see every number that moves. Bare `flashstep` serves."""
    if version:
        print(f"flashstep {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        serve()


@cli.command()
def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = serving.DEFAULT_HOST,
    port: Annotated[int, typer.Option(help="The port; 0 for any free one.", min=0, max=65535)] = serving.DEFAULT_PORT,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser where there is one.")] = True,
) -> None:
    """Serve the pages on this machine and open a browser."""
    try:
        listener = serving.listen(host, port)
    except serving.CannotListen as error:
        raise Refused(str(error)) from None
    with listener, contextlib.suppress(KeyboardInterrupt):
        serving.serve(listener, host, open_browser=browser)


@cli.command()
@takes_a_problem
def record(
    kernel: Kernel,
    asked: Asked,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, usually .safetensors.")],
    values: Annotated[
        str | None, typer.Option(help="Numbers to keep: all, focus or none; by default what fits.", show_default=False)
    ] = None,
    focus: Annotated[int, typer.Option(help="The block whose numbers are kept under --values focus.")] = 0,
    budget_bytes: Annotated[
        int | None, typer.Option(help="Most bytes of numbers to keep; 512 MiB by default.", show_default=False)
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(help="Most steps to record; 1,000,000 by default.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a kernel's twin, and save every step of it in one file."""
    registry.get(kernel)  # raises for a name that is none, before anything else
    refuse_unwritable(output, f"{kernel}.safetensors")
    began = time.perf_counter()
    try:
        with terminated_as_cancelled():
            run = recorded(kernel, asked, values=values, focus=focus, budget_bytes=budget_bytes, max_steps=max_steps)
            run.save(output)
    except KeyboardInterrupt:
        raise Refused("Cancelled; nothing was written.", 130) from None
    trace = run.trace
    if sentence := too_much_shared(trace):
        note(sentence)
    if focus and trace.meta.values != "focus":
        note(f"{kept_words(trace.meta.values, focus).capitalize()} are kept, so there is no use for --focus; it is ignored.")
    facts = {
        "kernel": kernel,
        "file": str(output),
        "bytes": output.stat().st_size,
        "last_step": len(trace.steps) - 1,
        "events": len(trace.events),
        "values": trace.meta.values,
        "seconds": round(time.perf_counter() - began, 3),
    }
    if as_json:
        print_json(facts)
        return
    print(
        f"{output}: {run.trace.meta.title}, {facts['last_step']:,} steps, {facts['events']:,} events, "
        f"{kept_words(trace.meta.values, focus)}, {size(output.stat().st_size)}"
    )


def refuse_unwritable(output: Path, example: str) -> None:
    """Raises `Refused`, or TraceError, where no file can be written, before any work is done for it."""
    if output.is_dir():
        raise Refused(f"{output} is a folder; name a file in it, such as {output / example}.")
    if not output.is_symlink() and not output.absolute().parent.is_dir():
        raise Refused(f"There is no folder {output.parent} to write {output.name} in; make it first.")
    folder = destination(output).parent
    if not os.access(folder, os.W_OK):
        raise Refused(f"{output} cannot be written: you may not write in the folder {folder}.")


def kept_words(values: str, focus: int) -> str:
    """What a recording kept, in words."""
    return {"all": "every block's numbers", "focus": f"the numbers of block {focus}", "none": "no numbers"}[values]


@cli.command()
@takes_a_problem
def show(source: Source, asked: Asked, as_json: AsJson = False) -> None:
    """Print the whole walk as text: every step and its sentence."""
    trace = run_of(source, asked).trace
    if not as_json:
        for line in trace.walk():
            print(line)
        return
    steps = (
        {
            "step": step.index,
            "label": step.label,
            "caption": step.caption,
            "path": list(step.path),
            "launch": step.launch,
            "block": step.block,
        }
        for step in trace.steps
    )
    print_json_list(steps)


@cli.command()
@takes_a_problem
def ledger(
    source: Source,
    asked: Asked,
    step: Annotated[
        int | None, typer.Option(help="Count up to this step; by default the whole run.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what the run asks of HBM, array by array: requested traffic, re-reads included."""
    trace = run_of(source, asked, values="none").trace
    last = len(trace.steps) - 1
    if step is not None and not 0 <= step <= last:
        raise Refused(f"There is no step {step}: steps run from 0 to {last}.")
    entries = trace.ledger(step)
    if as_json:
        print_json(entries)
        return
    columns = [(direction, unit) for direction in ("loads", "stores") for unit in ("transfers", "elements", "bytes")]
    numbers = {name: [entry[direction][unit] for direction, unit in columns] for name, entry in entries.items()}
    totals = [sum(column) for column in zip(*numbers.values(), strict=True)]
    print(f"{trace.meta.title}: requested traffic, " + (f"{last} steps" if step is None else f"to step {step} of {last}"))
    head = ("array", "loads", "elements", "bytes", "stores", "elements", "bytes")
    print(table(head, [(name, *row) for name, row in numbers.items()], ("total", *totals)))


@cli.command()
@takes_a_problem
def compare(
    source: Source,
    asked: Asked,
    engine: Annotated[
        str | None,
        typer.Option(help="gpu, cpu or recorded; by default the first of them that can run here.", show_default=False),
    ] = None,
    fmad: Annotated[bool, typer.Option(help="Let the GPU's compiler fuse multiply-adds.")] = True,
    own: Annotated[
        Path | None,
        typer.Option("--source", help="Your own .cu file in place of the shipped kernel.cu (gpu, cpu).", show_default=False),
    ] = None,
    sanitize: Annotated[
        bool, typer.Option(help="Look for races and steps outside an array in your own source, where it agrees (cpu).")
    ] = True,
    every: Annotated[
        bool, typer.Option("--all", help="Compare every problem that was captured: ragged, causal, masked, grouped heads, …")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the CUDA kernel on an engine and name the first step where it parts from the trace.

    Exit code 0: they agree; 1: they differ; 2: they could not be compared ("ok" is null in JSON).
    """
    try:
        with terminated_as_cancelled():
            agrees = (compared_all if every else compared)(source, asked, engine, fmad, own, sanitize, as_json)
    except Exception as error:
        if as_json:
            print_json({"engine": engine, "ok": None, "reason": sentence_of(error)})
        raise
    if not agrees:
        raise typer.Exit(2 if agrees is None else 1)


def compared(
    source: str, asked: Asked, engine: str | None, fmad: bool, own: Path | None, sanitize: bool, as_json: bool
) -> bool:
    """Print the verdict on one run; whether it agrees. Raises as `flashstep.compare` and `run_of`."""
    engine = engine_for(engine, fmad, own, sanitize)
    run = run_of(source, asked)
    with recording_progress(run.trace.meta.title, "comparing") as progress:
        agreement = compare_run(run, engine, fmad=fmad, progress=progress, source=own, sanitize=sanitize)
    if as_json:
        print_json(agreement.to_json())
    else:
        print("\n".join(verdicts.lines(agreement)))
    return agreement.ok


def compared_all(
    kernel: str, asked: Asked, engine: str | None, fmad: bool, own: Path | None, sanitize: bool, as_json: bool
) -> bool | None:
    """Print the verdict on every captured problem as it comes; whether all agree, None where one could not be compared."""
    if kernel not in registry.KERNELS:
        raise Refused(f"--all runs a kernel on problems of its own, and {kernel} is none; the kernels are {KERNEL_NAMES}.")
    if asked:
        raise Refused("--all runs a kernel on problems of its own; leave out its parameters and arrays, or leave out --all.")
    engine = chosen = engine_for(engine, fmad, own, sanitize)

    def compare_one(title: str, run: Run) -> Agreement:
        with recording_progress(title, "comparing") as progress:
            return compare_run(run, chosen, fmad=fmad, progress=progress, source=own, sanitize=sanitize)

    found = []
    for outcome in allproblems.outcomes(kernel, chosen, compare_one):
        found.append(outcome)
        if not as_json:
            print(allproblems.line(outcome), flush=True)
    if as_json:
        whole = {"kernel": kernel, "engine": engine, "ok": allproblems.ok(found)}
        print_json({**whole, "problems": [outcome.to_json() for outcome in found]})
    else:
        print("\n".join(allproblems.ending(found)))
    return allproblems.ok(found)


def engine_for(engine: str | None, fmad: bool, own: Path | None, sanitize: bool) -> str:
    """The engine to compare on, with notes on options that it has no use for. Raises before anything is recorded."""
    if engine is not None and engine not in verdicts.ENGINES:
        raise Refused(f"There is no engine {engine!r}: choose one of {', '.join(verdicts.ENGINES)}.")
    if engine is None:
        usable = [name for name, why in every_engine().items() if why is None and not (own and name == "recorded")]
        engine = next(iter(usable), "cpu" if own else "gpu")
        note(f"The {engine} engine is the first that can run here; --engine chooses another.")
    if engine != "gpu" and not fmad:
        note(f"The {engine} engine has no use for --no-fmad; it is ignored.")
    if not sanitize and own is None:
        note("Only a source of your own is run under sanitizers, so there is no use for --no-sanitize; it is ignored.")
    if own is not None:
        if engine == "recorded":
            raise Refused(f"The recorded engine holds what the shipped kernel.cu did; check {own.name} with --engine cpu or gpu.")
        own.open("rb").close()  # a name that is none is said before anything is recorded
    return engine


@cli.command()
@takes_a_problem
def export(
    source: Source,
    asked: Asked,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, usually .html.")],
    step: Annotated[int, typer.Option(help="The step that it opens at.", min=0)] = 0,
    lesson: Annotated[bool, typer.Option("--lesson", help="The kernel's lesson on this run, the player beside it.")] = False,
    values: Annotated[
        str | None, typer.Option(help="Numbers to keep: all, focus or none; by default what fits.", show_default=False)
    ] = None,
) -> None:
    """Write a run as one HTML file that plays in any browser, without a server and without a network."""
    from . import export as exporting  # the templates' language, which no other command needs

    name = source if source in registry.KERNELS else Path(source).stem
    refuse_unwritable(output, f"{name}.html")
    if values is not None and source not in registry.KERNELS:
        raise Refused(f"{source} is recorded already; leave out --values, or name a kernel to record.")
    budget = {} if values else {"budget_bytes": exporting.LIMIT * 3 // 4}  # the rest is for what is not numbers
    run = run_of(source, asked, values=values, **budget)
    last = len(run.trace.steps) - 1
    if step > last:
        raise Refused(f"There is no step {step}: steps run from 0 to {last}.")
    if lesson and step:
        note("A lesson opens at its beginning, so there is no use for --step; it is ignored.")
    trace = run.to_bytes()
    page = exporting.lesson_page(trace) if lesson else exporting.page(trace, {"step": str(step)} if step else {})
    text = page.encode()
    write_whole(output, text)
    meta = run.trace.meta
    print(f"{output}: {meta.title}, {last:,} steps, {kept_words(meta.values, meta.focus)}, {size(len(text))}")


@cli.command()
def engines(as_json: AsJson = False) -> None:
    """List the engines that run the CUDA kernels, and say which can run here."""
    found = every_engine()
    if as_json:
        print_json([{"name": name, "available": why is None, "missing": why} for name, why in found.items()])
        return
    for name, why in found.items():
        print(f"{name:<10}{verdicts.ENGINES[name]}")
        print(f"{'':<10}{why or 'It can run here.'}")


def run_of(source: str, asked: Asked, **policy: Any) -> Run:
    """A saved run, or one recorded now, keeping what `policy` says (values, budget_bytes)."""
    if source in registry.KERNELS:
        return recorded(source, asked, **policy)
    if not Path(source).is_file():
        raise Refused(f"{source} is neither a saved run nor a kernel; the kernels are {KERNEL_NAMES}.")
    if asked:
        raise Refused(f"{source} is recorded already; leave out its parameters, or name a kernel to record.")
    return load(source)


def recorded(kernel: str, asked: Asked, **policy: Any) -> Run:
    """A run recorded now. Notes on standard error say what of the arrays was changed, and what was asked in vain."""
    with recording_progress(kernel) as progress:
        run = record_run(kernel, *asked.arrays, progress=progress, **policy, **asked.parameters)
    useful = {*registry.get(kernel).parameters, "key_mask"} - ({"seed"} if asked.arrays else set())
    vain = [f"--{name.replace('_', '-')}" for name in asked.parameters if name not in useful]
    if vain:
        which = "it is" if len(vain) == 1 else "they are"
        note(f"{kernel} has no use for {listed(vain)}{' with your own arrays' * bool(asked.arrays)}; {which} ignored.")
    for sentence in asked.notes:
        note(sentence)
    return run


def print_json(what: Any) -> None:
    print(json.dumps(what, indent=2, allow_nan=False, ensure_ascii=False))


def print_json_list(items: Iterable[dict[str, Any]]) -> None:
    """A JSON list, an item a line, written while it is made: a walk may have 200,000 steps."""
    before = "[\n"
    for item in items:
        print(before + json.dumps(item, allow_nan=False, ensure_ascii=False), end="")
        before = ",\n"
    print("\n]")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code, as `endings.ended` decides it."""
    return ended(lambda: cli(args=arguments, prog_name="flashstep", standalone_mode=False))
