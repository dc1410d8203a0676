"""The thread that forwards the spool's puts once the store is back: in order, and each put once."""

from __future__ import annotations

import logging
import random
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

from .._errors import PywheelError, StoreBusy, StoreClosed, StoreError, StoreFull
from .._forks import renew_after_fork
from ..events import Event, JobRefused, JobsForwarded, StoreBack, StoreFailed
from ..stores.contract import Store, intact, pauses
from .circuit_breaker import AWAY, CircuitBreaker
from .spool import Spool, Waiting

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_BACKOFF: Final = (0.05, 0.5)  # seconds: the first pause, and the longest
_TAKEN: Final = 0.1  # seconds between checks while another process forwards
_IDLE: Final = 5.0  # seconds between checks whether a killed process left puts


class Forwarder:
    """Carries puts to the store. Its thread keeps no queue alive."""

    def __init__(self, breaker: CircuitBreaker, spool: Spool, tell: Callable[[Event], None]) -> None:
        self._breaker = breaker
        self._spool = spool
        self._tell = tell
        self.failing = False
        """Whether the last step failed."""
        self._failures = 0  # in a row, since listeners heard of one from here
        self._over = False
        self._after_fork()
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Begin without a thread: at first, and in a forked child."""
        # No Event: a signal handler may put during a put, and would find the lock of the Event taken.
        self._wake: SimpleQueue[bool] = SimpleQueue()  # True ends the thread, False wakes it
        self._starting = threading.RLock()
        self._thread: threading.Thread | None = None
        weakref.finalize(self, self._wake.put, True)

    # ---- the thread -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread if it does not run, as in a forked child."""
        if self._thread is None or not self._thread.is_alive():
            with self._starting:
                if not self._over and (self._thread is None or not self._thread.is_alive()):
                    work = (weakref.ref(self), self._wake)
                    thread = threading.Thread(target=_work, args=work, name="pywheel-spool", daemon=True)
                    with suppress(RuntimeError):  # no thread is available, or the interpreter ends: puts go on
                        thread.start()
                        self._thread = thread

    def wake(self) -> None:
        """Have the thread look at the spool: now, or if the store is away, at the next try."""
        self.start()
        self._wake.put(False)

    def stop(self) -> None:
        """End the thread, after the step under way. Idempotent."""
        self._over = True
        self._wake.put(True)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def step(self) -> float:
        """Forward waiting puts; return the seconds until the next step. Raises no StoreError."""
        try:
            forwarded = self.forward()
        except StoreClosed:
            return _IDLE
        except StoreError as error:
            if self.failing:
                self._failures += self._failures > 0
            else:
                self.failing, self._tries = True, pauses(*_BACKOFF)
                if self._breaker.away is None:  # otherwise listeners know
                    self._failures = 1
                    self._tell(StoreFailed(error, 1, 0))
            return next(self._tries)
        self.failing = False
        if forwarded and self._failures:
            failures, self._failures = self._failures, 0
            self._tell(StoreBack(failures))
        return _IDLE * random.uniform(0.5, 1) if forwarded else _TAKEN * random.uniform(0.5, 1)

    # ---- forwarding -------------------------------------------------------------------------------------------------

    def forward(self) -> bool:
        """Forward waiting puts. False if another process forwards."""
        away = self._breaker.away
        store = self._breaker.probe()
        while not self._over:
            try:
                batch = self._spool.take()
            except StoreFull:  # the spool can neither forward nor keep: new puts try the store
                self._breaker.back(away)
                raise
            if batch:
                away = self._breaker.away  # what failed before this call; another thread may have recorded it only now
                self._send(store, batch, away)
            self._breaker.back(away)  # not earlier: a store that answers may still be unable to write
            if not batch:
                self._spool.prune()
                return batch is not None
        return True

    def drain(self, seconds: float) -> None:
        """Forward, in this thread, until no put waits.

        StoreBusy if another process forwards all the time, for `seconds`; StoreError if the store cannot take a put.
        """
        until = time.monotonic() + seconds
        while not self.forward():
            if time.monotonic() >= until:
                raise StoreBusy(f"another process has been forwarding for {seconds:g} s: look again later")
            time.sleep(_TAKEN)

    def _send(self, store: Store, batch: Sequence[Waiting], away: StoreError | None) -> None:
        """Send puts in one transaction. If that fails although the store is there, send them one by one."""
        try:
            outcomes = list(map(_arrived, batch, intact(store.apply([waiting.put for waiting in batch]))))
        except AWAY as error:
            self._breaker.failed(error)
            self._spool.give_back(batch)
            raise
        except Exception as error:
            self._breaker.back(away)
            if isinstance(error, StoreError) and type(error) is not StoreError:  # full or closed: every put would fail
                self._spool.give_back(batch)
                raise
            if len(batch) > 1:
                self._send_each(store, batch, away)
                return
            if not self._spool.failed(batch[0], error):
                raise StoreError(f"a put of the spool cannot be forwarded: {error}") from error
            outcomes = [PywheelError(f"{type(error).__name__}: {error}")]
        else:
            self._spool.settle(batch, outcomes)
        self._say(batch, outcomes)

    def _send_each(self, store: Store, batch: Sequence[Waiting], away: StoreError | None) -> None:
        for at, waiting in enumerate(batch):
            try:
                self._send(store, [waiting], away)
            except BaseException:
                self._spool.give_back(batch[at + 1 :])
                raise

    def _say(self, batch: Sequence[Waiting], outcomes: Sequence[Any]) -> None:
        forwarded: Counter[str] = Counter()
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if not isinstance(outcome, BaseException):
                forwarded.update(job.topic for job in waiting.put.jobs)
                continue
            for row, job in zip(waiting.rows, waiting.put.jobs, strict=True):
                self._tell(JobRefused(-row.id, job.topic, job.key, str(outcome)))
        for topic, jobs in forwarded.items():
            self._tell(JobsForwarded(topic, jobs))


def _arrived(waiting: Waiting, outcome: Any) -> Any:
    """Return the outcome of a put; an error if it is another put's, because a job would be lost silently."""
    if isinstance(outcome, list) and len(outcome) != len(waiting.put.jobs):
        return PywheelError(f"the store knows this put as one of {len(outcome)} jobs, not {len(waiting.put.jobs)}")
    return outcome


def _work(of: weakref.ref[Forwarder], wake: SimpleQueue[bool]) -> None:
    while True:
        forwarder = of()
        if forwarder is None or forwarder._over:
            return
        try:
            pause = forwarder.step()
        except Exception:
            _LOGGER.exception("forwarding from the spool failed, and is tried again")
            pause = _IDLE
        failing = forwarder.failing
        del forwarder
        _wait(wake, pause, patiently=failing)


def _wait(wake: SimpleQueue[bool], seconds: float, *, patiently: bool) -> None:
    """Wait until a wake-up, the end, or this time. `patiently`: a wake-up does not end the wait."""
    until = time.monotonic() + seconds
    over = False
    with suppress(Empty):
        while not over:
            ends = wake.get(timeout=max(until - time.monotonic(), 0.0))
            over = ends or not patiently
        while True:  # earlier wake-ups are served by the next step
            wake.get_nowait()
