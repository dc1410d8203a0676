"""A topic's jobs in this worker: those that run, and those that wait for that. And what they run on.

A runner may be unable to start anything: a handler blocks the loop, or the system has no thread to give. Then it is
*blocked*, and the worker claims nothing for it until it starts something again.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from ...clock import Clock
from ...events import Events, JobStarted
from ...execution import Execution
from ...jobs.handler import Handler
from ...jobs.job import Job
from ...jobs.results import result_of
from ..leases import Lease

__all__ = ["Outside", "Pool", "Runner"]

_LOGGER: Final = logging.getLogger("pywheel.jobs")


class Runner:
    """Starts what pools give it, as soon as it can. All pools of a kind share one."""

    blocked = False
    """Whether what should have started did not, and nothing has shown since that it could."""
    _refused = False  # the system has no thread; said once

    def block(self) -> None:
        """Note that what should have started did not."""
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
    """What a pool needs of its worker. All may be called from any thread."""

    done: Callable[[Lease], None]
    clock: Clock
    events: Events
    admit: Callable[[Job], None] = lambda _: None
    """Asked before a tick of a schedule is handled: what it raises is what its handler would have raised."""


class Pool(ABC):
    """Runs one topic's handler, up to `concurrency` at once; the rest of what it was fed waits in it.

    A job waits in `_queue` until the very moment at which it starts: so it can be taken back until then.
    """

    def __init__(self, handler: Handler, outside: Outside, runner: Runner) -> None:
        self.handler = handler
        self.runner = runner
        self.done, self._clock, self._events, admit = outside
        keep = result_of if handler.results else None
        self._execution = Execution(handler.function, outside.events, keep=keep, admit=admit)
        self._queue: deque[Lease] = deque()
        self._stopped = False

    @abstractmethod
    def feed(self, leases: list[Lease]) -> None:
        """Take claimed jobs. Only the dispatcher calls this."""

    def tend(self, now: float) -> float | None:  # noqa: ARG002  (a pool that needs no tending)
        """See to it that what waits goes on; return when to call again, None if there is no need. By the dispatcher."""
        return None

    @property
    def waiting(self) -> int:
        """How many jobs wait in it."""
        return len(self._queue)

    def pause(self) -> None:  # noqa: B027  (most pools have nothing to do)
        """Let nothing begin that waits for more than a place, as for its process. By the dispatcher."""

    def take_back(self) -> list[Lease]:
        """Return the jobs that were not started; they never will be."""
        back: list[Lease] = []
        with suppress(IndexError):
            while True:
                back.append(self._queue.popleft())
        return back

    def stop(self) -> None:
        """Start nothing more; do not wait."""
        self._stopped = True

    def cancel(self) -> None:
        """Cancel what runs, where that can be done: it is given back unspent."""
        self.stop()

    def _starts(self, lease: Lease) -> bool:
        """Whether the handler may start now; if not, somebody else may have the job by now."""
        now = self._clock.time()
        late = -self._clock.until(lease.job.due)  # negative if the clock was stepped back since the claim
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
