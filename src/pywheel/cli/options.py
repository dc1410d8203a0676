"""The common parts of the commands: options in records, the store, a job's name, durations, and confirmations."""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, get_type_hints
from urllib.parse import quote

import typer

from .._errors import BadJob, BadOption, PywheelError
from ..client.queue import AsyncJobQueue, JobQueue
from ..execution.loading import load
from ..jobs.durations import KEEP_DEAD, Duration, signed_ms
from ..jobs.keyring import Keyring
from ..stores.open import working_directory
from .examples import examples
from .output import Output, on_terminal

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


Keep = Annotated[
    str,
    typer.Option(
        help=f"How long done and cancelled jobs are kept, or {_FOR_EVER}. Dead ones: {KEEP_DEAD}, if that is longer."
    ),
]
Grace = Annotated[str, typer.Option(help="How long handlers may go on after SIGTERM or Ctrl-C.")]
InTopic = Annotated[str | None, typer.Option("--topic", "-t", help="Of this topic only.")]
Delay = Annotated[
    str | None, typer.Option("--delay", "-d", help="From now: 30s, 10m, 1h 30m, 2d; a number is seconds.")
]
At = Annotated[str | None, typer.Option(help="When, as ISO 8601 with a time zone, instead of a delay.")]


# ---- commands -------------------------------------------------------------------------------------------------------


class Group(typer.Typer):
    """A group of commands. A parameter that is a record stands for its fields: each of them is an option."""

    def __init__(self, name: str, about: str, **more: Any) -> None:
        super().__init__(name=name, help=about, rich_markup_mode=None, **{"no_args_is_help": True, **more})
        self._prefix = f"{name} ".removeprefix("pywheel ")  # of a command's name in `examples`

    def command(self, name: str | None = None, **more: Any) -> Callable[[Callable[..., Any]], Any]:
        """Return a decorator that adds a function as a command, with the examples of its name."""

        def take_in(function: Callable[..., Any]) -> Callable[..., Any]:
            called = name or function.__name__
            register = super(Group, self).command(called, epilog=examples(self._prefix + called), **more)
            register(with_options(function))
            return function

        return take_in


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that takes each field of its record parameters as a parameter of its own."""
    taken = inspect.signature(command, eval_str=True).parameters.values()
    records: dict[str, Any] = {one.name: one.annotation for one in taken if is_dataclass(one.annotation)}
    each: list[inspect.Parameter] = []
    for one in taken:
        each += _fields(one.annotation) if one.name in records else [one.replace(kind=one.KEYWORD_ONLY)]

    @wraps(command)
    def called(**given: Any) -> Any:
        for name, record in records.items():
            given[name] = record(**{field.name: given.pop(field.name) for field in fields(record)})
        return command(**given)

    called.__signature__ = inspect.Signature(each)  # type: ignore[attr-defined]  # for Typer
    called.__annotations__ = {one.name: one.annotation for one in each}
    return called


def _fields(record: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(record, include_extras=True)
    return [one.replace(annotation=hints[one.name]) for one in inspect.signature(record).parameters.values()]


# ---- the store ------------------------------------------------------------------------------------------------------


def absolute(url: str) -> str:
    """Return the address of a store, independent of the working directory."""
    path = url.removeprefix("sqlite:///")
    if path in (url, "") or path.startswith("/"):
        return url
    return f"sqlite:///{quote(os.fsencode(working_directory()), safe='/')}/{path}"


@dataclass(kw_only=True)
class AStore:
    """The store that a command is about."""

    store: Annotated[
        str,
        typer.Option(
            "--store", "-s", envvar="PYWHEEL_STORE", help="Address, such as sqlite:///jobs.db.", show_default=True
        ),
    ] = DEFAULT_STORE

    def opened(self, *, keys: bool = False) -> JobQueue:
        """Return the queue of the store, which is made if there is none; with `keys`, those of the environment.

        Commands that put, show or deliver bodies need keys. Commands that carry bodies unchanged need none.
        """
        return JobQueue(absolute(self.store), encryption=Keyring.of_environment() if keys else None)

    def existing(self, *, keys: bool = False) -> JobQueue:
        """Return the queue of an existing store. NotAStore if there is none."""
        return JobQueue(absolute(self.store), create=False, encryption=Keyring.of_environment() if keys else None)


@dataclass(kw_only=True)
class Target(AStore, Output):
    """The store that a command is about, and the form of its answer."""


def program(target: str) -> JobQueue:
    """Return the queue that ``module:name`` names. BadOption if there is none.

    BadOption also if the module cannot be imported; a traceback of its own lines is printed first.
    """
    with _shown(f"{target.partition(':')[0]} cannot be imported"):
        queue = load(target)
    if not isinstance(queue, JobQueue | AsyncJobQueue):
        raise BadOption(f"{target[:80]} is not a JobQueue")
    return queue.sync


def placed(queue: JobQueue, store: str | None) -> JobQueue:
    """Return a program's queue, on `store` if that is given, else on its own store, opened.

    BadOption if the program's function for the store's address raises; a traceback is printed first.
    """
    if store is not None:
        queue.use(absolute(store))
        return queue
    with _shown("the program does not say where its store is"):
        queue.calls.open()
    return queue


@contextmanager
def _shown(what: str) -> Iterator[None]:
    """Print an error of a program as a traceback of the program's own lines; raise BadOption instead."""
    try:
        yield
    except PywheelError:
        raise
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, SystemExit):
            said = f"the program ended itself: sys.exit({error.code!r})"
        traceback.print_exception(error.with_traceback(_theirs(error.__traceback__)))
        raise BadOption(f"{what}: {said}") from error


