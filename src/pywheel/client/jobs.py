"""Jobs as operators see them: listed by a filter, looked into, tried again, forgotten. And whole topics."""

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
from ..jobs.queries import PAGE_MOST, CountJobs, Filter, GetHistories, GetJob, GetNote, ListJobs, ListTopics
from ..stores.contract import intact
from ..stores.pages import meant
from .calls import Applies, AsyncApplies, Calls, awaited, in_a_thread

__all__ = ["AsyncJobs", "AsyncTopics", "FilterWords", "Jobs", "Topics", "filter_of", "found"]

_PAGE: Final = 250  # jobs in one transaction of a bulk call; their bodies are read as well
_QUIET: Final = 1.0  # seconds after which a worker that says nothing counts as gone
Page: TypeAlias = list[Job]  # within a class, `list` is a method
Attempts: TypeAlias = list[Attempt]
AllTopics: TypeAlias = list[Topic]
Progress: TypeAlias = Callable[[int], object]


class FilterWords(TypedDict, total=False):
    """What a filter may say, beside topic and state. All words must hold; one that is not given holds for every job.

    By topic, state and key a call costs by the jobs that it means. All else is looked at job by job.

    Args:
        key: exactly this
        due_from: due at this aware datetime or after it
        due_until: due at this aware datetime or before it
        error: the job's last error contains this text
        text: the job's body contains this text; not of one that is encrypted with another key
        header: the job has this header, or with ``name=value`` this value of it
        worker: the worker of its last attempt has an id that begins so
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
    """Which part of what a filter means."""

    after: int
    limit: int


class BulkWords(FilterWords, total=False):
    """How a bulk call goes about it. With `dry_run` nothing changes: the number is what it would have been now."""

    dry_run: bool
    progress: Progress | None


class RetryWords(BulkWords, total=False):
    """And when what is retried is due."""

    delay: Duration


class Jobs(Applies):
    """The jobs of a queue, for operators. Each call about one job is O(log jobs), a history also by its rows.

    Each raises BadJob for an argument that makes no sense, and StoreError if the store cannot do it. A change of many
    goes on in batches, each of them one transaction: if an error ends the call, what `progress(how many so far)` was
    told has happened.
    """

    def list(self, topic: str | None = None, state: State | str | None = None, **words: Unpack[PageWords]) -> Page:
        """Return up to `limit` jobs, 100 unless told, that a filter means, by id.

        The next page is `after` the last id. `FilterWords` says what the words mean.
        """
        after, limit = words.pop("after", 0), words.pop("limit", 100)
        wanted, store = filter_of(topic, state, words), self._calls.store
        query = ListJobs(wanted.plain, whole(after, "after", MOST, 0), whole(limit, "limit", MOST))
        if wanted == wanted.plain:
            return store.ask(query)
        jobs = Page()
        while len(jobs) < limit and (some := store.ask(replace(query, after=after, limit=PAGE_MOST))):
            jobs, after = jobs + meant(store, wanted, some), some[-1].id
        return jobs[:limit]

    def history(self, ref: Ref | Job) -> Attempts:
        """Return what was tried with a job, oldest first, the present attempt too. NoSuchJob if there is none."""
        return self._calls.store.ask(GetHistories([found(self._calls, ref).id]))[0]

    def edit(
        self, ref: Ref | Job, *, expect: Job | None = None, connection: object = None, **options: Unpack[EditOptions]
    ) -> Change:
        """Change a delayed job where it stands; return MADE, or what stood in the way.

        It keeps its id, its key and its attempts, and all that is not given. After MADE every handler gets the edited
        job. A claimed job is not edited: its handler may have read it.

        Args:
            ref: the job.
            expect: the Job as you have seen it: CHANGED if it was edited, moved, replaced or claimed since.
            connection: yours, with a transaction, as for `JobQueue.put`. Where bodies are encrypted, one that the same
                transaction has put goes by its key.
            options: `body`, `delay` or `at`, `priority`, `headers`, `ttr`, `max_attempts`, `expires`: as for
                `JobQueue.put`. Headers come in place of all that there were.

        Raises:
            BadJob: nothing is given, or it makes no sense.
        """
        return self._apply(edit(self._calls.max_body, ref, expect, **options), connection)

    def retry(self, ref: Ref | Job, delay: Duration = 0) -> Change:
        """Make a finished job delayed again, with all its attempts; return MADE, or what stood in the way.

        JobExists: its key belongs to another live job by now.
        """
        return self._apply(Retry(reference(ref), delay=delay_ms(delay)))

    def delete(self, ref: Ref | Job) -> Change:
        """Forget a job that is not running, and its history; return MADE, or what stood in the way."""
        return self._apply(Delete(reference(ref)))

    def cancel_many(
        self, topic: str | None = None, state: State | str = State.DELAYED, **words: Unpack[BulkWords]
    ) -> int:
        """Cancel the delayed jobs that a filter means; return how many."""
        return self._change(topic, _one_of(state, State.DELAYED), lambda job: Cancel(job.id), words)

    def retry_many(self, topic: str | None = None, state: State | str = State.DEAD, **words: Unpack[RetryWords]) -> int:
        """Retry the finished jobs that a filter means, the dead ones unless told; return how many.

        Leaves out those whose key belongs to another live job by now.
        """
        wait = delay_ms(words.pop("delay", 0))
        finished = _one_of(state, State.DEAD, State.CANCELLED, State.DONE)
        return self._change(topic, finished, lambda job: Retry(job.id, delay=wait), words)

    def delete_many(
        self, topic: str | None = None, state: State | str | None = None, **words: Unpack[BulkWords]
    ) -> int:
        """Forget the jobs that a filter means and that are not running, and their history; return how many.

        For what finished long ago `purge` is quicker.
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
        """Forget up to `limit` finished jobs of a state that ended so long ago, and their history; return how many.

        One transaction. O(log jobs + what is forgotten), for dead jobs O(dead and running jobs).
        """
        finished = _one_of(state, State.DONE, State.DEAD, State.CANCELLED)
        where = None if topic is None else name(topic, "topic")
        return self._apply(Purge(finished, duration(older_than, "older_than"), where, whole(limit, "limit", MOST)))

    def _change(
        self, topic: str | None, state: State | str | None, command: Callable[[Job], Command[Change]], words: BulkWords
    ) -> int:
        """Apply a command to each job of a filter, batch by batch; return how many it has changed."""
        dry_run, progress = words.pop("dry_run", False), words.pop("progress", None)
        store, wanted = self._calls.store, filter_of(topic, state, words)
        after = changed = 0
        while some := store.ask(ListJobs(wanted.plain, after, _PAGE)):
            page, after = meant(store, wanted, some), some[-1].id
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
        """Return the topics, by name, and whether they are paused. O(topics)."""
        return self._calls.store.ask(ListTopics())

    def counts(self) -> dict[str, Counts]:
        """Return how many jobs each topic has in each state. O(topics + running jobs)."""
        return self._calls.store.ask(CountJobs())

    def pause(self, topic: str) -> bool:
        """Let no job of a topic start until `resume`; return whether it was not paused.

        Handlers that run go on. When this returns, nothing of the topic starts any more. It waits for the workers to
        confirm that, for a second at most: one that says nothing for so long counts as gone.
        """
        changed = self._apply(Pause(name(topic, "topic"), paused=True))
        self._calls.store.quiet(topic, _QUIET)
        return changed

    def resume(self, topic: str) -> bool:
        """Let jobs of a topic start again; return whether it was paused."""
        return self._apply(Pause(name(topic, "topic"), paused=False))

    def limits(self, topic: str) -> LimitOverride | None:
        """Return the limits that were set for a topic; None if it goes by those of its code."""
        return LimitOverride.read(self._calls.store.ask(GetNote(override_name(name(topic, "topic")))))

    def limit(self, topic: str, *, limit: int | Limit | None, rate: str | Rate | None) -> bool:
        """Limit a topic in the whole store, whatever its code says; return whether that is new.

        Both words mean what they mean for a handler; None for both: no limit at all. It holds until the next call,
        `limit_as_code`, or for ever. Workers hear of it within 2 seconds. What runs goes on, and counts.

        Raises:
            BadOption: a limit or rate makes no sense, or the store is several.
        """
        override = LimitOverride.of(limit, rate)
        if not self._calls.store.keeps_limits:
            raise BadOption("limits want one store, and this is several")
        return self._apply(SetNote(override_name(name(topic, "topic")), override.note)) != override.note

    def limit_as_code(self, topic: str) -> bool:
        """Let a topic have the limits of its code again; return whether others were set."""
        return self._apply(SetNote(override_name(name(topic, "topic")), None)) is not None


