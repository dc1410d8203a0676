"""Commands about many jobs, and about topics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import typer

from .._errors import BadJob, BadOption
from ..client.jobs import Jobs, filter_of
from ..client.queue import JobQueue
from ..jobs.checks import did_you_mean
from ..jobs.durations import duration
from ..jobs.job import Job, State
from ..jobs.limits import LimitOverride
from ..jobs.queries import GetHistories, GetPage
from ..stores.pages import walk
from . import options as o
from .output import body_text, counted, due_time, job_record, note, on_terminal, progress

_BATCH = 2_000  # jobs in one transaction of a purge
_COUNTED = 500  # jobs in one query of a count


def list_(
    filter: o.Filter,
    on: o.Target,
    state: Annotated[State | None, typer.Option(help="In this state only.")] = None,
    after: Annotated[int, typer.Option(help="With an id above this one.")] = 0,
    limit: Annotated[int, typer.Option("--limit", "-n", help="The most to list.")] = 50,
) -> None:
    """List jobs by id."""
    words = filter.words
    with on.existing(keys=True) as queue:
        jobs = queue.jobs.list(state=state, **words, after=after, limit=limit)
    titles = ("id", "topic", "key", "state", "due", "attempt", "body", "error")
    on.emit_rows(titles, map(_row, jobs), [job_record(job) for job in jobs])
    if on_terminal() and len(jobs) == limit:
        note(f"there may be more: --after {jobs[-1].id}")


def _row(job: Job) -> tuple[Any, ...]:
    error = job.last_error or ""
    return job.id, job.topic, job.key or "", job.state, due_time(job.due), job.attempt, body_text(job.body), error


# ---- changes of many ------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Bulk(o.Target):
    """The options of a command that changes many jobs."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many it would be; change nothing.")] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False

    def emit_count(self, done: str, count: int) -> None:
        """Print how many jobs were changed, or would be."""
        text = f"{count} would be {done}" if self.dry_run else f"{count} {done}"
        self.emit({done: count} | ({"dry_run": True} if self.dry_run else {}), text)

    def change(self, what: str, done: str, method: Callable[..., int], words: dict[str, Any]) -> None:
        """Change the selected jobs, and print how many they were. Ask a person first."""
        with self.existing(keys=True) as queue:  # `list` looks into bodies with the same keys
            if words["topic"] is not None:
                _known(queue, words["topic"], ": pywheel counts lists them")
            count = None
            if self.dry_run or not self.yes:
                with progress("counting") as shown:
                    count = method(queue.jobs, **words, dry_run=True, progress=shown)
            if not self.dry_run:
                o.ask_first(what, count or 0, yes=self.yes)
                with counted(what, done, count) as shown:
                    count = method(queue.jobs, **words, progress=shown)
        self.emit_count(done, count or 0)


def cancel_many(filter: o.Filter, on: Bulk) -> None:
    """Cancel all delayed jobs that the options select; print how many."""
    on.change("cancel", "cancelled", Jobs.cancel_many, filter.words)


def retry_many(
    filter: o.Filter,
    on: Bulk,
    state: Annotated[State, typer.Option(help="dead, cancelled or done.")] = State.DEAD,
    delay: Annotated[str, typer.Option("--delay", "-d", help="From now.")] = "0s",
) -> None:
    """Make finished jobs that the options select delayed again, by default the dead ones; print how many."""
    on.change("retry", "retried", Jobs.retry_many, {"state": state, "delay": o.span(delay), **filter.words})


def delete_many(
    filter: o.Filter,
    on: Bulk,
    state: Annotated[State | None, typer.Option(help="In this state only; any but running.")] = None,
) -> None:
    """Delete all jobs that the options select and that are not running, with their history; print how many."""
    on.change("delete", "deleted", Jobs.delete_many, {"state": state, **filter.words})


def purge(
    on: Bulk,
    state: Annotated[State, typer.Option(help="done, dead or cancelled.")] = State.DONE,
    older_than: Annotated[
        str, typer.Option(help="Only jobs that ended at least this long ago: 7d, 12h; a number is seconds.")
    ] = "0s",
    topic: o.InTopic = None,
) -> None:
    """Delete finished jobs and their history; print how many."""
    if state.live:
        raise BadJob(f"only finished jobs are purged, those that are done, dead or cancelled, not {state}")
    age, total = duration(o.span(older_than), "--older-than"), 0
    with on.existing() as queue:
        if on.dry_run or not on.yes:
            total = _ended(queue, state, age, topic)
        if not on.dry_run:
            o.ask_first("forget", total, yes=on.yes)
            with counted("forget", "purged", total or None) as shown:
                total, gone, began = 0, 1, time.monotonic()
                while gone:  # jobs that end meanwhile are left: on a busy store there are always some
                    ago = timedelta(milliseconds=age + int(1000 * (time.monotonic() - began)))
                    gone = queue.jobs.purge(state, older_than=ago, topic=topic, limit=_BATCH)
                    total += gone
                    shown(total)
    on.emit_count("purged", total)


