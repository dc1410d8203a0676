"""The supervisor: several worker processes, kept alive.

It starts N workers. It replaces a worker that dies, or whose dispatcher stands still, after a pause that grows with
each death in a row. SIGTERM drains all workers. SIGHUP replaces them one by one; each new one is up before an old one
drains.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import wait
from typing import Any, Final, Unpack

from .. import _errors
from .._errors import BadJob, BadOption, PywheelError, StoreError
from ..execution.loading import end_of, interpreter, no_worker_while_importing
from ..jobs.checks import whole
from ..jobs.durations import Duration, duration
from ..observe import logs
from ..worker.base import WorkerOptions
from ..worker.worker import on_signals

_LOGGER: Final = logging.getLogger("pywheel.supervisor")
_BACKOFF: Final = (0.1, 5.0)  # seconds before a restart: first, longest. Jobs wait meanwhile
_STEADY: Final = 10.0  # seconds of life after which a death does not count as part of a crash loop
_LOOP: Final = 5  # deaths in a row that are called a crash loop
_LOOK: Final = 0.25
_ASLEEP: Final = 2.0  # seconds between two turns after which the supervisor itself stood still
_SLOW_START: Final = 60.0  # seconds that a program may take to import
_MOST_TEXT: Final = 1 << 16  # bytes of a report's line; a longer line is not a report
STOP_NOW: Final = signal.SIGQUIT if hasattr(signal, "SIGQUIT") else signal.SIGTERM
"""The signal that ends the grace of a draining worker. A second SIGTERM does not: a service manager may send it to all
processes, and the supervisor also sends it."""


class WorkersFailed(PywheelError):
    """No worker process of a program could begin to work."""


class Supervisor:
    """Runs ``processes`` workers of a program named by ``module:name``, each as `Worker` with these options.

    Args:
        target: the program, such as ``"shop.jobs:queue"``. The workers import it, not the supervisor.
        processes: the number of workers.
        stall: how long a dispatcher may stand still before its process is killed and replaced.
        store: the address of a store to use instead of the program's own.
        metrics: host and port: each process serves its own ``/metrics``, ``/healthz`` and ``/readyz`` there, on the
            first free port from this one on. While processes are replaced, up to twice as many ports are in use.
        options: the options of `Worker`.

    Raises:
        BadOption: processes is less than 1, a duration makes no sense, or an option cannot be sent to another process.
    """

    def __init__(
        self,
        target: str,
        processes: int = 2,
        *,
        stall: Duration = 30,
        store: str | None = None,
        metrics: tuple[str, int] | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        no_worker_while_importing()
        if os.name == "nt":
            raise BadOption("worker processes need POSIX: start workers one by one yourself, without reload")
        told = {
            "store": store,
            "options": options,
            "log": logs.present(),
            "metrics": None if metrics is None else [metrics[1], metrics[0], 2 * processes],
        }
        try:
            self._told = json.dumps(told, default=_plain).encode()
        except (TypeError, ValueError) as error:
            raise BadOption(f"an option cannot be passed to another process: {error}") from None
        self._command = [*interpreter(), "-m", "pywheel.processes.child", target]
        self._processes = whole(processes, "processes", 1_000, error=BadOption)
        self._stall = duration(stall, "stall", error=BadOption) / 1000
        self._grace = duration(options.get("grace", 30), "grace", error=BadOption) / 1000
        self.workers: list[_WorkerProcess] = []
        self.about: dict[str, Any] = {}
        """The ``store`` and the ``topics`` that a worker reported, of thousands the first. Empty until one is up."""
        self._deaths = 0  # in a row
        self._start_at = 0.0
        self._renew: list[_WorkerProcess] = []  # workers of the old version
        self.stopping = False
        """Whether all workers drain, or have ended."""
        self._stops = 0  # calls of `stop`
        self._hup = False
        self._error: PywheelError | None = None
        self._turned = time.monotonic()
        self._terminal = False
        self._ear, self._mouth = socket.socketpair()
        self._ear.setblocking(False)
        self._mouth.setblocking(False)

    def run(self, look: Callable[[], object] | None = None) -> None:
        """Work until `stop`, or, in the main thread, until SIGTERM or SIGINT; a second signal ends the grace period.

        SIGHUP replaces all workers, one by one; if the terminal was closed, it stops them. `look` is called several
        times a second, so that the caller can report on the workers. Call `run` once only.

        Raises:
            BadOption: there is no such program, or it cannot work with these options.
            StoreError: the program's store cannot be used.
            WorkersFailed: the program cannot be imported, or all first processes ended before they were up.
        """
        self._terminal = _on_terminal()
        with on_signals({signal.SIGTERM: self.stop, signal.SIGINT: self.stop, signal.SIGHUP: self._hang_up}):
            try:
                while not self.stopping or self.workers:
                    self._turn()
                    if look is not None:
                        look()
            finally:
                self._close()
        if self._error is not None and not self._stops:  # after `stop` the error does not matter
            raise self._error

    def stop(self) -> None:
        """Drain all workers; a second call ends their grace. Any thread or signal handler may call this."""
        self._stops += 1
        self.stopping = True
        self._wake()

    def reload(self) -> None:
        """Replace all workers, one by one. Any thread or signal handler may call this."""
        self._hup = True
        self._wake()

    # ---- one turn ---------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        if self._ear in wait([self._ear, *(worker.pipe for worker in self.workers if not worker.ended)], _LOOK):
            self._ear.recv(1 << 10)
        for worker in self.workers:
            self._hear(worker)
        self._reap()
        self._kill_stalled()
        if self.stopping:
            self._drain_all()
            return
        if self._hup:
            self._begin_renewal()
        self._replace()
        self._fill()

    def _hear(self, worker: _WorkerProcess) -> None:
        """Take in a worker's reports; the first worker that is up shows that the program can work."""
        worker.read()
        if worker.ready and not worker.draining:
            self.about = {name: worker.about.get(name) for name in ("store", "topics")}

    def _reap(self) -> None:
        for worker in [worker for worker in self.workers if worker.gone]:
            self._hear(worker)  # its last reports, which may be the first that say that it was up
            worker.close()
            self.workers.remove(worker)
            if not worker.draining and not self.stopping:
                self._died(worker)
            if worker in self._renew:
                self._renew.remove(worker)

    def _died(self, worker: _WorkerProcess) -> None:
        """Take in the end of a worker that this supervisor did not ask for."""
        lived = time.monotonic() - worker.started
        level, why = (logging.INFO, "it was told to stop") if worker.stopped else (logging.ERROR, worker.reason)
        # If jobs ended well, some job kills its worker: the other jobs must not wait for long.
        self._deaths = 1 if lived > _STEADY or worker.worked or worker.stopped else self._deaths + 1
        if worker.failed is not None and worker.failed["trace"]:
            _LOGGER.error("the program cannot be imported\n%s", worker.failed["trace"].rstrip())
        renewed = self._hup or worker in self._renew  # then the next one is of a newer version, which may begin
        if not self.about and not renewed and (worker.failed is not None or self._deaths >= self._processes):
            self._give_up(worker)
            return
        pause = min(_BACKOFF[0] * 2 ** min(self._deaths - 1, 20), _BACKOFF[1])
        now = time.monotonic()
        self._start_at = min(self._start_at, now + pause) if self._start_at > now else now + pause  # as logged before
        then = f"the next one starts in {pause:.1f} s"
        if self._deaths >= _LOOP:
            then += f": a crash loop, {self._deaths} in a row"
        if self._renew and not worker.ready and worker not in self._renew:
            level, old = logging.ERROR, len(self._renew)
            then = f"the new version does not start; {old} workers of the old one go on, and nothing more is replaced"
            self._renew = []
        _LOGGER.log(level, "worker %d ended after %.1f s: %s; %s", worker.pid, lived, why, then)

    def _give_up(self, worker: _WorkerProcess) -> None:
        """End with an error: no worker was ever up, and the next one would fail in the same way."""
        kind: Any = getattr(_errors, (worker.failed or {}).get("failed", ""), None)
        if isinstance(kind, type) and issubclass(kind, BadJob | BadOption | StoreError):
            self._error = kind(worker.reason)
        else:
            self._error = WorkersFailed(f"no worker could begin: {worker.reason}")
        self.stopping = True

    def _kill_stalled(self) -> None:
        """Kill workers whose dispatcher stands still, and workers that run on long after their grace."""
        now = time.monotonic()
        asleep, self._turned = now - self._turned - _LOOK, now
        for worker in self.workers:
            if asleep > _ASLEEP:  # this process stood still, and perhaps all workers with it
                worker.heard = max(worker.heard, now - _LOOK)
            limit = self._stall if worker.ready else max(self._stall, _SLOW_START)
            since = worker.heard
            if worker.drains_since is not None:
                since = max(since, worker.drains_since + (self._grace if worker.ready else 0))
            if now - since > limit:
                _LOGGER.error("worker %d stood still for %.1f s: killed", worker.pid, limit)
                worker.tell(signal.SIGKILL)
                worker.heard = now

    def _begin_renewal(self) -> None:
        self._hup = False
        again = ", beginning again with the replacement" if self._renew else ""
        self._renew = [worker for worker in self.workers if not worker.draining]
        _LOGGER.info("replacing %d workers%s", len(self._renew), again)

    def _replace(self) -> None:
        """Drain one old worker, if more workers are up than wanted."""
        up = sum(worker.ready and not worker.draining for worker in self.workers)
        if self._renew and up > self._processes:
            self._renew.pop(0).drain()
            if not self._renew:
                _LOGGER.info("all workers are replaced")

    def _fill(self) -> None:
        """Start a worker if one is missing."""
        there = sum(not worker.draining for worker in self.workers)
        if there >= self._processes + bool(self._renew) or time.monotonic() < self._start_at:
            return
        try:
            worker = _WorkerProcess(self._command, self._told)
        except OSError as error:
            _LOGGER.error("no worker can be started: %s", error)  # noqa: TRY400  (the message says why)
            self._start_at = time.monotonic() + _BACKOFF[1]
            return
        self.workers.append(worker)
        self._wake()

    def _drain_all(self) -> None:
        if self._stops > 1 and self._grace:
            self._grace = 0.0
            for worker in self.workers:
                if worker.draining:
                    worker.drains_since = time.monotonic()
        for worker in self.workers:
            if self._stops > 1 and worker.draining:
                worker.tell(STOP_NOW)  # at each turn: a signal may be lost if another one is pending
            worker.drain()

    def _close(self) -> None:
        for worker in self.workers:
            worker.tell(signal.SIGKILL)
            worker.close()
        self.workers = []
        self._ear.close()
        self._mouth.close()

    # ---- signals ----------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        with suppress(OSError):
            self._mouth.send(b"w")

    def _hang_up(self) -> None:
        """Replace all workers, or stop if the terminal was closed."""
        if self._terminal and not _on_terminal():
            self._terminal = False
            self.stop()
        else:
            self.reload()


