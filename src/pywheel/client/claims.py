"""The commands for claims by hand: reserving jobs, and ending claims as failed. For both kinds of queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from .._errors import BadBody, BadJob, StoreError
from ..jobs.commands import Cancel, Command, Nack, Release, Reserve
from ..jobs.durations import Duration, delay_ms
from ..jobs.handler import RaisedElsewhere, kept
from ..jobs.job import Job
from ..jobs.retry import RetryPolicy, asked
from ..stores.contract import Store
from .calls import Calls

_MOST_SEALED: Final = 1_000  # unreadable jobs that a reserve skips
_MOST_LATE: Final = 500  # jobs of one turn, after a turn of expired ones


def reserve(calls: Calls, command: Reserve) -> list[Job]:
    """Return the jobs of a reserve that can be read here; unreadable ones stay as they were. NoKey, BadBody."""
    turn = _Turn(calls.store, command)

    def settle(commands: Sequence[Command[Any]]) -> None:
        with suppress(StoreError):  # otherwise the job is due again when its lease ends
            if commands:
                calls.store.apply(commands)

    again = True
    while again:
        try:
            jobs: list[Job] = calls.apply(turn.command)
        except BaseException:
            settle(turn.releases(everything=True))
            raise
        again = turn.more(jobs)
        settle([*turn.drops(), *(() if again else turn.releases())])
    return turn.jobs()


async def reserve_async(calls: Calls, command: Reserve) -> list[Job]:
    """`reserve`, for asyncio. A task that is cancelled meanwhile gives its claims back before it ends."""
    turn = _Turn(calls.store, command)

    async def settle(commands: Sequence[Command[Any]]) -> bool:
        return await _uninterrupted([calls.batches.add(command) for command in commands])

    while True:
        claim = calls.batches.add(turn.command)
        try:
            again = turn.more(await asyncio.shield(claim))
        except asyncio.CancelledError:
            await _uninterrupted([claim])
            if claim.exception() is None:
                turn.more(claim.result())
            await settle([*turn.drops(), *turn.releases(everything=True)])
            raise
        except BaseException:
            await settle(turn.releases(everything=True))
            raise
        if await settle([*turn.drops(), *(() if again else turn.releases())]):
            await settle(turn.releases(everything=True))
            raise asyncio.CancelledError
        if not again:
            return turn.jobs()


class _Turn:
    """The jobs that a reserve has claimed so far. Unreadable ones stay claimed meanwhile, so that others come.

    Expired jobs are cancelled at once: there may be many, and the next jobs are behind them. While a turn brings
    nothing but expired jobs, the next one asks for twice as many. Surplus jobs are released.
    """

    def __init__(self, store: Store, command: Reserve) -> None:
        self.command = command
        """The next request."""
        self._limit, self._most, self._least = command.limit, command.bytes, command.least
        self._opened = store.opened
        self._clock = store.clock
        self._got: list[Job] = []
        self._error: BadBody | None = None
        self.sealed: list[Job] = []
        self._dropped: list[Command[Any]] = []

    def more(self, jobs: Sequence[Job]) -> bool:
        """Take jobs in; return whether to reserve more, because some cannot be handed out."""
        before, had, late = len(self.sealed), len(self._got), 0
        now = self._clock.wall()
        for job in jobs:
            if job.expired(now):
                late += 1
                self._dropped += [Release(job.id, job.claims), Cancel(job.id, (job.due, job.claims))]
                continue
            if len(self._got) >= self._limit:
                self._dropped.append(Release(job.id, job.claims))
                continue
            try:
                self._got.append(self._opened(job))
            except BadBody as error:
                self._error = self._error or error
                self.sealed.append(job._replace(body=b""))  # there may be many, and they are only released
        wanted = self._limit - len(self._got)
        more = min(2 * late, _MOST_LATE) if late == len(jobs) else 0
        self.command = replace(self.command, limit=max(wanted, more))
        if self._most is not None:
            self.command.bytes = self._most - sum(len(job.body) for job in self._got)
            self.command.least = self._least - len(self._got)
        left = len(jobs) - (len(self._got) - had)
        return left > 0 and wanted > 0 and (before == len(self.sealed) or len(self.sealed) < _MOST_SEALED)

    def drops(self) -> list[Command[Any]]:
        """Return the commands that cancel expired jobs and release surplus ones, since the last call."""
        drops, self._dropped = self._dropped, []
        return drops

    def releases(self, *, everything: bool = False) -> list[Release]:
        """Return the commands that release the unreadable jobs, or all jobs."""
        return [Release(job.id, job.claims) for job in (*self.sealed, *(self._got if everything else ()))]

    def jobs(self) -> list[Job]:
        """Return the jobs to hand out. NoKey, BadBody if all are unreadable."""
        if self._error is not None and not self._got:
            raise self._error
        return self._got


def receipt(job: Job) -> tuple[int, int]:
    """Return the id and the number that name a claim. BadJob if this is not a Job."""
    if not isinstance(job, Job):
        raise BadJob(f"give the job that reserve returned, not {type(job).__name__}: its id alone names no claim")
    return job.id, job.claims


def nacking(job: Job, delay: Duration | None, error: str | None, retry: RetryPolicy | None) -> Nack:
    """Return the command that ends a claim as failed: due after the delay, or as the policy says; dead without both."""
    claim = receipt(job)
    text = None if error is None else kept(error)
    if delay is not None or retry is None:
        return Nack(*claim, None if delay is None else delay_ms(delay), text)
    wait, wrong = asked(retry, job, None if text is None else RaisedElsewhere(text))
    if wrong is not None:
        text = kept(wrong if text is None else f"{text} ({wrong:.400})")
    return Nack(*claim, wait, text)


async def _uninterrupted(futures: Sequence[asyncio.Future[Any]]) -> bool:
    """Wait for futures, even while the task is cancelled; return whether it was. Their errors are ignored."""
    cancelled = False
    while any(not future.done() for future in futures):
        try:
            await asyncio.wait(futures)
        except asyncio.CancelledError:
            cancelled = True
    for future in futures:
        future.exception()
    return cancelled
