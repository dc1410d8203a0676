"""Waits for the ends of jobs: one thread listens to the store for all of a process, and wakes who waits.

It is one among the workers, and handles nothing: it announces of which topics it waits for ends. Workers, who know of
each other anyway, ring it once the store has such an end; then it looks, some hundreds by one query, which of its jobs
have ended. What ends where nobody rings, as by a cancel, is found by a look twice a second. As long as nobody waits
there is none of this.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from .._errors import NoSuchJob, StoreClosed, StoreError, StoreReplaced
from .._forks import renew_after_fork
from ..jobs.commands import Announce
from ..jobs.job import Job, State
from ..jobs.queries import GetHistories, GetStates
from ..jobs.results import Result
from ..stores.contract import Store, intact, pauses
from ..stores.notifier import ENDS_OF, Notifier

__all__ = ["CompletionListener", "results"]

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_SOME: Final = 500  # jobs in one query
_BEAT: Final = 0.25  # seconds between signs of life
_LOOKS: Final = (0.02, 0.5)  # seconds between looks though nobody rang: after an announcement, and at most
_REST: Final = (0.002, 4)  # between looks because somebody rang: seconds at least, and times as long as one takes
_LINGER: Final = 2.0  # seconds that a topic stays announced after the last one has waited for its jobs
_BACKOFF: Final = (0.05, 1.0)  # seconds between tries while the store is away: first, longest


def results(store: Store, jobs: Sequence[tuple[int, State]]) -> list[Result]:
    """Return what has become of jobs that have these states. One query for many, where `histories` is."""
    found = []
    for (id, state), attempts in zip(jobs, store.ask(GetHistories([id for id, _ in jobs])), strict=True):
        error = next((attempt.error for attempt in reversed(attempts) if attempt.error is not None), None)
        found.append(Result(id, state, attempts[-1].result if attempts else None, error))
    return found


@dataclass(slots=True)
class _Topic:
    """A topic of whose jobs some are waited for, or were a moment ago."""

    jobs: int = 0
    left_at: float = 0.0


class CompletionListener:
    """All who wait in this process for jobs of one store. From any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after_fork()
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Begin without a thread: at first, and in a forked child. Notifier and who waits are the parent's."""
        self._mutex = threading.Lock()
        self._waiting: dict[int, tuple[str, set[Future[Result]]]] = {}  # topic and who waits, by job
        self._fresh: set[int] = set()  # jobs that were not looked at
        self._topics: dict[str, _Topic] = {}
        self._closed = False
        self._notifier: Notifier | None = None
        self._thread: threading.Thread | None = None

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
                self._topics.setdefault(job.topic, _Topic()).jobs += 1
            self._waiting[job.id][1].add(future)
            if self._thread is None:  # started under the mutex: who closes finds none that is to start
                thread = threading.Thread(target=self._run, name="pywheel-waits", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    self._leave(job.id, future)
                    raise
                self._thread = thread
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
        topic = self._topics[name]
        topic.jobs -= 1
        topic.left_at = time.monotonic()
        return futures

    def __len__(self) -> int:
        return len(self._waiting)

    def close(self) -> None:
        """Stop listening; who waits is told StoreClosed."""
        with self._mutex:
            self._closed = True
        self._fail(StoreClosed("the queue was closed meanwhile: open another one"))
        self._wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_BACKOFF[1] + 1)

    def _wake(self) -> None:
        notifier = self._notifier
        if notifier is not None:
            notifier.wake()

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        tries = None
        while True:
            try:
                self._listen()
            except (StoreClosed, StoreReplaced) as error:
                self._fail(error)
            except StoreError as error:
                if tries is None:
                    _LOGGER.warning("waiting for ends of jobs must wait for the store: %s", error)
                    tries = pauses(*_BACKOFF)
                time.sleep(next(tries))
            except Exception as error:  # whatever it is, nobody may wait for a thread that has ended
                _LOGGER.exception("waiting for ends of jobs has failed")
                self._fail(error)
            else:
                tries = None
            if self._over():
                return

    def _over(self) -> bool:
        """Whether nobody waits any more. The next one to enter begins another thread."""
        with self._mutex:
            over = self._closed or not self._waiting
            if over:
                self._thread = None
                self._topics = {}
            return over

    def _listen(self) -> None:
        """Listen until nobody has waited for a while, or an error."""
        notifier = self._store.notifier(f"wait:{socket.gethostname()}:{os.getpid()}")
        try:
            self._notifier = notifier
            listener = _Listener(self._store, notifier, self)
            while (topics := self.topics()) and not self._closed:
                listener.turn(topics)
            self._store.apply([Announce(notifier.worker, ())])
        finally:
            self._notifier = None
            notifier.close()

    def topics(self) -> tuple[str, ...]:
        """Return the topics of the jobs that are waited for, or were a moment ago."""
        now = time.monotonic()
        with self._mutex:
            for name in [name for name, one in self._topics.items() if not one.jobs and now - one.left_at >= _LINGER]:
                del self._topics[name]
            return tuple(self._topics)

    def jobs(self, *, fresh: bool) -> list[int]:
        """Return the jobs that are waited for, or those of them that were not looked at."""
        with self._mutex:
            ids, self._fresh = list(self._fresh if fresh else self._waiting), set()
            return ids

    def ended(self, id: int, outcome: Result | BaseException) -> None:
        """Give who waits for a job what has become of it, or what is to be raised."""
        with self._mutex:
            futures = self._forget(id) if id in self._waiting else ()
        for future in futures:
            if future.set_running_or_notify_cancel():
                if isinstance(outcome, BaseException):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)

    def _fail(self, error: BaseException) -> None:
        for id in self.jobs(fresh=False):
            self.ended(id, type(error)(*error.args))  # one for each: it is raised in several threads


