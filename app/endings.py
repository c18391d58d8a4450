"""How a command ends: its exit code, one sentence for what went wrong, and streams that may be closed or full."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator

import typer

from .. import EngineError
from . import misuse

# Of a write to no named file: whatever else writes says in a sentence which file it was.
UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
CLOSED = 141  # as a shell says of what ended by SIGPIPE


class Refused(Exception):
    """A command that cannot be carried out; the message is one sentence."""

    def __init__(self, sentence: str, code: int = 2) -> None:
        super().__init__(sentence)
        self.code = code


@contextlib.contextmanager
def terminated_as_cancelled() -> Iterator[None]:
    """Within it, SIGTERM, and SIGHUP of a terminal that closes, cancel as Ctrl-C does: nothing half-written stays."""

    def cancel(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    ends = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # What nohup started ignores SIGHUP, and is meant to go on.
    before = {end: signal.signal(end, cancel) for end in ends if signal.getsignal(end) != signal.SIG_IGN}
    try:
        yield
    finally:
        for end, handler in before.items():
            signal.signal(end, handler)


def ended(command: Callable[[], object]) -> int:
    """Run one command; returns its exit code. Nothing but one sentence is printed for what a person can mend."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # A Windows pipe is not UTF-8 by default, and captions hold − and ∞.
        if hasattr(stream, "reconfigure") and (stream.encoding or "").lower() != "utf-8":
            stream.reconfigure(encoding="utf-8")
    try:
        code = command()
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        # Whoever read has read enough, as in `flashstep show … | head`; Python would complain when it flushes at exit.
        write_no_more()
        return CLOSED
    except SystemExit:  # Click's answer to a pipe that closed; it has seen to the exit
        return CLOSED
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Refused as error:
        return complain(sentence_of(error), error.code)
    except OSError as error:
        if error.filename is None and error.errno in UNWRITTEN:
            write_no_more()
            return complain(f"Standard output cannot be written: {(error.strerror or str(error)).lower()}.")
        return complain(sentence_of(error))
    except (ValueError, EngineError, MemoryError, typer.TyperException) as error:
        return complain(sentence_of(error))
    except Exception as error:
        traceback.print_exc()
        return complain(sentence_of(error))  # and not 1, which says that kernel and trace differ


def open_closed_streams() -> None:
    """Let what is written to a stream that the shell closed (`>&-`) go nowhere.

    Python has no object for such a stream, and the next file that is opened would get its number: a compiler's words would
    land in somebody's file.
    """
    for name, mode, flag in (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_WRONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:  # the number that is free is the stream's own
            setattr(sys, name, os.fdopen(os.open(os.devnull, flag), mode, encoding="utf-8"))


def write_no_more() -> None:
    """Let what is still to be printed go nowhere, so that Python does not complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def sentence_of(error: Exception) -> str:
    """What went wrong, in one sentence."""
    match error:
        case Refused() | ValueError() | EngineError():
            return str(error)
        case OSError():
            return f"{error.filename}: {error.strerror}." if error.filename else f"{error}."
        case MemoryError():
            return "There is not enough memory for this; ask for smaller sizes, or for --values none."
        case typer.TyperException():
            return misuse.sentence(error)
    return f"This was not foreseen, and is a fault of Flashstep itself: {type(error).__name__}: {error}."


def complain(sentence: str, code: int = 2) -> int:
    """Print one sentence on standard error; returns `code`."""
    note(sentence)
    return code


def note(sentence: str) -> None:
    """Print one sentence on standard error."""
    with contextlib.suppress(OSError):  # the exit code still says it
        print("flashstep: " + " ".join(sentence.split()), file=sys.stderr, flush=True)
