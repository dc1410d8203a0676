"""Reserve jobs, and settle them by their receipts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import UNSET
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ..._errors import BadBody, PywheelError, StoreError
from ...client.claims import reserve_async
from ...jobs import commands
from ...jobs.durations import delay_ms, duration
from ...jobs.handler import kept
from ...jobs.job import Job, State
from ...jobs.queries import GetJob, GetNextDues
from ...jobs.retry import DEFAULT
from ...stores.contract import Store
from ..context import Context
from ..problems import Problem, checked
from .call import Call, Ends, JsonResponse
from .once import UNDER_WAY
from .records import jobs_out, receipt_of, reserved
from .schema import Claims, Nack, NackAnswer, Reserve
from .waiting import Waiter, end_lost

# ---- reserve --------------------------------------------------------------------------------------------------------


async def reserve(call: Call) -> Response:
    """Claim due jobs, and wait for some if there are none. If the answer fails, the claims are given back."""
    wish: Reserve = call.wish
    topics = tuple(dict.fromkeys(wish.topics))
    for topic in topics:
        call.demand(topic)
    ttr = checked("ttr", duration, wish.ttr, "ttr", 1)
    wait = min(checked("wait", duration, wish.wait, "wait") / 1000, call.context.limits.wait)
    policy = commands.ClaimPolicy(ttr, wish.max_attempts or DEFAULT.max_attempts)
    wanted = _Wanted(call.context, topics, wish.limit, policy, wish.worker)
    try:
        if wait > 0:
            with call.context.waits.place(call.grant.id):
                await _long(call, wanted, wait)
        else:
            await wanted.claim()
        if not wanted.jobs:
            wanted.refuse_sealed()
            return Response(status_code=204)
        call.claims, call.keep = [(job.id, job.claims) for job in wanted.jobs], ttr + UNDER_WAY
        return await _given(call, wanted.jobs, more=await wanted.more())
    except BaseException:
        await _give_back(call.context, wanted.jobs)
        raise


async def reserve_again(call: Call, claims: Sequence[tuple[int, int]]) -> Response:
    """Return the jobs that the first request claimed and that still run by those claims."""
    for topic in dict.fromkeys(call.wish.topics):
        call.demand(topic)
    jobs = await call.context.read(_still_held, call.queue.store, claims)
    return await _given(call, jobs) if jobs else Response(status_code=204)


async def _given(call: Call, jobs: list[Job], *, more: bool = False) -> Response:
    """Return the answer with claimed jobs and their receipts. ClientDisconnect: the client has gone."""
    if await call.is_disconnected():
        raise ClientDisconnect
    return JsonResponse(Claims(await jobs_out(jobs, partial(reserved, await call.context.receipt_key())), more))


def _still_held(store: Store, claims: Sequence[tuple[int, int]]) -> list[Job]:
    jobs = [(store.ask(GetJob(id)), number) for id, number in claims]
    return [job for job, number in jobs if job is not None and job.state is State.RUNNING and job.claims == number]


async def _long(call: Call, wanted: _Wanted, seconds: float) -> None:
    """Claim jobs, or wait for them. ClientDisconnect: the client went away."""
    waiting = call.context.waiting_here()
    waiter = waiting.enter(wanted.topics)
    try:
        with call.ends() as ends:
            await _first(call, wanted, waiter, ends, seconds)
            if wanted.jobs:
                await asyncio.sleep(0)  # lets the loop note that the client has gone
            if ends.gone.done():
                raise ClientDisconnect
    finally:
        waiting.leave(waiter)


async def _first(call: Call, wanted: _Wanted, waiter: Waiter, ends: Ends, seconds: float) -> None:
    """Claim the first jobs that come, within `seconds` and before one of the ends."""
    until = asyncio.get_running_loop().time() + seconds
    await wanted.claim()
    while not wanted.jobs and wanted.readable:
        left = until - asyncio.get_running_loop().time()
        if left <= 0 or any(end.done() for end in ends):
            break
        woken = asyncio.ensure_future(waiter.wait())
        await asyncio.wait((woken, *ends), timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if not woken.done():
            woken.cancel()
            break
        await call.identify(wanted.topics)
        waiter.clear()
        await wanted.claim()


@dataclass
class _Wanted:
    """A caller's wish to claim jobs, and the jobs it has claimed."""

    context: Context
    topics: tuple[str, ...]
    limit: int
    policy: commands.ClaimPolicy
    worker: str
    jobs: list[Job] = field(default_factory=list)
    sealed: dict[str, BadBody] = field(default_factory=dict)  # topics whose due jobs cannot be decrypted here

    async def claim(self) -> None:
        """Claim due jobs, topic by topic in the given order."""
        try:
            # One query finds the topics with due jobs, if there are several topics.
            for topic in self.topics if len(self.topics) == 1 else await self._due():
                if topic not in self.sealed:
                    await self._claim(topic)
                if len(self.jobs) >= self.limit or self._room <= 0:
                    break
        except PywheelError:
            if not self.jobs:  # else the caller has jobs, and its next request meets the error
                raise

    @property
    def _room(self) -> int:
        """How many bytes of bodies fit beside those of the claimed jobs."""
        return self.context.limits.reserve - sum(len(job.body) for job in self.jobs)

    @property
    def _may_be_full(self) -> bool:
        """Whether a body that this server accepts may have been too long for the answer."""
        # An encrypted body was longer than it is here.
        return self._room < 2 * self.context.queue.calls.max_body

    async def more(self) -> bool:
        """Return whether due jobs were left out because of their bodies. Mostly without a query."""
        if len(self.jobs) >= self.limit or not self._may_be_full:
            return False
        try:
            return bool(await self._due())
        except PywheelError:  # the jobs are claimed: they go out whatever happens
            return True

    @property
    def readable(self) -> bool:
        """Whether jobs may still come of one of the topics."""
        return len(self.sealed) < len(self.topics)

    def refuse_sealed(self) -> None:
        """Raise a Problem if jobs are due whose bodies this server has no key for."""
        for error in self.sealed.values():
            raise Problem("no-key", f"{error}; no other job is due", headers={"retry-after": "60"})

    async def _due(self) -> tuple[str, ...]:
        """Return the topics with due jobs."""
        store = self.context.queue.store
        dues = await self.context.read(_dues, store, self.topics)
        now = store.clock.wall()
        return tuple(topic for topic in self.topics if topic in dues and dues[topic] <= now)

    async def _claim(self, topic: str) -> None:
        """Claim jobs of a topic, in addition to those that are claimed."""
        limit = self.limit - len(self.jobs)
        command = commands.Reserve(topic, limit, self.policy, self.worker)
        if limit > 1 or self.jobs:
            command.bytes, command.least = self._room, 0 if self.jobs else 1
        try:
            jobs = await reserve_async(self.context.queue.calls, command)
        except BadBody as error:  # they stay as they are, for callers that may have the key
            self.sealed[topic] = error
            return
        self.jobs += jobs
        if self.context.waiting is not None:
            # Without a job none was left out for its body: one comes whatever its size.
            more = len(jobs) == limit or (bool(self.jobs) and self._may_be_full)
            self.context.waiting.claimed(topic, len(jobs), more=more)


