"""Operators' calls: list, inspect, retry and delete jobs; pause and limit whole topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeAlias, TypedDict, Unpack

from .._errors import BadJob, BadOption, NoSuchJob
from ..jobs.checks import MOST, name, whole
from ..jobs.commands import Cancel, Change, Command, Delete, Pause, Purge, Ref, Retry, SetNote, called, reference
from ..jobs.durations import Duration, delay_ms, duration, moment
from ..jobs.job import PRIORITIES, Attempt, Counts, Job, State, Topic, state_of
from ..jobs.limits import Limit, LimitOverride, Rate, override_name
from ..jobs.new_job import EditOptions, edit, misspelt
from ..jobs.queries import CountJobs, Filter, GetHistories, GetJob, GetNote, ListTopics
from ..stores.contract import intact
from ..stores.pages import by_id, walk
from .calls import Applies, AsyncApplies, Calls, awaited, in_a_thread

_PAGE: Final = 250  # jobs in one transaction of a bulk call
_QUIET: Final = 3.0  # seconds: longer than a worker that stands still may start what it has claimed before
Page: TypeAlias = list[Job]  # within a class, `list` is a method
Attempts: TypeAlias = list[Attempt]
AllTopics: TypeAlias = list[Topic]
Progress: TypeAlias = Callable[[int], object]


class FilterWords(TypedDict, total=False):
    """The conditions of a filter, beside topic and state. A job must meet all conditions that are given.

    A filter by key, or by a topic or state with few jobs, costs O(jobs with these). If a topic or state has thousands
    of jobs, all jobs are looked through by id. All other conditions are checked job by job.

    Args:
        key: exactly this
        due_from: due at this aware datetime or after it
        due_until: due at this aware datetime or before it
        error: the job's last error contains this text
        text: the job's body contains this text; a body that is encrypted with another key does not match
        header: the job has this header, or with ``name=value`` this value of it
        worker: the id of the worker of its last attempt begins with this text
        priority: exactly this
    """

    key: str | None
    due_from: datetime | None
    due_until: datetime | None
    error: str | None
    text: str | None
    header: str | None
    worker: str | None
    priority: int | None


class PageWords(FilterWords, total=False):
    """A filter, and which page of its jobs to return."""

    after: int
    limit: int


class BulkWords(FilterWords, total=False):
    """A filter, and how a bulk call runs. With `dry_run` the call changes nothing, and returns what it would have."""

    dry_run: bool
    progress: Progress | None


class RetryWords(BulkWords, total=False):
    """The options of a bulk call, and the delay of the retried jobs."""

    delay: Duration


class Jobs(Applies):
    """The jobs of a queue, for operators. A call about one job is O(log jobs); `history` adds O(attempts).

    All methods raise BadJob for an argument that makes no sense, and StoreError if the store cannot do it. The bulk
    calls work in batches, one transaction each. If an error ends such a call, the changes that it has reported by
    `progress(how many so far)` are done.
    """

    def list(self, topic: str | None = None, state: State | str | None = None, **words: Unpack[PageWords]) -> Page:
        """Return up to `limit` jobs (default: 100) that match a filter, by id.

        For the next page pass the last id as `after`. `FilterWords` describes the filter.
        """
        after, limit = words.pop("after", 0), words.pop("limit", 100)
        wanted = filter_of(topic, state, words)
        query = by_id(wanted, whole(after, "after", MOST, 0), whole(limit, "limit", MOST))
        jobs = Page()
        for some in walk(self._calls.store, wanted, query):
            jobs += some
            if len(jobs) >= limit:
                break
        return jobs[:limit]

    def history(self, ref: Ref | Job) -> Attempts:
        """Return the attempts of a job, oldest first, including the current one. NoSuchJob if there is no such job."""
        return self._calls.store.ask(GetHistories([found(self._calls, ref).id]))[0]

    def edit(
        self, ref: Ref | Job, *, expect: Job | None = None, connection: object = None, **options: Unpack[EditOptions]
    ) -> Change:
        """Change a delayed job in place; return MADE, or the reason why not.

        The job keeps its id, its key, its attempts, and every option that is not given. After MADE every handler gets
        the edited job. A claimed job is not edited: its handler may have read it.

        Args:
            ref: the job.
            expect: the Job as you last read it. The outcome is CHANGED if it was edited, moved, replaced or claimed
                since.
            connection: your own, with a transaction open, as for `JobQueue.put`. With encryption, name a job that the
                same transaction has put by its key.
            options: `body`, `delay` or `at`, `priority`, `headers`, `ttr`, `max_attempts`, `expires`: as for
                `JobQueue.put`. New headers replace all old ones.

        Raises:
            BadJob: no option is given, or an argument makes no sense.
        """
        return self._apply(edit(self._calls.max_body, ref, expect, **options), connection)

    def retry(self, ref: Ref | Job, delay: Duration = 0) -> Change:
        """Make a finished job delayed again, with all its attempts; return MADE, or the reason why not.

        Raises JobExists if another live job has its key by now.
        """
        return self._apply(Retry(reference(ref), delay=delay_ms(delay)))

    def delete(self, ref: Ref | Job) -> Change:
        """Delete a job that is not running, and its history; return MADE, or the reason why not."""
        return self._apply(Delete(reference(ref)))

    def cancel_many(
        self, topic: str | None = None, state: State | str = State.DELAYED, **words: Unpack[BulkWords]
    ) -> int:
        """Cancel the delayed jobs that match a filter; return how many."""
        return self._change(topic, _one_of(state, State.DELAYED), lambda job: Cancel(job.id), words)

    def retry_many(self, topic: str | None = None, state: State | str = State.DEAD, **words: Unpack[RetryWords]) -> int:
        """Retry the finished jobs that match a filter (default: the dead ones); return how many.

        A job is left out if another live job has its key by now.
        """
        wait = delay_ms(words.pop("delay", 0))
        finished = _one_of(state, State.DEAD, State.CANCELLED, State.DONE)
        return self._change(topic, finished, lambda job: Retry(job.id, delay=wait), words)

    def delete_many(
        self, topic: str | None = None, state: State | str | None = None, **words: Unpack[BulkWords]
    ) -> int:
        """Delete the jobs that match a filter and are not running, and their history; return how many.

        `purge` is quicker for jobs that ended long ago.
        """
        if state is not None:
            state = _one_of(state, *(other for other in State if other is not State.RUNNING))
        return self._change(topic, state, lambda job: Delete(job.id), words)

    def purge(
        self,
        state: State | str = State.DONE,
        *,
        older_than: Duration = 0,
        topic: str | None = None,
        limit: int = 10_000,
    ) -> int:
        """Delete up to `limit` jobs in a finished state that ended at least `older_than` ago; return how many.

        Their history goes with them. One transaction: O(log jobs + deleted jobs), for dead jobs O(dead and running
        jobs).
        """
        finished = _one_of(state, State.DONE, State.DEAD, State.CANCELLED)
        where = None if topic is None else name(topic, "topic")
        return self._apply(Purge(finished, duration(older_than, "older_than"), where, whole(limit, "limit", MOST)))

    def _change(
        self, topic: str | None, state: State | str | None, command: Callable[[Job], Command[Change]], words: BulkWords
    ) -> int:
        """Apply a command to each job that matches a filter, batch by batch; return how many jobs it changed."""
        dry_run, progress = words.pop("dry_run", False), words.pop("progress", None)
        store, wanted = self._calls.store, filter_of(topic, state, words)
        changed = 0
        # The list ends once it has no more jobs: those that are put later are left, as there may always be some.
        query = replace(by_id(wanted, 0, _PAGE), limit=_PAGE, preview=None if wanted.text else 0)
        for page in walk(store, wanted, query):
            if dry_run:
                changed += sum(job.state is not State.RUNNING for job in page)
            else:
                outcomes = intact(store.apply([command(job) for job in page]))
                changed += sum(outcome is Change.MADE for outcome in outcomes)
            if progress is not None:
                progress(changed)
        return changed


class Topics(Applies):
    """The topics of a queue, for operators."""

    def list(self) -> AllTopics:
        """Return all topics by name, each with whether it is paused. O(topics)."""
        return self._calls.store.ask(ListTopics())

    def counts(self) -> dict[str, Counts]:
        """Return how many jobs each topic has in each state. O(topics + running jobs)."""
        return self._calls.store.ask(CountJobs())

    def pause(self, topic: str) -> bool:
        """Let no job of a topic start until `resume`; return False if the topic was paused already.

        Running handlers go on. Once this returns, no job of the topic starts. The call waits for the workers to confirm
        that; for one that stands still it waits 3 s, after which that one starts nothing that it has claimed before.
        """
        changed = self._apply(Pause(name(topic, "topic"), paused=True))
        self._calls.store.quiet(topic, _QUIET)
        return changed

    def resume(self, topic: str) -> bool:
        """Let jobs of a topic start again; return whether it was paused."""
        return self._apply(Pause(name(topic, "topic"), paused=False))

    def limits(self, topic: str) -> LimitOverride | None:
        """Return the limits that a call has set for a topic; None if the limits in its code apply."""
        return LimitOverride.read(self._calls.store.ask(GetNote(override_name(name(topic, "topic")))))

    def limit(self, topic: str, *, limit: int | Limit | None, rate: str | Rate | None) -> bool:
        """Limit a topic in the whole store, whatever its code says; return whether that changed anything.

        `limit` and `rate` mean what they mean for a handler; None for both removes every limit. The setting lasts until
        the next call, or until `limit_as_code`. Workers apply it within 2 seconds. Running jobs go on, and count.

        Raises:
            BadOption: a limit or rate makes no sense, or the store consists of several.
        """
        override = LimitOverride.of(limit, rate)
        if not self._calls.store.keeps_limits:
            raise BadOption("limits want one store, and this is several")
        return self._apply(SetNote(override_name(name(topic, "topic")), override.note)) != override.note

    def limit_as_code(self, topic: str) -> bool:
        """Let the limits in a topic's code apply again; return whether others were set."""
        return self._apply(SetNote(override_name(name(topic, "topic")), None)) is not None


