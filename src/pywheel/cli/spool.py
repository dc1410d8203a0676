"""Commands about a spool: list its waiting and refused jobs, forward them, retry or delete refused ones."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import unquote

import typer

from .._errors import BadJob, NotAStore
from ..client.circuit_breaker import CircuitBreaker
from ..client.forwarder import Forwarder
from ..client.spool import Spool, spooled_job
from ..events import Event, JobsForwarded
from ..jobs.job import Job, State
from ..observe import Tally
from .options import NO, Group, Target, absolute
from .output import Output, body_text, counted, due_time, job_record, note

_NEGATIVE: Final = {"ignore_unknown_options": True}  # an id such as -5 is not an option
_WORDS: Final = {State.DELAYED: "waiting", State.RUNNING: "sending", State.DEAD: "refused"}
_BUSY: Final = 60.0  # seconds to wait for another process that forwards

Id = Annotated[str, typer.Argument(help="What put returned, such as -5.", metavar="JOB")]


@dataclass(kw_only=True)
class ASpool:
    """The spool that a command is about."""

    spool: Annotated[
        str, typer.Option("--spool", envvar="PYWHEEL_SPOOL", help="Address of the spool.", show_default=True)
    ] = "sqlite:///spool.db"

    def existing(self) -> closing[Spool]:
        """Return an existing spool, as a context that closes it. NotAStore if there is none."""
        url = absolute(self.spool)
        path = Path(url.removeprefix("sqlite:///"))
        if url.startswith("sqlite:///") and not Path(unquote(str(path))).exists():
            raise NotAStore(f"there is no spool at {path}: --spool says where it is")
        return closing(Spool(url, create=False))


spool = Group("spool", "Puts that wait in a local file while their store is away: look at them, have them forwarded.")


@spool.command()
def show(
    of: ASpool,
    out: Output,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="How many jobs of each state to show at most.", min=0)
    ] = 100,
) -> None:
    """List the jobs that wait in the spool, and those that the store refused, in the order of the puts."""
    with of.existing() as file:
        counts = file.counts()
        rows = [(word, row) for state, word in _WORDS.items() for row in islice(file.rows(state), limit)]
    rows.sort(key=lambda found: found[1].id)
    summary = {
        "waiting": counts.delayed,
        "sending": counts.running,
        "refused": counts.dead,
        "forwarded": counts.done,
        "cancelled": counts.cancelled,
    }
    jobs = [(word, spooled_job(row)) for word, row in rows]
    out.emit_rows(
        ("id", "state", "topic", "key", "put", "due", "error", "body"),
        [_line(word, job) for word, job in jobs],
        {**summary, "jobs": [{**job_record(job), "state": word} for word, job in jobs]},
    )
    if not out.as_json:
        note(", ".join(f"{number:,} {word}" for word, number in summary.items()))


def _line(word: str, job: Job) -> tuple[Any, ...]:
    put, due = due_time(job.created), due_time(job.due)
    return job.id, word, job.topic, job.key or "", put, due, job.last_error or "", body_text(job.body)


@spool.command()
def drain(of: ASpool, on: Target) -> int:
    """Forward all waiting jobs to the store, in order, each put once. Exit code 1: some were refused."""
    tally = Tally()
    with (
        of.existing() as file,
        on.existing() as queue,
        counted("forwarding", "forwarded", file.counts().delayed) as shown,
    ):

        def tell(event: Event) -> None:
            tally(event)
            if isinstance(event, JobsForwarded):
                shown(tally.total("forwarded"))

        Forwarder(CircuitBreaker(on.store, lambda: queue.store, tell), file, tell).drain(_BUSY)
    forwarded, refused = tally.total("forwarded"), tally.total("refused")
    on.emit({"forwarded": forwarded, "refused": refused}, f"{forwarded:,} forwarded, {refused:,} refused")
    return NO if refused else 0


@spool.command(context_settings=_NEGATIVE)
def retry(job: Id, of: ASpool, out: Output) -> int:
    """Send a refused job again, with all jobs of its put_many. Exit code 1: it was not refused."""
    with of.existing() as file:
        done = file.retry(_id(job))
    return out.answer(done, yes="waits again", no="no such job, or it was not refused")


@spool.command(context_settings=_NEGATIVE)
def delete(job: Id, of: ASpool, out: Output) -> int:
    """Delete a refused job. Exit code 1: it was not refused."""
    with of.existing() as file:
        done = file.forget(_id(job))
    return out.answer(done, yes="deleted", no="no such job, or it was not refused")


def _id(job: str) -> int:
    """Return the id of a spooled job, which is negative, given with or without the sign."""
    if not re.fullmatch("-?[0-9]{1,18}", job, re.ASCII):
        raise BadJob(f"{job[:80]!r} is not an id: give the number that put returned")
    return -abs(int(job))
