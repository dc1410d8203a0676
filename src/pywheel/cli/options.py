"""What the commands have in common: the store, a job's name, filters, durations, and when to ask first."""

from __future__ import annotations

import os
import re
import sys
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from .._errors import BadJob, BadOption, PywheelError
from ..client.queue import AsyncJobQueue, JobQueue
from ..execution.loading import load
from ..jobs.durations import KEEP_DEAD, Duration, signed_ms
from ..jobs.keyring import Keyring
from ..stores.open import working_directory
from .output import emit, on_terminal

NO, USAGE, STORE = 1, 2, 3
DEFAULT_STORE: Final = "sqlite:///jobs.db"
_OURS: Final = str(Path(__file__).parents[1]) + os.sep
_FOR_EVER: Final = "forever"
_EXAMPLE: Final = "2030-01-31T12:00:00+01:00"
_LIKE: Final = f"write it like {_EXAMPLE}"
_PLAIN: Final = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)
_ID: Final = re.compile(r"[0-9]{1,19}", re.ASCII)


class No(PywheelError):
    """The answer is no: exit code 1."""


Store = Annotated[
    str,
    typer.Option(
        "--store", "-s", envvar="PYWHEEL_STORE", help="Address, such as sqlite:///jobs.db.", show_default=True
    ),
]
Keep = Annotated[
    str,
    typer.Option(
        help=f"How long done and cancelled jobs are kept, or {_FOR_EVER}. Dead ones: {KEEP_DEAD}, if that is longer."
    ),
]
Grace = Annotated[str, typer.Option(help="How long handlers may go on after SIGTERM or Ctrl-C.")]
Live = Annotated[bool | None, typer.Option(help="Show counts and lateness; on a terminal it does by itself.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Ref = Annotated[str, typer.Argument(help="The job's id; or, with --topic, its key.", metavar="JOB")]
OfTopic = Annotated[str | None, typer.Option("--topic", "-t", help="JOB is a key of this topic.")]
Delay = Annotated[
    str | None, typer.Option("--delay", "-d", help="From now: 30s, 10m, 1h 30m, 2d; a number is seconds.")
]
At = Annotated[str | None, typer.Option(help="When, as ISO 8601 with a time zone, instead of a delay.")]

InTopic = Annotated[str | None, typer.Option("--topic", "-t", help="Of this topic only.")]
Key = Annotated[str | None, typer.Option("--key", "-k", help="With this key only.")]
DueFrom = Annotated[str | None, typer.Option(help="Due then or later: ISO 8601, or from now, such as 1h or -1d.")]
DueUntil = Annotated[str | None, typer.Option(help="Due then or sooner.")]
Error = Annotated[str | None, typer.Option(help="Whose last error contains this text.")]
Text = Annotated[str | None, typer.Option("--text", help="Whose body contains this text.")]
Header = Annotated[str | None, typer.Option("--header", help="With this header, or with NAME=VALUE this value.")]
OfWorker = Annotated[str | None, typer.Option("--worker", help="Whose last attempt was of a worker called so.")]
OfPriority = Annotated[int | None, typer.Option("--priority", help="Of this priority only.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say how many it would be; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


# ---- the store ------------------------------------------------------------------------------------------------------


def absolute(url: str) -> str:
    """Return the address of a store as it is whatever the working directory is."""
    path = url.removeprefix("sqlite:///")
    if path in (url, "") or path.startswith("/"):
        return url
    return f"sqlite:///{quote(os.fsencode(working_directory()), safe='/')}/{path}"


def opened(store: str, *, encryption: Keyring | None = None) -> JobQueue:
    """Return the queue of a store, which is made if it is not there."""
    return JobQueue(absolute(store), encryption=encryption)


def existing(store: str, *, encryption: Keyring | None = None) -> JobQueue:
    """Return the queue of a store that is there. NotAStore if it is not."""
    return JobQueue(absolute(store), create=False, encryption=encryption)


def program(target: str) -> JobQueue:
    """Return the queue that ``module:name`` names. BadOption if there is none.

    A module that cannot be imported is shown by a traceback of its own lines, and is a BadOption too.
    """
    try:
        queue = load(target)
    except PywheelError:
        raise
    except Exception as error:
        _show(error)
        module = target.partition(":")[0]
        raise BadOption(f"{module} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(queue, JobQueue | AsyncJobQueue):
        raise BadOption(f"{target[:80]} is no JobQueue")
    return queue.sync


def placed(queue: JobQueue, store: str | None) -> JobQueue:
    """Return a program's queue with its store open, or the one that is named instead.

    BadOption if a function of the program's was to say where the store is, and raised; it is shown as above.
    """
    if store is not None:
        queue.use(absolute(store))
        return queue
    try:
        queue.calls.open()
    except PywheelError:
        raise
    except Exception as error:
        _show(error)
        raise BadOption(f"the program does not say where its store is: {type(error).__name__}: {error}") from error
    return queue


def _show(error: Exception) -> None:
    traceback.print_exception(error.with_traceback(_theirs(error.__traceback__)))


def _theirs(frames: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the first frame on that is neither pywheel's nor the import system's."""
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        if not file.startswith((_OURS, "<frozen importlib")) and not file.endswith(f"importlib{os.sep}__init__.py"):
            break
        frames = frames.tb_next
    return frames


keyring: Final = Keyring.of_environment
"""For commands that put, show or deliver bodies. Those that carry bodies as they lie, such as copy, take no keys."""


def group(name: str, about: str) -> typer.Typer:
    """Return a group of commands."""
    return typer.Typer(name=name, help=about, no_args_is_help=True, rich_markup_mode=None)


# ---- what is meant --------------------------------------------------------------------------------------------------


def reference(job: str, topic: str | None) -> int | tuple[str, str]:
    """Return what a job is called by."""
    if topic is not None:
        return topic, job
    if not _ID.fullmatch(job):
        raise BadJob(f"{job[:80]!r} is no id: give a number, or a key with --topic")
    return int(job)


def span(text: str) -> Duration:
    """Return a duration: a plain number is seconds."""
    return float(text) if _PLAIN.fullmatch(text) else text


def parts(text: str | None) -> list[str]:
    """Return what stands between commas."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def span_or_none(text: str | None) -> Duration | None:
    """Return a duration, if there is one."""
    return None if text is None else span(text)


def kept_for(text: str) -> Duration | None:
    """Return how long finished jobs are kept; None for ever."""
    return None if text == _FOR_EVER else span(text)


def moment(text: str | None) -> datetime | None:
    """Return a time, if there is one."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadJob(f"{text[:60]!r} is no time: {_LIKE}") from None
    if found.utcoffset() is None:
        raise BadJob(f"{text[:60]!r} has no time zone: {_LIKE}")
    return found


def bound(text: str | None, name: str) -> datetime | None:
    """Return a time, or one so far from now, if there is one."""
    if text is None or re.match(r"[0-9]{4}-?[0-9W]", text):
        return moment(text)
    try:
        return datetime.now(UTC) + timedelta(milliseconds=signed_ms(span(text), name))
    except BadJob as error:
        raise BadJob(f"{error}, or a time like {_EXAMPLE}") from None


def filtering(
    key: str | None, due_from: str | None, due_until: str | None, error: str | None, *sought: str | int | None
) -> dict[str, Any]:
    """Return the words of a filter without topic and state. `sought`: text, header, worker and priority."""
    dues = {"due_from": bound(due_from, "--due-from"), "due_until": bound(due_until, "--due-until")}
    words = zip(("text", "header", "worker", "priority"), sought, strict=True)
    return {"key": key, "error": error, **dues, **dict(words)}


# ---- changes --------------------------------------------------------------------------------------------------------


def answer(done: bool, *, as_json: bool, yes: str, no: str) -> int:
    """Print whether a command changed anything; return the exit code."""
    emit({"changed": done}, as_json=as_json, text=yes if done else no)
    return 0 if done else NO


def ask_first(what: str, count: int, *, yes: bool) -> None:
    """Have a person confirm a change of many jobs. In a pipe nobody can: there it wants --yes."""
    if yes or count == 0:
        return
    jobs = f"{count:,} job{'s' if count != 1 else ''}"
    if not (on_terminal() and sys.stdin is not None and sys.stdin.isatty()):
        raise BadOption(f"this would {what} {jobs}: give --yes, or --dry-run to look first")
    if not typer.confirm(f"{what} {jobs}?", err=True):
        raise No("nothing was changed")
