"""The output of commands: tables for people, tab-separated lines for pipes, JSON for programs, errors in one line."""

from __future__ import annotations

import base64
import errno
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from .._errors import BadJob
from ..jobs.bodies import is_encrypted, key_of
from ..jobs.job import Attempt, Job

if TYPE_CHECKING:  # where a person looks it is imported, which takes a while
    from rich.table import Table

_closed = False  # whether the shell has closed the standard output


def sound_streams() -> None:
    """Make the standard streams usable, even if the shell has closed some: its input is then empty.

    The next file that is opened, such as the store's, would get a closed stream's descriptor, and so the output. A
    character that a stream's encoding lacks is written with a backslash.
    """
    global _closed
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            _closed |= number == 1
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  (until the end)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115  (until the end)
        with suppress(AttributeError, ValueError):  # a stream of a test
            getattr(sys, name).reconfigure(errors="backslashreplace")


def on_terminal() -> bool:
    """Whether a person reads the output."""
    return sys.stdout.isatty()


_GAP: Final = 2  # columns between those of a table
_SHORT: Final = 20  # the width of a time
_FEW: Final = 10

# ---- results --------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Output:
    """The form in which a command prints its answer."""

    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False

    def emit(self, record: Any, text: str) -> None:
        """Print a record as JSON, or as a text."""
        _print(json.dumps(record) if self.as_json else text)

    def answer(self, done: bool, *, yes: str, no: str) -> int:
        """Print whether a command changed anything; return the exit code: 1 for no."""
        self.emit({"changed": done}, yes if done else no)
        return int(not done)

    def emit_rows(self, titles: Sequence[str], rows: Iterable[Sequence[Any]], records: Any) -> None:
        """Print records as JSON, or rows: as a table on a terminal, else as lines with tabs, nothing cut."""
        if self.as_json:
            _print(json.dumps(records))
        elif on_terminal():
            _draw(table(*_with_content(titles, rows)))
        else:
            _print_lines((titles, *rows))

    def emit_pairs(self, pairs: Mapping[str, Any], record: Any) -> None:
        """Print a record as JSON, or its names and values."""
        if self.as_json:
            _print(json.dumps(record))
        elif on_terminal():
            from rich.table import Table
            from rich.text import Text

            shown = Table(show_header=False, box=None, pad_edge=False)
            for name, value in pairs.items():
                shown.add_row(Text(name, style="bold"), Text(_printable(str(value))))
            _draw(shown)
        else:
            _print_lines(pairs.items())


def _draw(shown: Table) -> None:
    from rich.console import Console

    Console(highlight=False).print(shown)


def _print_lines(rows: Iterable[Sequence[Any]]) -> None:
    for row in rows:
        _print("\t".join(_printable(str(cell)) for cell in row))


def _print(text: str) -> None:
    """Print a result. OSError if the shell has closed the output, as the result would be lost."""
    if _closed:
        raise OSError(errno.EBADF, "it is closed")
    print(text)


def fail(message: str) -> None:
    """Print an error in one line."""
    note(f"pywheel: {' '.join(message.split())}")


def note(line: str) -> None:
    """Print a remark on the standard error, so that it does not get into a pipe."""
    with suppress(OSError):  # there is no reader
        print(_printable(line), file=sys.stderr, flush=True)


def say(text: str, log_format: str) -> None:
    """Print a remark: for a person, or as a line of the log."""
    if log_format == "json":
        logging.getLogger("pywheel.cli").info(text)
    else:
        note(f"pywheel: {text}")


