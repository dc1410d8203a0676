"""The commands, and what becomes of errors: exit code 1 for no, 2 for arguments that make no sense, 3 for the store."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__, implementation
from .._errors import BadJob, JobExists, NoSuchJob, PywheelError, StoreError
from ..client.queue import JobQueue
from ..jobs.job import Job, State
from .output import attempt_record, emit, fail, job_record, short_body, table, when

__all__ = ["app", "run"]

NO, USAGE, STORE = 1, 2, 3
# Typer brings its own click, or uses the one installed: either way this is the base of its usage errors.
_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

EXAMPLES = """\b
Examples:
  pywheel put close-order '{"order": 7}' --delay 30m --key order-7
  pywheel reschedule order-7 --topic close-order --delay 1h
  pywheel cancel order-7 --topic close-order
  pywheel list --topic notify --state dead
  pywheel retry 4711
  pywheel work shop:queue      # the JobQueue `queue` of shop.py

Exit codes: 0 done; 1 no, such as a job that is not there or not delayed; 2 arguments that make no sense;
3 the store cannot do it.
"""

app = typer.Typer(
    name="pywheel",
    help="Durable delayed jobs: put them, look at them, work on them.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Store = Annotated[
    str,
    typer.Option(
        "--store", "-s", envvar="PYWHEEL_STORE", help="Address, such as sqlite:///jobs.db.", show_default=True
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Ref = Annotated[str, typer.Argument(help="The job's id; or, with --topic, its key.", metavar="JOB")]
OfTopic = Annotated[str | None, typer.Option("--topic", "-t", help="JOB is a key of this topic.")]
DEFAULT_STORE = "sqlite:///jobs.db"


def run() -> int:
    """Run the command line; return the exit code."""
    try:
        result = app(standalone_mode=False)
    except typer.Abort:
        return 130
    except _UsageError as error:
        message = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message)
        else:
            fail(message)
        return USAGE
    except StoreError as error:
        fail(str(error))
        return STORE
    except (NoSuchJob, JobExists) as error:
        fail(str(error))
        return NO
    except PywheelError as error:
        fail(str(error))
        return USAGE
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stderr.close()
        return 0
    return result if isinstance(result, int) else 0


def _ref(job: str, topic: str | None) -> int | tuple[str, str]:
    if topic is not None:
        return topic, job
    if not job.isdecimal() or not job.isascii():
        raise BadJob(f"{job[:80]!r} is no id: give a number, or a key with --topic")
    return int(job)


def _existing(store: str) -> JobQueue:
    return JobQueue(store, create=False)


def _answer(done: bool, *, as_json: bool, yes: str, no: str) -> int:
    """Print whether a command changed anything; return the exit code."""
    emit({"changed": done}, as_json=as_json, text=yes if done else no)
    return 0 if done else NO


# ---- one job --------------------------------------------------------------------------------------------------------


@app.command()
def put(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    body: Annotated[str, typer.Argument(help="The body: text, or - for what comes on standard input.")] = "null",
    store: Store = DEFAULT_STORE,
    delay: Annotated[str | None, typer.Option("--delay", "-d", help="Such as 30s, 10m, 1h 30m, 2d.")] = None,
    at: Annotated[str | None, typer.Option(help="When, as ISO 8601 with a time zone, instead of a delay.")] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Unique among the live jobs of the topic.")] = None,
    replace: Annotated[bool, typer.Option(help="Let a delayed job with this key take these values.")] = False,
    ttr: Annotated[str | None, typer.Option(help="How long a handler may run.")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="How often it is tried in all.")] = None,
    traceparent: Annotated[str | None, typer.Option(help="W3C trace context.", envvar="TRACEPARENT")] = None,
    as_json: AsJson = False,
) -> None:
    """Put a job; print its id."""
    content = sys.stdin.buffer.read() if body == "-" else body.encode("utf-8", "surrogateescape")
    with JobQueue(store) as queue:
        id = queue.put(
            topic,
            content,
            delay=delay,
            at=None if at is None else _moment(at),
            key=key,
            replace=replace,
            ttr=ttr,
            max_attempts=max_attempts,
            traceparent=traceparent,
        )
    emit({"id": id}, as_json=as_json, text=str(id))


@app.command()
def show(job: Ref, store: Store = DEFAULT_STORE, topic: OfTopic = None, as_json: AsJson = False) -> None:
    """Show a job."""
    with _existing(store) as queue:
        found = queue.get(_ref(job, topic))
    record = job_record(found)
    times = {name: when(record[name]) for name in ("due", "created", "lease_until")}
    shown = {name: "" if value is None else value for name, value in {**record, **times}.items()}
    emit(record, as_json=as_json, text=table(("", ""), shown.items()))


@app.command()
def cancel(job: Ref, store: Store = DEFAULT_STORE, topic: OfTopic = None, as_json: AsJson = False) -> int:
    """Cancel a delayed job. Exit code 1: it is not delayed."""
    with _existing(store) as queue:
        done = queue.cancel(_ref(job, topic))
    return _answer(done, as_json=as_json, yes="cancelled", no="not cancelled: no such job, or it is not delayed")


@app.command()
def reschedule(
    job: Ref,
    store: Store = DEFAULT_STORE,
    topic: OfTopic = None,
    delay: Annotated[str | None, typer.Option("--delay", "-d", help="From now: 30s, 10m, 2d.")] = None,
    at: Annotated[str | None, typer.Option(help="When, as ISO 8601 with a time zone.")] = None,
    as_json: AsJson = False,
) -> int:
    """Give a delayed job another due time. Exit code 1: it is not delayed."""
    with _existing(store) as queue:
        done = queue.reschedule(_ref(job, topic), delay, at=None if at is None else _moment(at))
    return _answer(done, as_json=as_json, yes="rescheduled", no="not rescheduled: no such job, or it is not delayed")


@app.command()
def retry(
    job: Ref,
    store: Store = DEFAULT_STORE,
    topic: OfTopic = None,
    delay: Annotated[str, typer.Option("--delay", "-d", help="From now.")] = "0s",
    as_json: AsJson = False,
) -> int:
    """Make a finished job delayed again, with all its attempts. Exit code 1: it is not finished."""
    with _existing(store) as queue:
        done = queue.retry(_ref(job, topic), delay)
    return _answer(done, as_json=as_json, yes="delayed again", no="not retried: no such job, or it is not finished")


@app.command()
def history(job: Ref, store: Store = DEFAULT_STORE, topic: OfTopic = None, as_json: AsJson = False) -> None:
    """Show what was tried with a job."""
    with _existing(store) as queue:
        attempts = queue.history(_ref(job, topic))
    rows = [
        (a.attempt, when(a.started), when(a.ended), a.outcome or "running", a.worker or "", a.error or "")
        for a in attempts
    ]
    titles = ("attempt", "started", "ended", "outcome", "worker", "error")
    emit([attempt_record(attempt) for attempt in attempts], as_json=as_json, text=table(titles, rows))


# ---- many jobs ------------------------------------------------------------------------------------------------------


@app.command("list")
def list_jobs(
    store: Store = DEFAULT_STORE,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Of this topic only.")] = None,
    state: Annotated[State | None, typer.Option(help="In this state only.")] = None,
    after: Annotated[int, typer.Option(help="With an id above this one.", min=0)] = 0,
    limit: Annotated[int, typer.Option("--limit", "-n", help="So many at most.", min=1)] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs by id."""
    with _existing(store) as queue:
        jobs = queue.list(topic, state, after=after, limit=limit)
    rows = [_row(job) for job in jobs]
    titles = ("id", "topic", "key", "state", "due", "attempt", "body")
    emit([job_record(job) for job in jobs], as_json=as_json, text=table(titles, rows))


