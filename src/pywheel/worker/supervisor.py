"""The supervisor: several worker processes, kept alive.

It starts N workers and restarts one that dies, or whose dispatcher stands still, after a pause that grows while they go
on dying. SIGTERM drains them all; SIGHUP replaces them one by one, each by one that is up before the old one drains.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from .._errors import BadJob
from ..jobs.durations import Duration, duration

__all__ = ["Supervisor", "WorkerProcess"]

_LOGGER: Final = logging.getLogger("pywheel.supervisor")
_BACKOFF: Final = (0.1, 30.0)  # seconds before a restart: first, longest
_STEADY: Final = 10.0  # seconds of life after which a death is not one of a loop
_LOOP: Final = 5  # deaths in a row that are called a crash loop
_LOOK: Final = 0.25
_SLOW_START: Final = 60.0  # seconds that a program may take to import


class WorkerProcess:
    """One child, and what it last said of itself."""

    def __init__(self, command: list[str]) -> None:
        ours, theirs = os.pipe()
        try:
            self.process = subprocess.Popen(
                [*command, str(theirs)],
                pass_fds=[theirs],
                process_group=0,  # Ctrl-C on a terminal is for the supervisor, who tells them once
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        self.pipe = ours
        self.started = self.heard = time.monotonic()
        self.ready = False
        self.drains_since: float | None = None
        self.counts: Counter[str] = Counter()
        self.late: list[float] = []
        self._rest = b""

    def read(self) -> None:
        """Take in its reports."""
        with suppress(BlockingIOError):
            while content := os.read(self.pipe, 1 << 16):
                *lines, self._rest = (self._rest + content).split(b"\n")
                for line in lines:
                    report = json.loads(line)
                    self.heard = time.monotonic()
                    self.ready |= report["ready"]
                    self.counts = Counter(report["counts"])
                    self.late = (self.late + report["late"])[-2_000:]

    @property
    def draining(self) -> bool:
        """Whether it was told to end."""
        return self.drains_since is not None

    def drain(self) -> None:
        """Tell it to end; told again, it does so at once."""
        if self.drains_since is None:
            self.drains_since = time.monotonic()
        self.tell(signal.SIGTERM)

    def tell(self, number: int) -> None:
        """Send it a signal."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def close(self) -> None:
        """Reap it."""
        self.process.wait()
        os.close(self.pipe)