def _with_content(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> tuple[list[str], list[list[Any]]]:
    """Leave out empty columns, which makes room for the others."""
    lines = list(rows)
    kept = [place for place in range(len(titles)) if not lines or any(str(line[place]) for line in lines)]
    return [titles[place] for place in kept], [[line[place] for place in kept] for line in lines]


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return a table, one line for each row, cut to the terminal's width. Markup in cells is shown as it is.

    Long columns are cut first, so that numbers, states and times stay whole beside a body.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = [[_printable(str(cell)) for cell in row] for row in rows]
    wanted = [max(map(cell_len, column)) for column in zip(titles, *lines, strict=True)]
    widths = _cut(wanted, Console().width - _GAP * (len(wanted) - 1))
    result = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for title, width in zip(titles, widths, strict=True):
        result.add_column(title, no_wrap=True, overflow="ellipsis", width=width)
    for line in lines:
        result.add_row(*map(Text, line))
    return result


def _cut(wanted: list[int], room: int) -> list[int]:
    """Return the widths of columns. Those up to a time's length keep their width, if enough is left for the others."""
    for kept, least in ((_SHORT, _FEW), (0, 1)):
        for longest in range(max(wanted), least - 1, -1):
            widths = [width if width <= kept else min(width, longest) for width in wanted]
            if sum(widths) <= room:
                return widths
    return widths


# ---- long work ------------------------------------------------------------------------------------------------------


_MOMENT: Final = 0.3  # seconds


Shown: TypeAlias = Callable[[int], object]
"""Shows how many jobs are done."""


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Shown]:
    """Show the progress of work that takes longer than a moment, on a terminal, until its end."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bars = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bars.add_task(what, total=total)
    late = threading.Timer(_MOMENT, bars.start)
    late.daemon = True
    late.start()
    try:
        yield lambda done: bars.update(task, completed=done)
    finally:
        late.cancel()
        late.join()
        bars.stop()


@contextmanager
def counted(what: str, changed: str, total: int | None) -> Iterator[Shown]:
    """Show the progress of a change of many jobs; if Ctrl-C or an error ends it, say how many were changed."""
    so_far = 0
    with progress(what, total) as shown:

        def count(done: int) -> None:
            nonlocal so_far
            so_far = done
            shown(done)

        try:
            yield count
        except BadJob:  # an argument makes no sense: nothing was begun
            raise
        except BaseException:
            note(f"pywheel: {so_far} {changed} before it ended; what was under way may be too")
            raise


# ---- records --------------------------------------------------------------------------------------------------------

_CUT: Final = 200  # characters of a body on a terminal; the table cuts further


def when(milliseconds: int | None) -> str:
    """Return a time as ISO 8601 in UTC."""
    if milliseconds is None:
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{milliseconds} ms"


def due_time(milliseconds: int | None) -> str:
    """Return a time for a table: on a terminal without milliseconds."""
    text = when(milliseconds)
    return f"{text[:10]} {text[11:19]}Z" if on_terminal() and text.endswith("+00:00") else text


def job_record(job: Job) -> dict[str, Any]:
    """Return a job for JSON. A body that is not UTF-8 is in base64; an encrypted one is replaced by its key's id."""
    record: dict[str, Any] = job._asdict()
    del record["body"]
    return {**record, **_content("body", job.body), "trace_id": job.trace_id}


def attempt_record(attempt: Attempt) -> dict[str, Any]:
    """Return an attempt for JSON; its result has the form of a job's body."""
    record: dict[str, Any] = attempt._asdict()
    del record["result"]
    return record if attempt.result is None else {**record, **_content("result", attempt.result)}


def _content(name: str, content: bytes) -> dict[str, Any]:
    try:
        return {"encrypted": key_of(content)} if is_encrypted(content) else {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def body_text(content: bytes) -> str:
    """Return a body or a result as text; for a terminal, its beginning."""
    if is_encrypted(content):
        return f"encrypted with {key_of(content) or 'an unknown key'}"
    shown = content[: 4 * _CUT] if on_terminal() else content
    text = shown.decode("utf-8", "replace")
    return text[:_CUT] if on_terminal() else text


def _printable(text: str) -> str:
    """Return a text whose control characters, which might move the cursor or end a cell, are escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
