"""Jobs by topic, state, key, due time and error; and whole topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final, TypeAlias, TypedDict, Unpack

from .._errors import BadJob
from ..jobs.checks import MOST, name, whole
from ..jobs.commands import Cancel, Command, Delete, Pause, Purge, Retry
from ..jobs.durations import Duration, delay_ms, duration, moment
from ..jobs.job import Counts, Job, State, Topic, state_of
from ..jobs.queries import CountJobs, Filter, ListJobs, ListTopics
from ..stores.contract import Store, intact
from .base import Base

__all__ = ["ByFilter"]

_PAGE: Final = 250  # jobs in one transaction of a bulk call; their bodies are read as well
_QUIET: Final = 1.0  # seconds after which a worker that says nothing counts as gone
Jobs: TypeAlias = list[Job]  # within the class, `list` is a method
Topics: TypeAlias = list[Topic]
Progress: TypeAlias = Callable[[int], object]


class FilterWords(TypedDict, total=False):
    """What else a filter may say; `ByFilter` says what it means."""

    key: str | None
    due_from: datetime | None
    due_until: datetime | None
    error: str | None


class PageWords(FilterWords, total=False):
    """Which part of what a filter means."""

    after: int
    limit: int


class BulkWords(FilterWords, total=False):
    """How a bulk call goes about it."""

    dry_run: bool
    progress: Progress | None


class RetryWords(BulkWords, total=False):
    """And when what is retried is due."""

    delay: Duration


class ByFilter(Base):
    """What can be asked about many jobs, and done to them.

    All words of a filter must hold; one that is not given holds for every job.
    topic, state, key       exactly these
    due_from, due_until     due at or after, at or before these aware datetimes
    error                   the job's last error contains this text
    By topic, state and key a call costs by the jobs that it means. Due times and errors are looked at job by job.
    """

    def list(
        self,
        topic: str | None = None,
        state: State | str | None = None,
        *,
        key: str | None = None,
        due_from: datetime | None = None,
        due_until: datetime | None = None,
        error: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> Jobs:
        """Return up to `limit` jobs that a filter means, by id; the next page is `after` the last id.

        Raises:
            BadJob: an argument makes no sense.
        """
        wanted = _filter(topic, state, key, due_from, due_until, error)
        return self.store.ask(ListJobs(wanted, whole(after, "after", MOST, 0), whole(limit, "limit", MOST)))

    async def alist(
        self, topic: str | None = None, state: State | str | None = None, **words: Unpack[PageWords]
    ) -> Jobs:
        """`list`, for asyncio."""
        return await asyncio.to_thread(self.list, topic, state, **words)

    def cancel_many(
        self,
        topic: str | None = None,
        state: State | str = State.DELAYED,
        *,
        key: str | None = None,
        due_from: datetime | None = None,
        due_until: datetime | None = None,
        error: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Cancel the delayed jobs that a filter means; return how many.

        In batches, each of them one transaction: if an error ends the call, what `progress(how many so far)` was told
        has happened. With `dry_run` nothing changes, and the number is what it would have been now.

        Raises:
            BadJob: an argument makes no sense, such as another state than delayed.
        """
        wanted = _filter(topic, _one_of(state, State.DELAYED), key, due_from, due_until, error)
        return _sum(_each(self.store, wanted, lambda job: Cancel(job.id), dry_run=dry_run), progress)

    async def acancel_many(
        self, topic: str | None = None, state: State | str = State.DELAYED, **words: Unpack[BulkWords]
    ) -> int:
        """`cancel_many`, for asyncio."""
        return await asyncio.to_thread(self.cancel_many, topic, state, **words)

    def retry_many(
        self,
        topic: str | None = None,
        state: State | str = State.DEAD,
        *,
        key: str | None = None,
        due_from: datetime | None = None,
        due_until: datetime | None = None,
        error: str | None = None,
        delay: Duration = 0,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Retry the finished jobs that a filter means, the dead ones unless told; return how many. As `cancel_many`.

        Leaves out those whose key belongs to another live job by now.
        """
        finished = _one_of(state, State.DEAD, State.CANCELLED, State.DONE)
        wanted, wait = _filter(topic, finished, key, due_from, due_until, error), delay_ms(delay)
        return _sum(_each(self.store, wanted, lambda job: Retry(job.id, delay=wait), dry_run=dry_run), progress)

    async def aretry_many(
        self, topic: str | None = None, state: State | str = State.DEAD, **words: Unpack[RetryWords]
    ) -> int:
        """`retry_many`, for asyncio."""
        return await asyncio.to_thread(self.retry_many, topic, state, **words)

    def delete_many(
        self,
        topic: str | None = None,
        state: State | str | None = None,
        *,
        key: str | None = None,
        due_from: datetime | None = None,
        due_until: datetime | None = None,
        error: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Forget the jobs that a filter means and that are not running, and their history; return how many.

        As `cancel_many`. For what finished long ago `purge` is quicker.
        """
        if state is not None:
            state = _one_of(state, *(other for other in State if other is not State.RUNNING))
        wanted = _filter(topic, state, key, due_from, due_until, error)
        return _sum(_each(self.store, wanted, lambda job: Delete(job.id), dry_run=dry_run), progress)

    async def adelete_many(
        self, topic: str | None = None, state: State | str | None = None, **words: Unpack[BulkWords]
    ) -> int:
        """`delete_many`, for asyncio."""
        return await asyncio.to_thread(self.delete_many, topic, state, **words)

    # ---- topics -----------------------------------------------------------------------------------------------------

    def counts(self) -> dict[str, Counts]:
        """Return how many jobs each topic has in each state. O(topics + running jobs)."""
        return self.store.ask(CountJobs())

    async def acounts(self) -> dict[str, Counts]:
        """`counts`, for asyncio."""
        return await asyncio.to_thread(self.counts)

    def topics(self) -> Topics:
        """Return the topics, by name, and whether they are paused. O(topics)."""
        return self.store.ask(ListTopics())

    async def atopics(self) -> Topics:
        """`topics`, for asyncio."""
        return await asyncio.to_thread(self.topics)

    def pause(self, topic: str) -> bool:
        """Let no job of a topic start until `resume`; return whether it was not paused.

        Handlers that run go on. When this returns, nothing of the topic starts any more. It waits for the workers to
        confirm that, for a second at most: one that says nothing for so long counts as gone.
        """
        changed = self.apply(Pause(name(topic, "topic"), paused=True))
        self.store.quiet(topic, _QUIET)
        return changed

    async def apause(self, topic: str) -> bool:
        """`pause`, for asyncio."""
        return await asyncio.to_thread(self.pause, topic)

    def resume(self, topic: str) -> bool:
        """Let jobs of a topic start again; return whether it was paused."""
        return self.apply(Pause(name(topic, "topic"), paused=False))

    async def aresume(self, topic: str) -> bool:
        """`resume`, for asyncio."""
        return await self.aapply(Pause(name(topic, "topic"), paused=False))

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

        Raises:
            BadJob: an argument makes no sense, such as a state that is not done, dead or cancelled.
        """
        return self.apply(_purge(state, older_than, topic, limit))

    async def apurge(
        self,
        state: State | str = State.DONE,
        *,
        older_than: Duration = 0,
        topic: str | None = None,
        limit: int = 10_000,
    ) -> int:
        """`purge`, for asyncio."""
        return await self.aapply(_purge(state, older_than, topic, limit))


def _purge(state: State | str, older_than: Duration, topic: str | None, limit: int) -> Purge:
    finished = _one_of(state, State.DONE, State.DEAD, State.CANCELLED)
    where = None if topic is None else name(topic, "topic")
    return Purge(finished, duration(older_than, "older_than"), where, whole(limit, "limit", MOST))


def _filter(
    topic: str | None,
    state: State | str | None,
    key: str | None,
    due_from: datetime | None,
    due_until: datetime | None,
    error: str | None,
) -> Filter:
    if error is not None and not isinstance(error, str):
        raise BadJob(f"error must be a part of its text, not {type(error).__name__}")
    return Filter(
        None if topic is None else name(topic, "topic"),
        None if state is None else state_of(state),
        None if key is None else name(key, "key"),
        None if due_from is None else moment(due_from, "due_from"),
        None if due_until is None else moment(due_until, "due_until"),
        error,
    )


def _one_of(state: State | str, *allowed: State) -> State:
    wanted = state_of(state)
    if wanted not in allowed:
        raise BadJob(f"this is for jobs that are {' or '.join(allowed)}, not {wanted}")
    return wanted


def _each(store: Store, wanted: Filter, command: Callable[[Job], Command[bool]], *, dry_run: bool) -> Iterator[int]:
    """Apply a command to each job of a filter, batch by batch; yield how many it has changed after each."""
    after = changed = 0
    while page := store.ask(ListJobs(wanted, after, _PAGE)):
        after = page[-1].id
        if dry_run:
            changed += sum(job.state is not State.RUNNING for job in page)
        else:
            changed += sum(outcome is True for outcome in intact(store.apply([command(job) for job in page])))
        yield changed


def _sum(parts: Iterator[int], progress: Progress | None) -> int:
    changed = 0
    for changed in parts:
        if progress is not None:
            progress(changed)
    return changed