def _ended(queue: JobQueue, state: State, age: int, topic: str | None) -> int:
    """Return how many jobs ended in a state at least `age` ms ago. O(topics) if it is 0, else O(jobs in the state)."""
    if age == 0:
        return sum(getattr(states, state) for name, states in queue.topics.counts().items() if topic in (None, name))
    count, wanted = 0, filter_of(topic, state, {})
    latest = queue.store.clock.wall() - age
    with progress("counting") as shown:
        # The list ends once it has no more jobs: on a busy store others have always ended since.
        for page in walk(queue.store, wanted, GetPage(wanted, "", _COUNTED, preview=0)):
            histories = queue.store.ask(GetHistories([job.id for job in page]))
            count += sum(bool(each) and (each[-1].ended or 0) <= latest for each in histories)
            shown(count)
    return count


# ---- topics ---------------------------------------------------------------------------------------------------------


def counts(on: o.Target) -> None:
    """Count the jobs of each topic by state."""
    with on.existing() as queue:
        found = queue.topics.counts()
        paused = {topic.name for topic in queue.topics.list() if topic.paused}
    records = {topic: {**states._asdict(), "paused": topic in paused} for topic, states in found.items()}
    rows = [(topic, *states, "paused" if topic in paused else "") for topic, states in found.items()]
    on.emit_rows(("topic", *State, "paused"), rows, records)


def pause(
    topic: str,
    on: o.Target,
    create: Annotated[bool, typer.Option("--create", help="Also a topic that nothing was put to yet.")] = False,
) -> None:
    """Let no job of a topic start until it is resumed. After this command returns, none starts any more."""
    with on.opened() if create else on.existing() as queue:
        if not create:
            _known(queue, topic, "; --create pauses it all the same")
        changed = queue.topics.pause(topic)
    on.emit({"changed": changed}, "paused" if changed else "paused already")


def resume(topic: str, on: o.Target) -> None:
    """Let the jobs of a paused topic start again."""
    with on.existing() as queue:
        _known(queue, topic, "")
        changed = queue.topics.resume(topic)
    on.emit({"changed": changed}, "resumed" if changed else "not paused")


def limit(
    topic: str,
    on: o.Target,
    limit: Annotated[int | None, typer.Option("--limit", help="How many may run at once.")] = None,
    per: Annotated[
        str | None, typer.Option(help="With --limit, of each group: of keys that are the same up to this text.")
    ] = None,
    rate: Annotated[str | None, typer.Option(help="How many may begin in a period: 100/m, 5/s, 10/s burst 10.")] = None,
    none: Annotated[bool, typer.Option("--none", help="No limit and no rate.")] = False,
    as_code: Annotated[bool, typer.Option("--as-code", help="Go back to the limits in the workers' code.")] = False,
    create: Annotated[bool, typer.Option("--create", help="Also a topic that nothing was put to yet.")] = False,
) -> None:
    """Limit a topic in the whole store, instead of its code's limits; without options, print the limits that are set.

    Workers learn it within 2 seconds. Running jobs go on, and count. Options that are not given mean no limit.
    """
    override = LimitOverride(limit, per, rate)
    if (override != LimitOverride()) + none + as_code > 1:
        raise BadOption("give --limit and --rate, or --none, or --as-code")
    if per is not None and limit is None:
        raise BadOption("--per says of which group --limit is: give both")
    with on.opened() if create else on.existing() as queue:
        if not create and queue.topics.limits(topic) is None:
            _known(queue, topic, "; --create limits it all the same")
        if as_code:
            queue.topics.limit_as_code(topic)
        elif none or override != LimitOverride():
            queue.topics.limit(topic, **override.options)
        found = queue.topics.limits(topic)
    record = None if found is None else found._asdict()
    on.emit({"topic": topic, "limits": record}, "as its code says" if found is None else found.text)


def _known(queue: JobQueue, topic: str, otherwise: str) -> None:
    known = [known.name for known in queue.topics.list()]
    if topic not in known:
        raise o.No(f"there is no topic {topic[:80]!r}{did_you_mean(topic, known) or otherwise}")