class Supervisor:
    """Runs ``processes`` workers of a program named by ``module:name``, each as `Worker` with these options.

    Args:
        target: such as ``"shop.jobs:queue"``.
        processes: how many.
        stall: how long a dispatcher may stand still before its process is killed and replaced.
        options: of `Worker`, as JSON can say them.

    Raises:
        BadJob: processes is less than 1, or a duration makes no sense.
    """

    def __init__(self, target: str, processes: int = 2, *, stall: Duration = 30, **options: Any) -> None:
        if isinstance(processes, bool) or not isinstance(processes, int) or not 1 <= processes <= 1_000:
            raise BadJob(f"processes must be a whole number from 1 to 1000, not {processes!r:.40}")
        self._command = [sys.executable, "-m", "pywheel.worker.child", target, json.dumps(options)]
        self._processes = processes
        self._stall = duration(stall, "stall") / 1000
        self._grace = duration(options.get("grace", 30), "grace") / 1000
        self.workers: list[WorkerProcess] = []
        self._gone: Counter[str] = Counter()
        self._deaths = 0
        self._start_at = 0.0
        self._renew: list[WorkerProcess] = []
        self._stopping = 0
        self._hup = False
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = os.pipe()
        for file in (self._wake_in, self._wake_out):
            os.set_blocking(file, False)
        self._selector.register(self._wake_in, selectors.EVENT_READ)

    @property
    def counts(self) -> Counter[str]:
        """What all workers did, those that are gone too: ``claimed``, ``done``, ``failed delayed``, ``failed dead``, ``lost``."""
        return sum((worker.counts for worker in self.workers), Counter(self._gone))

    @property
    def late(self) -> list[float]:
        """How late the latest jobs started, in seconds, sorted."""
        return sorted(late for worker in self.workers for late in worker.late)

    def run(self, look: Callable[[], object] | None = None) -> None:
        """Work until `stop`, or, in the main thread, until SIGTERM or SIGINT; a second signal ends the grace period.

        SIGHUP replaces all workers, one by one. `look` is called some times a second: for a live view.
        """
        with self._signals():
            try:
                while not self._stopping or self.workers:
                    self._turn()
                    if look is not None:
                        look()
            finally:
                for worker in self.workers:
                    worker.tell(signal.SIGKILL)
                    worker.close()
                self.workers = []

    def stop(self) -> None:
        """Drain all workers. Called again: at once. From any thread, and from signal handlers."""
        self._stopping += 1
        self._wake()

    def reload(self) -> None:
        """Replace all workers, one by one. From any thread, and from signal handlers."""
        self._hup = True
        self._wake()

    # ---- one turn ---------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        for key, _ in self._selector.select(_LOOK):
            if key.fileobj == self._wake_in:
                with suppress(BlockingIOError):
                    os.read(self._wake_in, 1 << 10)
            else:
                key.data.read()
        self._reap()
        self._kill_stalled()
        if self._stopping:
            self._drain_all()
            return
        if self._hup:
            self._hup = False
            self._renew = [worker for worker in self.workers if not worker.draining]
            _LOGGER.info("replacing %d workers", len(self._renew))
        self._replace()
        self._fill()

    def _reap(self) -> None:
        for worker in [worker for worker in self.workers if worker.process.poll() is not None]:
            worker.read()
            self._selector.unregister(worker.pipe)
            worker.close()
            self.workers.remove(worker)
            self._gone += worker.counts
            if worker in self._renew:
                self._renew.remove(worker)
            if not worker.draining and not self._stopping:
                self._died(worker)

    def _died(self, worker: WorkerProcess) -> None:
        """Note a death that was not asked for."""
        lived = time.monotonic() - worker.started
        self._deaths = 1 if lived > _STEADY else self._deaths + 1
        first, longest = _BACKOFF
        pause = min(first * 2 ** min(self._deaths - 1, 20), longest)
        self._start_at = time.monotonic() + pause
        loop = f": a crash loop, {self._deaths} in a row" if self._deaths >= _LOOP else ""
        _LOGGER.error(
            "worker %d ended with %s after %.1f s; the next one starts in %.1f s%s",
            worker.process.pid,
            worker.process.returncode,
            lived,
            pause,
            loop,
        )

    def _kill_stalled(self) -> None:
        """Kill workers whose dispatcher stands still, and those that have not ended long after their grace."""
        now = time.monotonic()
        for worker in self.workers:
            limit = self._stall if worker.ready else max(self._stall, _SLOW_START)
            since = (
                worker.heard if worker.drains_since is None else max(worker.heard, worker.drains_since + self._grace)
            )
            if now - since > limit:
                _LOGGER.error("worker %d stood still for %.0f s: killed", worker.process.pid, limit)
                worker.tell(signal.SIGKILL)
                worker.heard = now

    def _replace(self) -> None:
        """Let one old worker drain for each new one that is up beyond the number wanted."""
        up = sum(worker.ready and not worker.draining for worker in self.workers)
        if self._renew and up > self._processes:
            self._renew.pop(0).drain()

    def _fill(self) -> None:
        wanted = self._processes + bool(self._renew)
        there = sum(not worker.draining for worker in self.workers)
        if there < wanted and time.monotonic() >= self._start_at:
            self._start()

    def _start(self) -> None:
        try:
            worker = WorkerProcess(self._command)
        except OSError as error:
            _LOGGER.error("no worker can be started: %s", error)  # noqa: TRY400  (the system says why)
            self._start_at = time.monotonic() + _BACKOFF[1]
            return
        self.workers.append(worker)
        self._selector.register(worker.pipe, selectors.EVENT_READ, worker)
        self._wake()

    def _drain_all(self) -> None:
        for worker in self.workers:
            if not worker.draining or self._stopping > 1:
                worker.drain()
        self._stopping = 1

    # ---- signals ----------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        with suppress(OSError):
            os.write(self._wake_out, b"w")

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        actions: dict[int, Callable[..., None]] = {
            signal.SIGTERM: lambda *_: self.stop(),
            signal.SIGINT: lambda *_: self.stop(),
        }
        if hasattr(signal, "SIGHUP"):
            actions[signal.SIGHUP] = lambda *_: self.reload()
        before = {number: signal.signal(number, action) for number, action in actions.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