class _WorkerProcess:
    """One child and its last report.

    Raises:
        OSError: the system has no process or no descriptor left.
    """

    def __init__(self, command: list[str], told: bytes) -> None:
        ours, theirs = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*command, str(theirs)],
                stdin=subprocess.PIPE,
                pass_fds=[theirs],
                process_group=0,  # Ctrl-C on a terminal goes to the supervisor, which drains them
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        assert self._process.stdin is not None
        # Not as arguments, which every user of this host can read. The child may have ended already.
        with suppress(BrokenPipeError), self._process.stdin as order:
            order.write(told)
        os.set_blocking(ours, False)
        self.pipe = ours
        self.pid = self._process.pid
        self.started = self.heard = time.monotonic()
        self.ready = False
        self.ended = False
        """Whether the child will send no more reports."""
        self.stopped = False
        """Whether the child has drained: by a signal of its own, or as the page or the command line told it."""
        self.drains_since: float | None = None
        self.worked = False
        """Whether a job in this child has ended well."""
        self.about: dict[str, Any] = {}
        self.failed: dict[str, str] | None = None
        """The child's report of why it could not begin, or go on, if it sent one."""
        self._rest = b""

    def read(self) -> None:
        """Take in the child's reports."""
        try:
            while content := os.read(self.pipe, 1 << 16):
                *lines, self._rest = (self._rest + content).split(b"\n")
                self._rest = self._rest[-_MOST_TEXT:]
                for line in lines:
                    self._hear(line)
            self.ended = True
        except BlockingIOError:
            pass

    def _hear(self, line: bytes) -> None:
        try:
            report = json.loads(line)
            if "failed" in report:
                self.failed = {name: str(report[name]) for name in ("failed", "text", "trace")}
                return
            if "stopped" in report:
                self.stopped = True
                return
            self.ready |= report["ready"]
            self.worked |= report["worked"]
            self.about = report
        except (ValueError, TypeError, KeyError, RecursionError):  # no report: a handler has written into the pipe
            return
        self.heard = time.monotonic()

    @property
    def draining(self) -> bool:
        """Whether this supervisor has told the child to end."""
        return self.drains_since is not None

    def drain(self) -> None:
        """Tell the child to end, once."""
        if self.drains_since is None:
            self.drains_since = time.monotonic()
            self.tell(signal.SIGTERM)

    def tell(self, number: int) -> None:
        """Send a signal to the child."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    @property
    def gone(self) -> bool:
        """Whether the process has ended; then it is reaped."""
        return self._process.poll() is not None

    @property
    def reason(self) -> str:
        """How the child has ended, in words."""
        if self.failed is not None:
            return self.failed["text"]
        return end_of(self._process.returncode)

    def close(self) -> None:
        """Wait for the child's end."""
        self._process.wait()
        os.close(self.pipe)


def _on_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _plain(value: object) -> object:
    """Return an option in a form that JSON has."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{value!r:.80} is neither text nor number")
