"""Fair shares: no target of an outlet holds more than a part of the room for handlers, however slow it is.

Each target has a share of the calls that may be under way. A job beyond it waits for a moment where the target is
quick, and else is given back, due when its turn will come. A target that failed several times in a row is left alone
for a while, but for one call at a time that tries whether it is back.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from time import monotonic
from typing import Final

from ..jobs.handler import NotNow, RetryLater
from ..jobs.job import Job

__all__ = ["Call", "Shares"]

_PATIENCE: Final = 0.05  # seconds for which a job waits here, if it is expected to be no longer
_SOONEST: Final = 0.1  # seconds until a job that was given back is due
_LATEST: Final = 300.0
_COOLING: Final = (1.0, 60.0)  # seconds without calls after failures: first, longest
_UNSPENT: Final = 8  # times that a job is given back for its target's failures; after that it has failed too
_TARGETS: Final = 10_000  # that are remembered


class _Target:
    """What is known of one target."""

    __slots__ = ("cooling", "failures", "free_at", "promised", "seconds", "stalled", "started", "until", "waiting")

    def __init__(self) -> None:
        self.started: dict[Call, float] = {}  # the calls under way, oldest first
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.promised = 0  # places that were given to those who waited, and are not taken yet
        self.seconds = 0.0  # that a call takes, roughly
        self.stalled = False  # whether somebody waited in vain, and nothing has ended since
        self.free_at = 0.0  # when the last job that was given back has its turn
        self.failures = 0  # in a row
        self.cooling = 0.0
        self.until = 0.0  # when it may be tried again

    @property
    def taken(self) -> int:
        return len(self.started) + self.promised

    @property
    def idle(self) -> bool:
        return not (self.started or self.waiting or self.promised or self.failures)

    def give_place(self) -> None:
        """Give a free place to the first that waits."""
        while self.waiting:
            first = self.waiting.popleft()
            if not first.done():
                first.set_result(None)
                self.promised += 1
                break


class Call:
    """One call under way. Exactly one of `answered` and `failed` ends it, or `ended` if nothing was learned."""

    __slots__ = ("_shares", "_target")

    def __init__(self, shares: Shares, target: _Target) -> None:
        self._shares, self._target = shares, target

    def answered(self) -> None:
        """Note that the target has answered, whatever it said."""
        target = self._target
        target.failures, target.cooling = 0, 0.0
        self.ended()

    def failed(self) -> None:
        """Note that the target did not answer: unreachable, too slow, or it says so itself."""
        target, now = self._target, self._shares.clock()
        target.failures += 1
        if target.failures >= self._shares.trips:
            first, longest = _COOLING
            target.cooling = min(max(2 * target.cooling, first), longest)
            target.until = now + target.cooling * random.uniform(0.9, 1.1)
        self.ended()

    def ended(self) -> None:
        """Make room for the next one."""
        target = self._target
        took = self._shares.clock() - target.started.pop(self)
        target.seconds += (took - target.seconds) / 4 if target.seconds else took
        target.stalled = False
        target.give_place()


class Shares:
    """The targets of one outlet, on one loop.

    Args:
        most: calls of a target that may be under way.
        trips: failures in a row after which it is left alone for a while.
    """

    def __init__(self, most: int, trips: int = 5, clock: Callable[[], float] = monotonic) -> None:
        self.most, self.trips, self.clock = most, trips, clock
        self._targets: OrderedDict[str, _Target] = OrderedDict()

    async def enter(self, name: str, job: Job) -> Call:
        """Return a call to a target, once there is room.

        Raises:
            NotNow: there is none, or the target is left alone.
            RetryLater: it is left alone, and the job was given back for that again and again.
        """
        target = self._target(name)
        self._refuse_while_cooling(name, target, job)
        if target.taken >= self.most:
            await self._place(name, target)
            self._refuse_while_cooling(name, target, job)
        call = Call(self, target)
        target.started[call] = self.clock()
        return call

    def _target(self, name: str) -> _Target:
        target = self._targets.get(name)
        if target is None:
            target = self._targets[name] = _Target()
            if len(self._targets) > _TARGETS:
                self._forget()
        return target

    def _forget(self) -> None:
        """Forget the idle ones among those that have been known for longest."""
        for name in [name for _, name in zip(range(_TARGETS // 10), self._targets, strict=False)]:
            target = self._targets.pop(name)
            if not target.idle:
                self._targets[name] = target

    def _refuse_while_cooling(self, name: str, target: _Target, job: Job) -> None:
        if target.failures < self.trips:
            return
        wait = target.until - self.clock()
        if wait <= 0 and not target.taken:
            return  # this one tries whether it is back
        delay = max(wait, 0.0) + random.uniform(_SOONEST, max(target.cooling, 2 * _SOONEST))
        message = f"{name} has failed {target.failures} times in a row, and was not called"
        if job.claims - job.attempt < _UNSPENT:
            raise NotNow(delay, message)
        raise RetryLater(delay, message, least=True)

    async def _place(self, name: str, target: _Target) -> None:
        """Wait for a place, if there is likely to be one soon. NotNow if not."""
        expected = (len(target.waiting) + 1) * self._pace(target)
        if target.stalled or expected > _PATIENCE:
            raise self._later(name, target)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        target.waiting.append(turn)
        try:
            async with asyncio.timeout(2 * _PATIENCE):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it came at that very moment
                target.promised -= 1
                target.give_place()
            if not isinstance(error, TimeoutError):
                raise
            target.stalled = True
            raise self._later(name, target) from None
        target.promised -= 1

    def _pace(self, target: _Target) -> float:
        """Return after how many seconds one of its calls ends, roughly."""
        oldest = next(iter(target.started.values()), None)
        age = 0.0 if oldest is None else self.clock() - oldest
        return max(target.seconds, age) / self.most

    def _later(self, name: str, target: _Target) -> NotNow:
        """Return what gives a job back until its turn: each later than the one before."""
        now = self.clock()
        target.free_at = min(max(now + _SOONEST, target.free_at + self._pace(target)), now + _LATEST)
        delay = (target.free_at - now) * random.uniform(1.0, 1.1)
        return NotNow(delay, f"{len(target.started)} deliveries to {name} are under way, as many as may be")