def _theirs(frames: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback from the first frame outside pywheel and the import system."""
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        if not file.startswith((_OURS, "<frozen importlib")) and not file.endswith(f"importlib{os.sep}__init__.py"):
            break
        frames = frames.tb_next
    return frames


# ---- values of options ----------------------------------------------------------------------------------------------


def reference(job: str, topic: str | None) -> int | tuple[str, str]:
    """Return the id of a job, or its topic and key."""
    if topic is not None:
        return topic, job
    if not _ID.fullmatch(job):
        raise BadJob(f"{job[:80]!r} is not an id: give a number, or a key with --topic")
    return int(job)


def span(text: str) -> Duration:
    """Return a duration; a plain number is seconds."""
    return float(text) if _PLAIN.fullmatch(text) else text


def parts(text: str | None) -> list[str]:
    """Return the parts of a text between commas."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def span_or_none(text: str | None) -> Duration | None:
    """Return a duration, or None if no text is given."""
    return None if text is None else span(text)


def kept_for(text: str) -> Duration | None:
    """Return how long finished jobs are kept; None for ever."""
    return None if text == _FOR_EVER else span(text)


def moment(text: str | None) -> datetime | None:
    """Return a time, or None if no text is given."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadJob(f"{text[:60]!r} is not a time: {_LIKE}") from None
    if found.utcoffset() is None:
        raise BadJob(f"{text[:60]!r} has no time zone: {_LIKE}")
    return found


def bound(text: str | None, name: str) -> datetime | None:
    """Return a time, given as one or as a duration from now; None if no text is given."""
    if text is None or re.match(r"[0-9]{4}-?[0-9W]", text):
        return moment(text)
    try:
        return datetime.now(UTC) + timedelta(milliseconds=signed_ms(span(text), name))
    except BadJob as error:
        raise BadJob(f"{error}, or a time like {_EXAMPLE}") from None


@dataclass(kw_only=True)
class Filter:
    """The options that select jobs of a topic and a state."""

    topic: InTopic = None
    key: Annotated[str | None, typer.Option("--key", "-k", help="With this key only.")] = None
    due_from: Annotated[
        str | None, typer.Option(help="Due then or later: ISO 8601, or from now, such as 1h or -1d.")
    ] = None
    due_until: Annotated[str | None, typer.Option(help="Due then or sooner.")] = None
    error: Annotated[str | None, typer.Option(help="Whose last error contains this text.")] = None
    text: Annotated[str | None, typer.Option(help="Whose body contains this text.")] = None
    header: Annotated[str | None, typer.Option(help="With this header, or with NAME=VALUE this value.")] = None
    worker: Annotated[str | None, typer.Option(help="Whose last attempt was of a worker called so.")] = None
    priority: Annotated[int | None, typer.Option(help="Of this priority only.")] = None

    @property
    def words(self) -> dict[str, Any]:
        """The options, as `FilterWords` and a topic."""
        dues = {"due_from": bound(self.due_from, "--due-from"), "due_until": bound(self.due_until, "--due-until")}
        return {**vars(self), **dues}


# ---- changes --------------------------------------------------------------------------------------------------------


def ask_first(what: str, count: int, *, yes: bool) -> None:
    """Have a person confirm a change of many jobs. Without a terminal, --yes is required."""
    if yes or count == 0:
        return
    jobs = f"{count:,} job{'s' if count != 1 else ''}"
    if not (on_terminal() and sys.stdin.isatty()):
        raise BadOption(f"this would {what} {jobs}: give --yes, or --dry-run to look first")
    if not typer.confirm(f"{what} {jobs}?", err=True):
        raise No("nothing was changed")