class AsyncJobs(AsyncApplies):
    """`Jobs`, awaited."""

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
    """`Topics`, awaited."""

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
    """Return a job as it is now. NoSuchJob if there is none, BadJob if this names no job."""
    job = calls.store.ask(GetJob(reference(ref)))
    if job is None:
        raise NoSuchJob(f"there is no job {called(ref)}")
    return job


def filter_of(topic: str | None, state: State | str | None, words: FilterWords) -> Filter:
    """Return what these words say. BadJob: they make no sense."""
    misspelt(words, _CHECKS.keys(), "a filter")
    said = {"topic": topic, "state": state, **words}
    return Filter(**{word: check(said[word], word) for word, check in _CHECKS.items() if said.get(word) is not None})


def _error(error: Any, _: str) -> str:
    if not isinstance(error, str):
        raise BadJob(f"error must be a text, not {type(error).__name__}")
    return error


# A text is not empty: a variable that a script has not set would mean every job.
_CHECKS: Final[dict[str, Callable[[Any, str], Any]]] = {
    **dict.fromkeys(("topic", "key", "text", "header", "worker"), name),
    **dict.fromkeys(("due_from", "due_until"), moment),
    "state": lambda state, _: state_of(state),
    "error": _error,
    "priority": lambda priority, word: whole(priority, word, PRIORITIES, -PRIORITIES),
}


def _one_of(state: State | str, *allowed: State) -> State:
    wanted = state_of(state)
    if wanted not in allowed:
        raise BadJob(f"this is for jobs that are {' or '.join(allowed)}, not {wanted}")
    return wanted
