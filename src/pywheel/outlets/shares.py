"""Fair shares: no target of an outlet holds more than a part of the room for handlers, however slow it is.

Each target has a share of the simultaneous calls. A job beyond the share waits for a moment if the target is quick.
Otherwise it is given back, due when its turn will come. A target that failed several times in a row gets no calls for a
while, then one call at a time until it answers.

Many hanging targets would still fill the room. So a call needs more free room the less its target has proved: the last
quarter is for targets that have answered, and the last half is closed to targets whose last call failed.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from ..jobs.handler import NotNow, RetryLater
from ..jobs.job import Job

_PATIENCE: Final = 0.05  # seconds that a job waits here, if no longer wait is expected
_SOONEST: Final = 0.1  # seconds until a job that was given back is due
_FIRST: Final = 0.25  # and at most, the first time, as a target may just have paused; it doubles each time
_LATEST: Final = 300.0
_COOLING: Final = (1.0, 60.0)  # seconds without calls after failures: first, longest
_UNSPENT: Final = 8  # times that a job is given back for its target's failures, before its attempt fails
_TARGETS: Final = 10_000  # targets that are remembered
_ROOM: Final = 10_000  # calls at once by default: as many as a handler may have


@dataclass(slots=True, eq=False)
class _Places:
    """A limited number of places for calls."""

    most: int
    started: dict[Call, float] = field(default_factory=dict)  # the running calls, oldest first
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    promised: int = 0  # places that were given to waiting jobs and are not taken yet
    seconds: float = 0.0  # seconds that a call takes, roughly
    stalled: bool = False  # whether a job waited in vain, and no call has ended since
    free_at: float = 0.0  # when the last job that was given back gets its turn

    @property
    def taken(self) -> int:
        return len(self.started) + self.promised

    @property
    def full(self) -> bool:
        return self.taken >= self.most

    def give_place(self) -> None:
        """Give a free place to the first job that waits."""
        while self.waiting and not self.full:
            first = self.waiting.popleft()
            if not first.done():
                first.set_result(None)
                self.promised += 1
                break

    def ended(self, took: float) -> None:
        """Note that a call has ended, and let a waiting job follow."""
        self.seconds += (took - self.seconds) / 4 if self.seconds else took
        self.stalled = False
        self.give_place()


@dataclass(slots=True, eq=False)
class _Target(_Places):
    """The calls and the record of one target."""

    answers: bool = False  # whether it ever answered
    failures: int = 0  # in a row
    cooling: float = 0.0
    until: float = 0.0  # when it may be tried again

    @property
    def idle(self) -> bool:
        return not (self.started or self.waiting or self.promised)


@dataclass(slots=True, eq=False)
class Call:
    """A running call. Exactly one of `answered` and `failed` ends it, or `ended` if nothing was learned."""

    _shares: Shares
    _target: _Target

    def answered(self) -> None:
        """Note that the target has answered, whatever its answer."""
        target = self._target
        target.answers, target.failures, target.cooling = True, 0, 0.0
        self.ended()

    def failed(self) -> None:
        """Note that the target did not answer: it is unreachable, too slow, or says that it is away."""
        target, now = self._target, self._shares.clock()
        target.failures += 1
        if target.failures >= self._shares.trips:
            first, longest = _COOLING
            target.cooling = min(max(2 * target.cooling, first), longest)
            target.until = now + target.cooling * random.uniform(0.9, 1.1)
        self.ended()

    def ended(self) -> None:
        """Free the place for the next call."""
        self._shares.ended(self, self._target)


class Shares:
    """The targets of one outlet, on one loop.

    Args:
        most: simultaneous calls of a target.
        room: simultaneous calls in all.
        trips: failures in a row after which a target gets no calls for a while.
    """

    def __init__(self, most: int, room: int = _ROOM, trips: int = 5, clock: Callable[[], float] = monotonic) -> None:
        self.most, self.trips, self.clock = most, trips, clock
        self._targets: OrderedDict[str, _Target] = OrderedDict()
        self._started: dict[Call, float] = {}
        self._for_unknown = _Places(max(room * 3 // 4, 1), self._started)
        self._for_failing = _Places(max(room // 2, 1), self._started)

    async def enter(self, name: str, job: Job) -> Call:
        """Return a call to a target, once there is room.

        Raises:
            NotNow: there is no room, or the target gets no calls for now.
            RetryLater: the target gets no calls for now, and the job was given back for that too often.
        """
        target = self._target(name)
        self._refuse_while_cooling(name, target, job)
        while (full := self._full(target)) is not None:
            await self._place(f"to {name}" if full is target else "", full, job)
            takes = False
            try:
                self._refuse_while_cooling(name, target, job)
                takes = self._full(target) is None
            finally:
                if not takes:  # it waits elsewhere, or goes back
                    full.give_place()
        call = Call(self, target)
        target.started[call] = self._started[call] = self.clock()
        return call

    def ended(self, call: Call, target: _Target) -> None:
        """Free the places of a call for others."""
        took = self.clock() - self._started.pop(call)
        del target.started[call]
        for places in (target, self._for_unknown, self._for_failing):
            places.ended(took)

    def _full(self, target: _Target) -> _Places | None:
        """Return the places that are full for a call to a target, or None."""
        if target.full:
            return target
        if target.failures:
            return self._for_failing if self._for_failing.full else None
        return self._for_unknown if not target.answers and self._for_unknown.full else None

    def _target(self, name: str) -> _Target:
        target = self._targets.get(name)
        if target is None:
            target = self._targets[name] = _Target(self.most)
            if len(self._targets) > _TARGETS:
                self._forget()
        return target

    def _forget(self) -> None:
        """Forget the idle targets among the longest known. One that got no calls lately is remembered for a while."""
        lately = self.clock() - _LATEST
        for name in [name for _, name in zip(range(_TARGETS // 10), self._targets, strict=False)]:
            target = self._targets.pop(name)
            if not target.idle or (target.cooling and target.until > lately):
                self._targets[name] = target

    def _refuse_while_cooling(self, name: str, target: _Target, job: Job) -> None:
        if target.failures < self.trips:
            return
        wait = target.until - self.clock()
        if wait <= 0 and not target.taken:
            return  # this call finds out whether it answers again
        delay = max(wait, 0.0) + random.uniform(_SOONEST, max(target.cooling, 2 * _SOONEST))
        message = f"{name} has failed {target.failures} times in a row, and was not called"
        if job.claims - job.attempt < _UNSPENT:
            raise NotNow(delay, message)
        raise RetryLater(delay, message, least=True)

    async def _place(self, whose: str, places: _Places, job: Job) -> None:
        """Wait for a place if one is likely to be free soon. NotNow: none is."""
        expected = (len(places.waiting) + 1) * self._pace(places)
        if places.stalled or expected > _PATIENCE:
            raise self._later(whose, places, job)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        places.waiting.append(turn)
        try:
            async with asyncio.timeout(2 * _PATIENCE):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # the place came at that very moment
                places.promised -= 1
                places.give_place()
            if not isinstance(error, TimeoutError):
                raise
            places.stalled = True
            raise self._later(whose, places, job) from None
        places.promised -= 1

    def _pace(self, places: _Places) -> float:
        """Return in how many seconds one of the calls ends, roughly."""
        oldest = next(iter(places.started.values()), None)
        age = 0.0 if oldest is None else self.clock() - oldest
        return max(places.seconds, age) / places.most

    def _later(self, whose: str, places: _Places, job: Job) -> NotNow:
        """Return the error that gives a job back until its turn: each later than the one before, none much too late."""
        now = self.clock()
        places.free_at = min(max(now + _SOONEST, places.free_at + self._pace(places)), now + _LATEST)
        before = max(job.claims - job.attempt, 0)  # times that it was given back
        delay = min(places.free_at - now, _FIRST * 2 ** min(before, 20)) * random.uniform(1.0, 1.1)
        why = "as many as may be" if whose else "what is left is for targets that answer"
        return NotNow(delay, f"{places.taken} deliveries {whose or 'in all'} are under way, {why}")
