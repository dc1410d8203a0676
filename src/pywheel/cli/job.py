"""Commands about one job."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO

import typer

from .._errors import BadJob, NoSuchJob
from ..client.program import MAX_BODY
from ..client.queue import JobQueue
from ..jobs.checks import did_you_mean
from ..jobs.commands import Change, called
from ..jobs.commands import Ref as AnyRef
from ..jobs.durations import span_text
from ..jobs.job import Attempt
from ..jobs.new_job import JobOptions
from . import options as o
from .output import attempt_record, body_text, counted, job_record, when

_AS_IT_IS = "to be looked at: give --text to put it as it is"
_BATCH = 1_000  # jobs in a transaction
_BYTES = 4 << 20  # of their lines: the one that reaches it is the last


@dataclass(kw_only=True)
class OneJob(o.Target):
    """The job that a command is about."""

    job: Annotated[str, typer.Argument(help="The job's id; or, with --topic, its key.", metavar="JOB")]
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="JOB is a key of this topic.")] = None

    @contextmanager
    def named(self, *, keys: bool = False) -> Iterator[tuple[JobQueue, AnyRef]]:
        """Give the queue of an existing store, and the job's id or its topic and key."""
        ref = o.reference(self.job, self.topic)
        with self.existing(keys=keys) as queue:
            try:
                yield queue, ref
            except NoSuchJob as error:
                raise NoSuchJob(f"{error}{_other_topic(queue, ref)}") from None

    def change(self, change: Callable[[JobQueue, AnyRef], Change], done: str, *, keys: bool = False) -> int:
        """Change the job; print whether that was done, or why not; return the exit code."""
        with self.named(keys=keys) as (queue, ref):
            outcome = change(queue, ref)
            if outcome:
                self.emit({"changed": True}, done)
                return 0
            why = f"job {called(ref)} is {outcome}"
            if outcome is Change.NOT_FOUND:
                why = f"there is no job {called(ref)}{_other_topic(queue, ref)}"
        self.emit({"changed": False, "reason": str(outcome)}, why)
        return o.NO


@dataclass(kw_only=True)
class Values:
    """The options that describe a job when it is put or edited."""

    text: Annotated[bool, typer.Option("--text", help="The body is text as it is, no JSON.")] = False
    file: Annotated[typer.FileBinaryRead | None, typer.Option(help="The body is what this file has, as it is.")] = None
    delay: o.Delay = None
    at: o.At = None
    ttr: Annotated[str | None, typer.Option(help="How long a handler may run.")] = None
    max_attempts: Annotated[int | None, typer.Option(help="How often it is tried in all.")] = None
    expires: Annotated[
        str | None, typer.Option(help="How long after its due time it may begin; later it is cancelled.")
    ] = None
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="For the handler, as name=value; may be said again.")
    ] = None

    @property
    def options(self) -> JobOptions:
        """The job's options, without its body."""
        return {
            "delay": o.span_or_none(self.delay),
            "at": o.moment(self.at),
            "ttr": o.span_or_none(self.ttr),
            "max_attempts": self.max_attempts,
            "expires": o.span_or_none(self.expires),
            "headers": dict(map(_header, self.header)) if self.header else None,
        }


