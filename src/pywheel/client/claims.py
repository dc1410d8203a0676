"""For programs with a loop of their own: claim jobs, and settle them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from .._errors import BadBody, BadJob
from ..jobs.checks import name, whole
from ..jobs.commands import Ack, ClaimPolicy, Nack, Release, Reserve, Touch
from ..jobs.durations import Duration, delay_ms, duration
from ..jobs.handler import kept
from ..jobs.job import Job, State
from ..jobs.retry import DEFAULT, RetryPolicy, after_losses, checked
from ..stores.contract import Store
from .base import Base

__all__ = ["Claims"]

_RESERVER: Final = "reserve"
_MOST: Final = 1_000_000  # jobs in one claim
_MOST_SEALED: Final = 1_000  # jobs that a reserve looks past


class Claims(Base):
    """Claims by hand."""

    def reserve(self, topic: str, limit: int = 1, *, ttr: Duration = 60, retry: RetryPolicy | None = None) -> list[Job]:
        """Claim up to `limit` due jobs, by (due, id); return them, [] if none is due. Never waits for one.

        Each is leased for its own ttr, or this one. Settle it with `ack` or `nack` before `job.lease_until`: what is
        not settled by then is due again: at once, or with `retry` after its delay for that attempt. How often a job is
        tried that does not say itself is what `retry` says, or 10 times.
        No two callers get the same job. O(log jobs) each, and one commit.

        Jobs whose bodies cannot be read here, as a key is missing, are looked past, and stay as they were.

        Raises:
            BadJob: an argument makes no sense.
            NoKey, BadBody: jobs are due, and none of them can be read.
        """
        return self.claim(_reserve(topic, limit, ttr, retry))

    def claim(self, command: Reserve) -> list[Job]:
        """`reserve`, by a command: for those who make it themselves."""
        turn = _Turn(self.store, command)
        try:
            again = True
            while again:
                jobs = self.apply(turn.command)
                again = turn.more(jobs)
        finally:
            if turn.sealed:
                self.store.apply(turn.releases())
        return turn.jobs()

    async def areserve(
        self, topic: str, limit: int = 1, *, ttr: Duration = 60, retry: RetryPolicy | None = None
    ) -> list[Job]:
        """`reserve`, for asyncio. A task that is cancelled meanwhile gives back what it got before it ends."""
        return await self.aclaim(_reserve(topic, limit, ttr, retry))

    async def aclaim(self, command: Reserve) -> list[Job]:
        """`claim`, for asyncio, as `areserve` is."""
        turn = _Turn(self.store, command)
        while True:
            claim = self._batches.add(turn.command)
            try:
                again = turn.more(await asyncio.shield(claim))
            except asyncio.CancelledError:
                await _uninterrupted([claim])
                if claim.exception() is None:
                    turn.more(claim.result())
                await self._areleased(turn.releases(everything=True))
                raise
            except BaseException:
                await self._areleased(turn.releases())
                raise
            if not again:
                await self._areleased(turn.releases())
                return turn.jobs()

    async def _areleased(self, releases: Sequence[Release]) -> None:
        await _uninterrupted([self._batches.add(release) for release in releases])

    def ack(self, job: Job) -> bool:
        """Make a claimed job done; return whether the claim held. False: the job is or will be delivered again."""
        return self.apply(Ack(*_receipt(job)))

    async def aack(self, job: Job) -> bool:
        """`ack`, for asyncio."""
        return await self.aapply(Ack(*_receipt(job)))

    def nack(self, job: Job, delay: Duration | None = 0, *, error: str | None = None) -> State | None:
        """End a claim without success: delayed again, or dead if no attempt is left or `delay` is None.

        Return the new state. None: the lease was lost, nothing changed. `delay` is None or as for `put`.
        """
        return self.apply(_nack(job, delay, error))

    async def anack(self, job: Job, delay: Duration | None = 0, *, error: str | None = None) -> State | None:
        """`nack`, for asyncio."""
        return await self.aapply(_nack(job, delay, error))

    def release(self, job: Job) -> bool:
        """Give a claim back, due as before, no attempt spent; return whether it held. False changes nothing."""
        return self.apply(Release(*_receipt(job)))

    async def arelease(self, job: Job) -> bool:
        """`release`, for asyncio."""
        return await self.aapply(Release(*_receipt(job)))

    def touch(self, job: Job, ttr: Duration = 60) -> bool:
        """Let a claim's lease end `ttr` from now, more than 0; return whether it held. False changes nothing."""
        return self.apply(Touch(*_receipt(job), duration(ttr, "ttr", 1)))

    async def atouch(self, job: Job, ttr: Duration = 60) -> bool:
        """`touch`, for asyncio."""
        return await self.aapply(Touch(*_receipt(job), duration(ttr, "ttr", 1)))


class _Turn:
    """What a reserve has got so far: jobs, and those that cannot be read, claimed meanwhile so that others come."""

    def __init__(self, store: Store, command: Reserve) -> None:
        self.command = command
        """What is asked for next."""
        self._most, self._least = command.bytes, command.least
        self._opened = store.opened
        self._got: list[Job] = []
        self._error: BadBody | None = None
        self.sealed: list[Job] = []

    def more(self, jobs: Sequence[Job]) -> bool:
        """Take jobs in; return whether to reserve more, as some could not be read."""
        before = len(self.sealed)
        for job in jobs:
            try:
                self._got.append(self._opened(job))
            except BadBody as error:
                self._error = self._error or error
                self.sealed.append(job._replace(body=b""))  # there may be many, and they are only given back
        wanted = self.command.limit - len(jobs) + len(self.sealed) - before
        self.command = replace(self.command, limit=wanted)
        if self._most is not None:
            self.command.bytes = self._most - sum(len(job.body) for job in self._got)
            self.command.least = self._least - len(self._got)
        return before < len(self.sealed) < _MOST_SEALED and wanted > 0

    def releases(self, *, everything: bool = False) -> list[Release]:
        """Return what gives back those that cannot be read, or everything."""
        return [Release(job.id, job.claims) for job in (*self.sealed, *(self._got if everything else ()))]

    def jobs(self) -> list[Job]:
        """Return the jobs. NoKey, BadBody."""
        if self._error is not None and not self._got:
            raise self._error
        return self._got


def _receipt(job: Job) -> tuple[int, int]:
    """Return what names a claim. BadJob for what was not claimed."""
    if not isinstance(job, Job):
        raise BadJob(f"give the job that reserve returned, not {type(job).__name__}: its id alone names no claim")
    return job.id, job.claims


def _reserve(topic: str, limit: int, ttr: Duration, retry: RetryPolicy | None) -> Reserve:
    if retry is None:
        policy = ClaimPolicy(duration(ttr, "ttr", 1), DEFAULT.max_attempts)
    else:
        policy = ClaimPolicy(duration(ttr, "ttr", 1), checked(retry).max_attempts, *after_losses(retry))
    return Reserve(name(topic, "topic"), whole(limit, "limit", _MOST), policy, _RESERVER)


def _nack(job: Job, delay: Duration | None, error: str | None) -> Nack:
    wait = None if delay is None else delay_ms(delay)
    return Nack(*_receipt(job), wait, None if error is None else kept(error))


async def _uninterrupted(futures: Sequence[asyncio.Future[Any]]) -> None:
    """Wait for futures, also while the task is cancelled again; their errors are nobody's."""
    while any(not future.done() for future in futures):
        with suppress(asyncio.CancelledError):
            await asyncio.wait(futures)
    for future in futures:
        future.exception()
