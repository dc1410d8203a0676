"""Waits for the ends of jobs: one thread listens to the store for all of a process, and wakes who waits.

It is one among the workers, and handles nothing: it announces of which topics it waits for ends. Workers, who know of
each other anyway, ring it once the store has such an end; then it looks, some hundreds by one query, which of its jobs
have ended. What ends where nobody rings, as by a cancel, is found by a look twice a second. As long as nobody waits
there is none of this.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from .._errors import NoSuchJob, StoreClosed
from .._forks import renew_after_fork
from ..jobs.job import Job, State
from ..jobs.queries import GetHistories, GetStates
from ..jobs.results import Result
from ..stores.contract import Store
from ..stores.listener import StoreListener, Topic
from ..stores.notifier import ENDS_OF, Notifier

__all__ = ["CompletionListener", "results"]

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_SOME: Final = 500  # jobs in one query
_BEAT: Final = 0.25  # seconds between signs of life
_LOOKS: Final = (0.02, 0.5)  # seconds between looks though nobody rang: after an announcement, and at most
_REST: Final = (0.002, 4)  # between looks because somebody rang: seconds at least, and times as long as one takes


def results(store: Store, jobs: Sequence[tuple[int, State]]) -> list[Result]:
    """Return what has become of jobs that have these states. One query for many, where `histories` is."""
    found = []
    for (id, state), attempts in zip(jobs, store.ask(GetHistories([id for id, _ in jobs])), strict=True):
        error = next((attempt.error for attempt in reversed(attempts) if attempt.error is not None), None)
        found.append(Result(id, state, attempts[-1].result if attempts else None, error))
    return found


class CompletionListener(StoreListener[Topic]):
    """All who wait in this process for jobs of one store. From any thread."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "pywheel-waits", "wait", "waiting for ends of jobs", ENDS_OF, _LOGGER)
        renew_after_fork(self)

    def _after_fork(self) -> None:
        super()._after_fork()
        self._waiting: dict[int, tuple[str, set[Future[Result]]]] = {}  # topic and who waits, by job
        self._fresh: set[int] = set()  # jobs that were not looked at
        self._rung = True
        self._beat_at = self._look_at = self._rest_until = 0.0
        self._patience = _LOOKS[0]

    # ---- who waits --------------------------------------------------------------------------------------------------

    def enter(self, job: Job) -> Future[Result]:
        """Wait for a job, until `leave`; return what is to have the result. StoreClosed; RuntimeError: no thread."""
        future: Future[Result] = Future()
        with self._mutex:
            if self._closed:
                raise StoreClosed("the queue was closed: open another one")
            if job.id not in self._waiting:
                self._waiting[job.id] = job.topic, set()
                self._fresh.add(job.id)
                self._topics.setdefault(job.topic, Topic()).waiters[job.id] = None
            self._waiting[job.id][1].add(future)
            try:
                self._begin()
            except RuntimeError:
                self._leave(job.id, future)
                raise
        self._wake()
        return future

    def leave(self, id: int, future: Future[Result]) -> None:
        """Wait no longer. Idempotent."""
        with self._mutex:
            self._leave(id, future)

    def _leave(self, id: int, future: Future[Result]) -> None:
        if id in self._waiting:
            futures = self._waiting[id][1]
            futures.discard(future)
            if not futures:
                self._forget(id)

    def _forget(self, id: int) -> set[Future[Result]]:
        """Wait no longer for a job; return who did. The caller has the mutex."""
        name, futures = self._waiting.pop(id)
        self._fresh.discard(id)
        self._topics[name].leave(id)
        return futures

    def __len__(self) -> int:
        return len(self._waiting)

    def close(self) -> None:
        """Stop listening; who waits is told StoreClosed."""
        with self._mutex:
            self._closed = True
        self._fail(StoreClosed("the queue was closed meanwhile: open another one"))
        super().close()

    def _fail(self, error: Exception) -> None:
        for id in self._jobs(fresh=False):
            self._ended(id, type(error)(*error.args))  # one for each: it is raised in several threads

    def _ended(self, id: int, outcome: Result | BaseException) -> None:
        """Give who waits for a job what has become of it, or what is to be raised."""
        with self._mutex:
            futures = self._forget(id) if id in self._waiting else ()
        for future in futures:
            if future.set_running_or_notify_cancel():
                if isinstance(outcome, BaseException):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _turn(self, notifier: Notifier, topics: tuple[str, ...], *, announced: bool) -> None:  # noqa: ARG002
        if announced:
            self._patience, self._look_at = _LOOKS[0], 0.0  # until workers know of it they do not ring
        now = time.monotonic()
        if now >= self._beat_at:
            self._beat_at = now + _BEAT
            self._beat(notifier)
        if self._rung and now >= self._rest_until:
            self._rung = False
            self._look(self._jobs(fresh=False))
        elif now >= self._look_at:
            self._look(self._jobs(fresh=False))
            self._patience = min(2 * self._patience, _LOOKS[1])
        elif fresh := self._jobs(fresh=True):  # they may have ended before anybody waited
            self._look(fresh)
        times = [self._beat_at, self._look_at, self._rest_until if self._rung else self._beat_at]
        self._rung |= notifier.wait(max(min(times) - time.monotonic(), 0.0))

    def _jobs(self, *, fresh: bool) -> list[int]:
        """Return the jobs that are waited for, or those of them that were not looked at."""
        with self._mutex:
            ids, self._fresh = list(self._fresh if fresh else self._waiting), set()
            return ids

    def _look(self, ids: Sequence[int]) -> None:
        """See which of these jobs have ended. To ask takes a fifth of the time at most, however many they are."""
        asking = 0.0
        for some in (ids[first : first + _SOME] for first in range(0, len(ids), _SOME)):
            began = time.monotonic()
            states = self._store.ask(GetStates(some))
            asking += time.monotonic() - began
            ended: list[tuple[int, State]] = []
            for id, state in zip(some, states, strict=True):
                if state is None:
                    self._ended(id, NoSuchJob(f"job {id} was deleted while somebody waited for it"))
                elif not state.live:
                    ended.append((id, state))
            for result in results(self._store, ended) if ended else ():
                self._ended(result.id, result)
        now = time.monotonic()
        least, times = _REST
        self._rest_until = now + max(least, times * asking)
        self._look_at = max(now + self._patience, self._rest_until)