def put(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    values: Values,
    on: o.Target,
    body: Annotated[
        str | None, typer.Argument(help="The body, as JSON; or - for what comes on standard input, as it is.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Unique among the live jobs of the topic.")] = None,
    replace: Annotated[bool, typer.Option(help="Let a delayed job with this key take these values.")] = False,
    traceparent: Annotated[str | None, typer.Option(help="W3C trace context.", envvar="TRACEPARENT")] = None,
    priority: Annotated[int, typer.Option(help="From -9 to 9: of what is due the highest comes first.")] = 0,
    to: Annotated[
        str | None, typer.Option(help="Where an outlet delivers it: a URL, or a name of the outlet's.")
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="A job a line, of --file or standard input; up to a thousand a transaction.")
    ] = False,
    dedupe_for: Annotated[
        str | None, typer.Option(help="Refuse the put if a job with its key ended less than this ago.")
    ] = None,
) -> None:
    """Put a job; print its id when it is durable. With --lines, put one job for each line; print how many."""
    options: JobOptions = {
        **values.options,
        "key": key,
        "replace": replace,
        "to": to,
        "traceparent": traceparent,
        "dedupe_for": o.span_or_none(dedupe_for),
        "priority": priority,
    }
    if lines:
        if key is not None or body not in (None, "-"):
            raise BadJob(
                "--lines puts many jobs: their bodies come from --file or standard input, and they have no key"
            )
        with on.opened(keys=True) as queue:
            count = _put_lines(queue, _stream(values), topic, options, text=values.text)
        on.emit({"put": count}, str(count))
        return
    content = _content(body, values)
    with on.opened(keys=True) as queue:
        id = queue.put(topic, content, **options)
    on.emit({"id": id}, str(id))


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise BadJob(f"--header is name=value, not {text[:60]!r}")
    return name, value


def _put_lines(queue: JobQueue, stream: BinaryIO, topic: str, options: JobOptions, *, text: bool) -> int:
    """Put a job for each line; return how many. BadJob for a line that is not a body: earlier batches are stored."""
    count = 0
    with counted("putting", "put", None) as shown:
        while batch := _next_lines(stream, count + 1):
            jobs = []
            for number, line in enumerate(batch, count + 1):
                try:
                    jobs.append(queue.job(topic, _checked(line.rstrip(b"\r\n"), text=text), **options))
                except BadJob as error:
                    raise BadJob(f"line {number}: {error}{_then(count + 1)}") from None
            queue.put_many(jobs)
            count += len(jobs)
            shown(count)
    return count


def _then(line: int) -> str:
    """Return the end of a message about a line that was not put, or not read."""
    return f"; go on with line {line}, once that is mended"


def _next_lines(stream: BinaryIO, first: int) -> list[bytes]:
    """Return the lines of a transaction, from the line `first` on; none at the end.

    A line that is too long for a body comes in parts. BadJob if the stream cannot be read.
    """
    lines, size = list[bytes](), 0
    with _read(_then(first)):
        while len(lines) < _BATCH and size < _BYTES and (line := stream.readline(MAX_BODY + 2)):
            lines.append(line)
            size += len(line)
    return lines


def _stream(values: Values) -> BinaryIO:
    """Return the file of --file, or the standard input."""
    return values.file or sys.stdin.buffer


def _content(body: str | None, values: Values) -> bytes:
    """Return the bytes of a body. BadJob for an argument that is not JSON, without --text."""
    if values.file is not None and body is not None:
        raise BadJob("give a body or --file, not both")
    if values.file is not None or (body == "-" and not values.text):
        return _all_of(_stream(values))
    if body is None:
        return b"" if values.text else b"null"
    return _checked(body.encode("utf-8", "surrogateescape"), text=values.text)


def _checked(content: bytes, *, text: bool) -> bytes:
    """Return a body. BadJob if it is not JSON, without --text."""
    if text:
        return content
    shown = content[:60].decode("utf-8", "surrogateescape")
    try:
        # Decoded here: of bytes Python guesses the encoding, and a task would refuse what is not plain UTF-8.
        json.loads(content.decode(), parse_constant=_not_in_json)
    except RecursionError:
        raise BadJob(f"{shown!r} is nested too deep {_AS_IT_IS}") from None
    except ValueError as error:
        if "integer string conversion" in str(error):  # Python's limit, not JSON's
            raise BadJob(f"{shown!r} has a number of too many digits {_AS_IT_IS}") from None
        raise BadJob(f"{shown!r} is not JSON: quote it like '\"text\"', or give --text to put it as it is") from None
    return content