async def _give_back(context: Context, jobs: list[Job]) -> None:
    if jobs:
        with suppress(StoreError):  # then they are due again when their leases end
            await asyncio.gather(*(context.queue.calls.aapply(commands.Release(job.id, job.claims)) for job in jobs))


# ---- settle ---------------------------------------------------------------------------------------------------------


async def _settle(call: Call, command: type[commands.Ack | commands.Release]) -> Response:
    return _held(await call.queue.calls.aapply(command(*await _claim_of(call))))


ack: Final = partial(_settle, command=commands.Ack)
"""Make a claimed job done."""
release: Final = partial(_settle, command=commands.Release)
"""Give a claimed job back, with no attempt spent."""


async def nack(call: Call) -> Response:
    """Fail a claimed job's attempt: it is due again, or dead."""
    wish, queue = call.wish or Nack(), call.queue
    id, claims = await _claim_of(call)
    if wish.delay is not UNSET:
        delay = None if wish.delay is None else checked("delay", delay_ms, wish.delay)
        error = None if wish.error is None else kept(wish.error)
        state = await queue.calls.aapply(commands.Nack(id, claims, delay, error))
    else:
        job = await call.ask(GetJob(id))
        state = None
        if job is not None and job.claims == claims:
            state = await queue.aio.nack(job, error=wish.error)
    if state is None:
        raise _lost()
    return JsonResponse(NackAnswer(state.value))  # type: ignore[arg-type]  # delayed or dead


async def bury(call: Call) -> Response:
    """Make a claimed job dead."""
    error = None if call.wish is None or call.wish.error is None else kept(call.wish.error)
    id, claims = await _claim_of(call)
    return _held(await call.queue.calls.aapply(commands.Nack(id, claims, None, error)) is not None)


async def touch(call: Call) -> Response:
    """Extend the lease of a claim."""
    given = None if call.wish is None else call.wish.ttr
    ttr = None if given is None else checked("ttr", duration, given, "ttr", 1)
    id, claims = await _claim_of(call)
    return _held(await call.queue.calls.aapply(commands.Touch(id, claims, ttr)))


async def _claim_of(call: Call) -> tuple[int, int]:
    """Return the claim in the request, if the token allows the topic. No query for a token with all topics."""
    id, claims = receipt_of(await call.context.receipt_key(), call.path_params["receipt"])
    if not call.grant.everywhere:
        job = await call.ask(GetJob(id))
        if job is None or not call.grant.may("work", job.topic):
            raise _lost()
    return id, claims


def _held(held: bool) -> Response:
    if not held:
        raise _lost()
    return Response(status_code=204)


def _lost() -> Problem:
    return Problem(
        "claim-lost", "this claim is over: it was settled, or its lease ended. The job may be delivered again"
    )


def _dues(store: Store, topics: Sequence[str]) -> dict[str, int]:
    """Return when the first jobs of topics are due. Lost leases end first: perhaps no worker is there to do that."""
    end_lost(store)
    return store.ask(GetNextDues(topics))
