"""The dispatcher: one loop that turns due times into running handlers, and ends of handlers into acks.

Each step is one transaction at most: what finished since the last step, what the keeper and the janitor have to do,
and the next claims. It is the only one in the worker that talks to the store, so handlers never wait for a commit.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from .._errors import BadBody
from ..clock import Clock
from ..jobs.commands import Ack, Claim, Nack, Op, Release
from ..jobs.handler import GiveUp, Handler, RetryLater
from ..jobs.job import Job, State
from ..observe.log import about, event
from ..observe.metrics import Metrics
from ..stores.contract import Listener, Store
from .janitor import Janitor
from .leases import LeaseKeeper
from .pools import Finished, Outside, Pool
from .topics import Lane
from .window import Window

__all__ = ["Dispatcher"]

_LONGEST_SLEEP: Final = 1.0  # seconds; by then a step of the wall clock is noticed
_STEP: Final = 0.25  # seconds that the wall clock may differ from what it should show before it counts as stepped
_LINGER: Final = 0.001  # seconds to wait for more ends of handlers while others are at work: larger commits
_ENOUGH: Final = 64
_ERROR_LENGTH: Final = 4_000
_BACKOFF: Final = (0.05, 5.0)  # seconds between tries while the store is away: first, longest


class Dispatcher:
    """Steps through the life of a worker. `step` and `sleep` are called in turn, by one thread."""

    def __init__(
        self,
        store: Store,
        listener: Listener,
        handlers: dict[str, Handler],
        pool: Callable[[Handler, Outside], Pool],
        metrics: Metrics,
        keep: int | None = None,
    ) -> None:
        self._store = store
        self._listener = listener
        self._clock: Clock = store.clock
        self._metrics = metrics
        outside = Outside(self._done, self._holds, self._clock, metrics)
        self.lanes = {topic: Lane(handler, pool(handler, outside)) for topic, handler in handlers.items()}
        self._window = Window(store, listener, tuple(handlers), self._clock)
        self._keeper = LeaseKeeper(handlers.values())
        self._janitor = Janitor(listener.worker, keep)
        self._finished: deque[Finished] = deque()
        self._unsettled: list[tuple[Op, Job]] = []  # ends of claims that the store does not know yet
        self._asleep = False
        self._rung = False
        self._failures = 0
        self._offset = self._clock.wall() / 1000 - self._clock.time()
        self.draining = False

    # ---- from the pools ---------------------------------------------------------------------------------------------

    def _done(self, finished: Finished) -> None:
        """Note that a handler ended. From any thread."""
        self._finished.append(finished)
        if self._asleep:
            self._asleep = False
            self._listener.wake()

    def _holds(self, job: Job) -> bool:
        return self._keeper.holds(job, self._clock.wall())

    # ---- one step ---------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do all there is to do now, in one transaction; return whether the store took it."""
        try:
            now = self._clock.wall()
            self._watch_clock()
            if self._listener.stirred():
                self._janitor.again()
            if self._rung:
                if self._window.read_hints():
                    self._janitor.again()
                self._rung = False
            if not self.draining:
                self._look_ahead(now)
            self._commit(now)
        except Exception as error:  # noqa: BLE001  (whatever it is, the claims of this worker must be ended)
            self._failures += 1
            self._rung = True
            self._metrics.count("store_error", "")
            event(logging.ERROR, "store_error", error=error, failures=self._failures, unsettled=len(self._unsettled))
            return False
        if self._failures:
            event(logging.WARNING, "store_back", failures=self._failures)
            self._failures = 0
        return True

    def _look_ahead(self, now: int) -> None:
        if self._janitor.epochs:
            self._window.load(now)
        for id, topic in self._window.due(now):
            self.lanes[topic].ready.append(id)

    def _commit(self, now: int) -> None:
        """Settle, keep, clean and claim."""
        self._settle()
        unsettled = self._unsettled
        ops: list[Op] = [op for op, _ in unsettled]
        touches = self._renewals(now)
        chores = [] if self.draining else self._janitor.ops(now)
        claims = [] if self.draining else self._claims()
        ops += [*touches, *chores, *claims]
        if not ops:
            return
        try:
            outcomes = iter(self._store.apply(ops))
        except BaseException:
            for claim in claims:
                self.lanes[claim.topic].ready.extendleft(reversed(claim.ids))
            raise
        self._unsettled = []
        self._learn(unsettled, outcomes)
        for touch in touches:
            if next(outcomes):
                self._keeper.renewed(now, touch)
        shards = [self._janitor.learn(now, op, next(outcomes)) for op in chores]
        for claim in claims:
            self._claimed(claim, next(outcomes))
        if any(shards):
            self._reload()

    def _claims(self) -> list[Claim]:
        wanted = (lane.claim(self._listener.worker, self._janitor.epochs) for lane in self.lanes.values() if lane.ready)
        return [claim for claim in wanted if claim is not None]

    def _claimed(self, claim: Claim, jobs: list[Job]) -> None:
        for id in claim.ids:
            self._window.settled(id)
        if jobs:
            self._keeper.hold(self.lanes[claim.topic].handler, jobs)
            self._janitor.expect(min([job.lease_until or 0 for job in jobs]))
            self._metrics.count("claimed", claim.topic, len(jobs))
            self.lanes[claim.topic].feed(jobs, self._clock.time())
        self._metrics.observe("backlog", claim.topic, len(self.lanes[claim.topic].ready))

    def _renewals(self, now: int) -> list[Any]:
        monotonic = self._clock.time()
        if not len(self._keeper) or monotonic < self._keeper.look_at:
            return []
        waiting = {(job.id, job.claims) for lane in self.lanes.values() for job in lane.pool.peek()}
        return self._keeper.renewals(now, monotonic, waiting)

    # ---- ends of claims ---------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Turn what finished into commands."""
        monotonic = self._clock.time()
        while self._finished:
            job, error, handled = self._finished.popleft()
            lane = self.lanes[job.topic]
            lane.finished(monotonic)
            if not handled:
                self._lost(job)
            elif error is None:
                self._unsettled.append((Ack(job.id, job.claims), job))
            else:
                self._unsettled.append((self._failure(lane.handler, job, error), job))

    def _lost(self, job: Job) -> None:
        self._keeper.settled(job)
        self._metrics.count("lease_lost", job.topic)
        event(logging.WARNING, "lease_lost", **about(job))

    def _failure(self, handler: Handler, job: Job, error: BaseException) -> Nack:
        delay: int | None = handler.retry.delay(job.attempt)
        if isinstance(error, RetryLater):
            delay = error.delay
        elif isinstance(error, GiveUp | BadBody):
            delay = None
        text = "".join(traceback.format_exception_only(error)).strip()[-_ERROR_LENGTH:]
        event(logging.WARNING, "attempt_failed", **about(job), error_text=text[:200])
        return Nack(job.id, job.claims, delay, text.encode("utf-8", "replace").decode())

    def _learn(self, unsettled: list[tuple[Op, Job]], outcomes: Iterator[Any]) -> None:
        """Take in how claims ended; most of them well."""
        done: Counter[str] = Counter()
        for op, job in unsettled:
            outcome = next(outcomes)
            self._keeper.settled(job)
            if outcome is True and isinstance(op, Ack):
                done[job.topic] += 1
            elif isinstance(op, Release):
                self._metrics.count("released", job.topic)
            elif outcome in (False, None):
                self._lost(job)
            elif outcome is State.DEAD:
                self._metrics.count("dead", job.topic)
                event(logging.ERROR, "job_dead", **about(job))
            else:
                self._metrics.count("retried", job.topic)
        for topic, count in done.items():
            self._metrics.count("done", topic, count)

    # ---- time -------------------------------------------------------------------------------------------------------

    def _watch_clock(self) -> None:
        """Begin anew if the wall clock was stepped: what was due at its old time is not what is due at its new one."""
        offset = self._clock.wall() / 1000 - self._clock.time()
        if abs(offset - self._offset) > _STEP:
            event(logging.WARNING, "clock_stepped", seconds=round(offset - self._offset, 3))
            self._janitor.again()
            self._reload()
        self._offset = offset

    def _reload(self) -> None:
        for lane in self.lanes.values():
            lane.ready.clear()
        self._window.shards = frozenset(self._janitor.epochs)
        self._window.reset()

    def timeout(self) -> float:
        """Return for how many seconds there is nothing to do, unless somebody wakes it."""
        if self._failures:
            first, longest = _BACKOFF
            return float(min(first * 2 ** min(self._failures - 1, 20), longest))
        if self._finished:
            return 0.0
        times = [_LONGEST_SLEEP]
        if not self.draining:
            deadline = self._window.next_deadline()
            wall = self._janitor.next if deadline is None else min(deadline, self._janitor.next)
            times.append(self._clock.until(wall))
            if any(lane.ready and lane.room and lane.pool.waiting == 0 for lane in self.lanes.values()):
                return 0.0
        if len(self._keeper):
            times.append(self._keeper.look_at - self._clock.time())
        return max(min(times), 0.0)

    def sleep(self) -> None:
        """Wait until there is something to do."""
        timeout = self.timeout()
        self._asleep = True
        try:
            if self._finished and not self._failures:  # it came before the flag was up
                timeout = 0.0
            self._rung |= self._listener.wait(timeout)
        finally:
            self._asleep = False
        if 0 < len(self._finished) < _ENOUGH and any(lane.pool.waiting for lane in self.lanes.values()):
            time.sleep(_LINGER)

    # ---- the end ----------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether handlers run, or ended without the store knowing."""
        return bool(self._unsettled or self._finished or any(lane.held for lane in self.lanes.values()))

    def drain(self) -> None:
        """Claim nothing more, and give back what was not started, unspent."""
        self.draining = True
        for lane in self.lanes.values():
            for job in lane.pool.take_back():
                lane.held -= 1
                self._unsettled.append((Release(job.id, job.claims), job))

    def abandon(self) -> list[Job]:
        """Give back all that still runs, unspent; return it. To be followed by one more `step`."""
        self._settle()
        known = {(job.id, job.claims) for _, job in self._unsettled}
        left = [job for job in self._keeper.jobs() if (job.id, job.claims) not in known]
        self._unsettled += [(Release(job.id, job.claims), job) for job in left]
        return left