@contextmanager
def _read(then: str = "") -> Iterator[None]:
    """Raise BadJob if the input cannot be read: an OSError would be taken for one of the output."""
    try:
        yield
    except OSError as error:
        raise BadJob(f"the input cannot be read: {error.strerror}{then}") from None


def _all_of(stream: BinaryIO) -> bytes:
    """Return the content of a stream. BadJob if it is longer than a body may be, or cannot be read.

    The rest of a longer one is not read.
    """
    with _read():
        content = stream.read(MAX_BODY + 1)
    if len(content) > MAX_BODY:
        raise BadJob(f"the body has more than {MAX_BODY} bytes: store it elsewhere, put its name")
    return content


def _not_in_json(word: str) -> None:
    """Refuse NaN and Infinity: Python's reader takes them, readers of other languages do not."""
    raise ValueError(word)


def show(job: OneJob) -> None:
    """Show a job."""
    with job.named(keys=True) as (queue, ref):
        found = queue.get(ref)
    record = job_record(found)
    times = {name: when(record[name]) for name in ("due", "created", "lease_until")}
    spans = {name: span_text(record[name]) for name in ("ttr", "expires") if record[name] is not None}
    shown = {name: "" if value is None else value for name, value in {**record, **times, **spans}.items()}
    job.emit_pairs(shown, record)


def cancel(job: OneJob) -> int:
    """Cancel a delayed job. Exit code 1: it is not delayed."""
    return job.change(lambda queue, ref: queue.cancel(ref), "cancelled")


def reschedule(job: OneJob, delay: o.Delay = None, at: o.At = None) -> int:
    """Give a delayed job another due time. Exit code 1: it is not delayed."""
    due = o.moment(at)
    return job.change(lambda queue, ref: queue.reschedule(ref, o.span_or_none(delay), at=due), "rescheduled")


def edit(
    job: OneJob,
    values: Values,
    body: Annotated[str | None, typer.Argument(help="The new body, as JSON; or - for standard input.")] = None,
    priority: Annotated[int | None, typer.Option(help="From -9 to 9.")] = None,
) -> int:
    """Give a delayed job another body, due time, priority or headers. Exit code 1: it is not delayed."""
    content = None if body is None and values.file is None else _content(body, values)
    given = {"body": content, "priority": priority, **values.options}
    changes: Any = {name: value for name, value in given.items() if value is not None}
    return job.change(lambda queue, ref: queue.jobs.edit(ref, **changes), "edited", keys=True)


def retry(job: OneJob, delay: Annotated[str, typer.Option("--delay", "-d", help="From now.")] = "0s") -> int:
    """Make a finished job delayed again, with all its attempts. Exit code 1: it is not finished."""
    return job.change(lambda queue, ref: queue.jobs.retry(ref, o.span(delay)), "delayed again")


def delete(job: OneJob) -> int:
    """Delete a job and its history. Exit code 1: there is none, or it is running."""
    return job.change(lambda queue, ref: queue.jobs.delete(ref), "deleted")


def history(job: OneJob) -> None:
    """Show the attempts of a job."""
    with job.named(keys=True) as (queue, ref):
        attempts = queue.jobs.history(ref)
    rows = [
        (a.attempt, when(a.started), when(a.ended), a.outcome or "running", a.worker or "", a.reason, _result(a))
        for a in attempts
    ]
    titles = ("attempt", "started", "ended", "outcome", "worker", "error", "result")
    job.emit_rows(titles, rows, [attempt_record(attempt) for attempt in attempts])


def _other_topic(queue: JobQueue, ref: AnyRef) -> str:
    """Return the end of a message about a missing job: a topic with a similar name, or nothing."""
    known = [] if isinstance(ref, int) else [topic.name for topic in queue.topics.list()]
    return "" if isinstance(ref, int) or ref[0] in known else did_you_mean(ref[0], known)


def _result(attempt: Attempt) -> str:
    return "" if attempt.result is None else body_text(attempt.result)
