"""Waits for the ends of jobs: one thread per process listens to the store, and wakes the waiting calls.

The listener announces itself among the workers, and names the topics for whose ends it waits. A worker rings it once
the store has such an end. Then the listener asks which of its jobs have ended, some hundreds in one query. An end
without a ring, such as a cancel, is found by a check twice a second. Without waiting calls there is neither a thread
nor a query.
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

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_SOME: Final = 500  # jobs in one query
_BEAT: Final = 0.25  # seconds between signs of life
_LOOKS: Final = (0.02, 0.5)  # seconds between checks without a ring: after an announcement, and at most
_REST: Final = (0.002, 4)  # between checks after rings: at least these seconds, and this multiple of a check's time


def results(store: Store, jobs: Sequence[tuple[int, State]]) -> list[Result]:
    """Return the results of jobs in these states. One query for all of them."""
    found = []
    for (id, state), attempts in zip(jobs, store.ask(GetHistories([id for id, _ in jobs])), strict=True):
        error = next((attempt.error for attempt in reversed(attempts) if attempt.error is not None), None)
        found.append(Result(id, state, attempts[-1].result if attempts else None, error))
    return found


class CompletionListener(StoreListener[Topic]):
    """The calls of this process that wait for jobs of one store. Any thread may call any method."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "pywheel-waits", "wait", "waiting for ends of jobs", ENDS_OF, _LOGGER)
        renew_after_fork(self)

    def _after_fork(self) -> None:
        super()._after_fork()
        self._waiting: dict[int, tuple[str, set[Future[Result]]]] = {}  # topic and waiting calls, by job
        self._fresh: set[int] = set()  # jobs that were not checked yet
        self._rung = True
        self._beat_at = self._look_at = self._rest_until = 0.0
        self._patience = _LOOKS[0]

    # ---- who waits --------------------------------------------------------------------------------------------------

    def enter(self, job: Job) -> Future[Result]:
        """Wait for a job until `leave`; return a future of its result. StoreClosed; RuntimeError: no thread."""
        future: Future[Result] = Future()
        with self._mutex:
            try:
                self._refuse_closed()
                if job.id not in self._waiting:
                    self._topics.setdefault(job.topic, Topic()).waiters[job.id] = None
                    self._fresh.add(job.id)
                self._waiting.setdefault(job.id, (job.topic, set()))[1].add(future)
                self._begin()
                self._refuse_closed()  # by a signal handler meanwhile
            except (RuntimeError, StoreClosed):
                self._leave(job.id, future)
                raise
        self._wake()
        return future

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreClosed("the queue was closed: open another one")

    def leave(self, id: int, future: Future[Result]) -> None:
        """Stop waiting. Idempotent."""
        with self._mutex:
            self._leave(id, future)

    def _leave(self, id: int, future: Future[Result]) -> None:
        if id in self._waiting:
            futures = self._waiting[id][1]
            futures.discard(future)
            if not futures:
                self._forget(id)

    def _forget(self, id: int) -> set[Future[Result]]:
        """Stop waiting for a job; return its waiting calls. The caller has the mutex."""
        name, futures = self._waiting.pop(id)
        self._fresh.discard(id)
        self._topics[name].leave(id)
        return futures

    def __len__(self) -> int:
        return len(self._waiting)

    def close(self) -> None:
        """Stop listening. Waiting calls get StoreClosed."""
        with self._mutex:
            self._closed = True
        self._fail(StoreClosed("the queue was closed meanwhile: open another one"))
        super().close()

    def _fail(self, error: Exception) -> None:
        for id in self._jobs(fresh=False):
            try:
                own = type(error)(*error.args)  # one for each call: the calls raise it in several threads
            except Exception:  # noqa: BLE001  (a JSONDecodeError, for example, has other arguments than its `args`)
                own = error
            self._ended(id, own)

    def _ended(self, id: int, outcome: Result | BaseException) -> None:
        """Give the calls that wait for a job its result, or the error to raise."""
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
            self._patience, self._look_at = _LOOKS[0], 0.0  # workers do not ring before they know of the listener
        now = time.monotonic()
        if now >= self._beat_at:
            self._beat_at = now + _BEAT
            self._beat(notifier)
        if self._rung and now >= self._rest_until:
            self._rung = False
            self._look_at_all()
        elif now >= self._look_at:
            self._look_at_all()
            self._patience = min(2 * self._patience, _LOOKS[1])
        elif fresh := self._jobs(fresh=True):  # they may have ended before the call
            self._look(fresh)  # this puts off no look at the others, however often new calls come
        times = [self._beat_at, self._look_at, self._rest_until if self._rung else self._beat_at]
        self._rung |= notifier.wait(max(min(times) - time.monotonic(), 0.0))

    def _jobs(self, *, fresh: bool) -> list[int]:
        """Return the jobs that calls wait for, or those that were not checked yet."""
        with self._mutex:
            ids, self._fresh = list(self._fresh if fresh else self._waiting), set()
            return ids

    def _look_at_all(self) -> None:
        """Check which jobs have ended. This takes at most a fifth of the time, however many jobs wait."""
        asking = self._look(self._jobs(fresh=False))
        now = time.monotonic()
        least, times = _REST
        self._rest_until = now + max(least, times * asking)
        self._look_at = max(now + self._patience, self._rest_until)

    def _look(self, ids: Sequence[int]) -> float:
        """Check which of these jobs have ended; return for how many seconds the store was asked for their states."""
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
        return asking