class _Listener:
    """The place among the workers, and when to look. Used by the thread only."""

    def __init__(self, store: Store, notifier: Notifier, waits: CompletionListener) -> None:
        self._store = store
        self._notifier = notifier
        self._waits = waits
        self._announced: tuple[str, ...] = ()
        self._rung = True
        self._beat_at = self._look_at = self._rest_until = 0.0
        self._patience = _LOOKS[0]

    def turn(self, topics: tuple[str, ...]) -> None:
        """Do all there is to do now, and wait."""
        if topics != self._announced:
            self._announce(topics)
            self._patience, self._look_at = _LOOKS[0], 0.0  # until workers know of it they do not ring
        now = time.monotonic()
        if now >= self._beat_at:
            self._beat(now)
        if self._rung and now >= self._rest_until:
            self._rung = False
            self._look(self._waits.jobs(fresh=False))
        elif now >= self._look_at:
            self._look(self._waits.jobs(fresh=False))
            self._patience = min(2 * self._patience, _LOOKS[1])
        elif fresh := self._waits.jobs(fresh=True):  # they may have ended before anybody waited
            self._look(fresh)
        times = [self._beat_at, self._look_at, self._rest_until if self._rung else self._beat_at]
        self._rung |= self._notifier.wait(max(min(times) - time.monotonic(), 0.0))

    def _announce(self, topics: tuple[str, ...]) -> None:
        names = tuple(ENDS_OF + topic for topic in topics)
        intact(self._store.apply([Announce(self._notifier.worker, names)]))
        self._announced = topics

    def _beat(self, now: float) -> None:
        """Show that somebody is here still, and announce it anew if it was taken for gone."""
        self._beat_at = now + _BEAT
        self._notifier.beat(0)
        me = self._notifier.worker
        if all(member.worker != me for member in self._notifier.members()):
            self._announce(self._announced)

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
                    self._waits.ended(id, NoSuchJob(f"job {id} was deleted while somebody waited for it"))
                elif not state.live:
                    ended.append((id, state))
            for result in results(self._store, ended) if ended else ():
                self._waits.ended(result.id, result)
        now = time.monotonic()
        least, times = _REST
        self._rest_until = now + max(least, times * asking)
        self._look_at = max(now + self._patience, self._rest_until)