class AsyncJobs(AsyncApplies):
    """The methods of `Jobs`, awaited."""

    def __init__(self, calls: Calls) -> None:
        self._calls, self._sync = calls, Jobs(calls)

    list = in_a_thread(Jobs.list)
    history = in_a_thread(Jobs.history)
    edit = awaited(Jobs.edit)
    retry = awaited(Jobs.retry)
    delete = awaited(Jobs.delete)
    cancel_many = in_a_thread(Jobs.cancel_many)
    retry_many = in_a_thread(Jobs.retry_many)
    delete_many = in_a_thread(Jobs.delete_many)
    purge = awaited(Jobs.purge)


class AsyncTopics(AsyncApplies):
    """The methods of `Topics`, awaited."""

    def __init__(self, calls: Calls) -> None:
        self._calls, self._sync = calls, Topics(calls)

    list = in_a_thread(Topics.list)
    counts = in_a_thread(Topics.counts)
    pause = in_a_thread(Topics.pause)
    resume = awaited(Topics.resume)
    limits = in_a_thread(Topics.limits)
    limit = in_a_thread(Topics.limit)
    limit_as_code = in_a_thread(Topics.limit_as_code)


def found(calls: Calls, ref: Ref | Job) -> Job:
    """Return a job as it is now. NoSuchJob if there is none, BadJob if the reference makes no sense."""
    job = calls.store.ask(GetJob(reference(ref)))
    if job is None:
        raise NoSuchJob(f"there is no job {called(ref)}")
    return job


def filter_of(topic: str | None, state: State | str | None, words: FilterWords) -> Filter:
    """Return the filter that these conditions describe. BadJob if one makes no sense."""
    misspelt(words, _CHECKS.keys(), "a filter")
    said = {"topic": topic, "state": state, **words}
    return Filter(**{word: check(said[word], word) for word, check in _CHECKS.items() if said.get(word) is not None})


# An empty text is refused: a variable that a script has not set would match every job.
_CHECKS: Final[dict[str, Callable[[Any, str], Any]]] = {
    **dict.fromkeys(("topic", "key", "text", "header", "worker"), name),
    **dict.fromkeys(("due_from", "due_until"), moment),
    "state": lambda state, _: state_of(state),
    "error": lambda error, _: name(error, "part of an error"),
    "priority": lambda priority, word: whole(priority, word, PRIORITIES, -PRIORITIES),
}


def _one_of(state: State | str, *allowed: State) -> State:
    wanted = state_of(state)
    if wanted not in allowed:
        raise BadJob(f"this is for jobs that are {' or '.join(allowed)}, not {wanted}")
    return wanted
