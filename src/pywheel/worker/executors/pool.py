"""A pool: the running and waiting jobs of a topic in this worker. And a runner: the threads or the loop they run on.

A runner may be unable to start anything: a handler blocks the loop, or the system has no thread left. Then it is
*blocked*, and the worker claims nothing for it until it starts something again. So is a pool while it gets ready.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final, NamedTuple

from ...clock import Clock
from ...events import Events, JobStarted
from ...execution import Execution
from ...jobs.handler import Handler
from ...jobs.job import Job
from ...jobs.results import result_of
from ..leases import Lease

_LOGGER: Final = logging.getLogger("pywheel.jobs")


class Runner:
    """The starter of the jobs of pools. All pools of a kind share one."""

    blocked = False
    """Whether a job that should have started did not, and nothing has started since."""
    _refused = False  # whether the system had no thread; logged once

    def block(self) -> None:
        """Note that a job that should have started did not."""
        self.blocked = True

    def tend(self) -> None:
        """Start the threads that are missing; if the system refuses, the next call tries again."""

    def _start(self, name: str, target: Callable[[], None]) -> bool:
        try:
            threading.Thread(target=target, name=name, daemon=True).start()
        except RuntimeError as error:
            if not self._refused:
                _LOGGER.warning("no thread for handlers, their jobs are left to other workers: %s", error)
            self._refused = True
        else:
            self._refused = False
        return not self._refused


class Outside(NamedTuple):
    """The parts of the worker that a pool uses. Any thread may call them."""

    done: Callable[[Lease], None]
    wake: Callable[[], None]
    clock: Clock
    events: Events
    admit: Callable[[Job], None] = lambda _: None
    """Called before a job that may be skipped runs: its error counts as the handler's."""
    alive: Callable[[], float] = lambda: inf
    """Returns when the worker last sent a sign of life."""


class Pool(ABC):
    """The pool of one topic: up to `concurrency` of its jobs run at once, the others wait.

    A job waits in `_queue` until the moment it starts, and can be taken back until then.
    """

    prepared = True
    """Whether the pool can start jobs, or has found that it cannot."""

    def __init__(self, handler: Handler, outside: Outside, runner: Runner) -> None:
        self.handler = handler
        self.runner = runner
        self.done, self._wake, self._clock, self._events, admit, self._alive = outside
        keep = result_of if handler.results else None
        self._execution = Execution(handler.function, outside.events, keep=keep, admit=admit)
        self._queue: deque[Lease] = deque()
        self._stopped = False

    @property
    def blocked(self) -> bool:
        """Whether jobs cannot start now."""
        return not self.prepared or self.runner.blocked

    def prepare(self) -> None:  # noqa: B027  (most pools have nothing to do)
        """Get ready to start jobs. Only the dispatcher calls this, before it claims, and maybe again."""

    @abstractmethod
    def feed(self, leases: list[Lease]) -> None:
        """Take claimed jobs. Only the dispatcher calls this."""

    def tend(self, now: float) -> float | None:  # noqa: ARG002  (a pool that needs no tending)
        """Help waiting jobs to start; return when to call again, or None. Only the dispatcher calls this."""
        return None

    @property
    def waiting(self) -> int:
        """The number of waiting jobs."""
        return len(self._queue)

    def pause(self) -> None:  # noqa: B027  (most pools have nothing to do)
        """Give back the jobs that still wait for their process. Only the dispatcher calls this."""

    def take_back(self) -> list[Lease]:
        """Return the jobs that have not started, and never will here."""
        back: list[Lease] = []
        with suppress(IndexError):
            while True:
                back.append(self._queue.popleft())
        return back

    def stop(self) -> None:
        """Start nothing more; do not wait."""
        self._stopped = True

    def cancel(self) -> None:
        """Cancel the running jobs, where that is possible, and give them back unspent."""
        self.stop()

    def _starts(self, lease: Lease) -> bool:
        """Note the start of a job, and return whether it may start. If not, another worker may have it by now."""
        now = self._clock.time()
        late = lease.ahead - self._clock.until(lease.job.due)  # negative if the clock was stepped back since the claim
        if self._stopped or late < 0 or now >= lease.start_by:
            lease.handled = False
            self._ended(lease)
            return False
        lease.started = now
        if self._events.listeners:
            self._events.emit(JobStarted(lease.job, late))
        return True

    def _ended(self, lease: Lease) -> None:
        lease.ended = self._clock.time()
        self.done(lease)