def _row(job: Job) -> tuple[Any, ...]:
    return job.id, job.topic[:40], (job.key or "")[:40], job.state, when(job.due), job.attempt, short_body(job)


@app.command()
def counts(store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Count the jobs of each topic by state."""
    with _existing(store) as queue:
        found = queue.counts()
        paused = {topic.name for topic in queue.topics() if topic.paused}
    records = {topic: {**states._asdict(), "paused": topic in paused} for topic, states in found.items()}
    rows = [(topic[:60], *states, "paused" if topic in paused else "") for topic, states in found.items()]
    emit(records, as_json=as_json, text=table(("topic", *State, ""), rows))


@app.command()
def pause(topic: str, store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Let no job of a topic be claimed until it is resumed."""
    with _existing(store) as queue:
        emit({"changed": queue.pause(topic)}, as_json=as_json, text="paused")


@app.command()
def resume(topic: str, store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Let the jobs of a paused topic be claimed again."""
    with _existing(store) as queue:
        emit({"changed": queue.resume(topic)}, as_json=as_json, text="resumed")


@app.command()
def purge(
    store: Store = DEFAULT_STORE,
    state: Annotated[State, typer.Option(help="done, dead or cancelled.")] = State.DONE,
    older_than: Annotated[str, typer.Option(help="That ended so long ago.")] = "0s",
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Of this topic only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Forget finished jobs and their history; print how many."""
    total = 0
    with _existing(store) as queue:
        while gone := queue.purge(state, older_than=older_than, topic=topic):
            total += gone
    emit({"purged": total}, as_json=as_json, text=f"{total} forgotten")


# ---- work -----------------------------------------------------------------------------------------------------------


@app.command()
def work(
    target: Annotated[str, typer.Argument(help="The queue, as module:name.", metavar="MODULE:QUEUE")],
    grace: Annotated[str, typer.Option(help="How long handlers may go on after SIGTERM.")] = "30s",
    keep: Annotated[
        str | None, typer.Option(help="How long done and cancelled jobs are kept; for ever if not given.")
    ] = None,
    live: Annotated[
        bool | None, typer.Option(help="Show counts and lateness; on a terminal it does by itself.")
    ] = None,
) -> None:
    """Run the handlers of a queue until SIGTERM or Ctrl-C."""
    from .work import run_worker

    run_worker(target, grace, keep, live=sys.stdout.isatty() if live is None else live)


@app.command()
def demo(
    jobs: Annotated[int, typer.Option(help="How many jobs.", min=100)] = 20_000,
    seconds: Annotated[float, typer.Option(help="Over how many seconds they are due.", min=1)] = 10.0,
) -> int:
    """Kill a worker half-way, and account for every job.

    Put jobs, start a worker, kill it half-way, start another; then let a notification climb its ladder.
    """
    from .demo import show as show_demo

    return show_demo(jobs, seconds)


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version, and which implementation of the wheel runs."""
    record = {"version": __version__, "implementation": implementation, "python": sys.version.split()[0]}
    emit(
        record,
        as_json=as_json,
        text=f"pywheel {__version__} ({implementation}), Python {record['python']}, {Path(sys.executable)}",
    )


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise BadJob(f"{text[:60]!r} is no time: write it like 2030-01-31T12:00:00+01:00") from None
