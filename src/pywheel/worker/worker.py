"""The worker of a process or a thread: `run` blocks its caller, and coroutine handlers run on the worker's own loop."""

from __future__ import annotations

import signal
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Unpack

from .._errors import BadOption, StoreClosed, StoreReplaced
from ..jobs.durations import Duration, duration
from ..jobs.new_job import misspelt
from .base import BaseWorker, Program, WorkerOptions, log_end
from .executors.coroutines import OwnLoop

_HANG_UP: Final = getattr(signal, "SIGHUP", None)


class Worker(BaseWorker):
    """Runs the handlers of a program, a JobQueue. Any number of workers, in any number of processes, may share a store.

    `AsyncWorker` runs coroutine handlers on the program's own loop.

    Args:
        program: the program with the handlers and the store.
        topics: the topics to work on; by default all that have a handler.
        concurrency: how many jobs of all topics together run at once in this worker; None: as many as the handlers
            allow. The next place goes to the topic that has waited longest. The worker claims no more jobs than can
            begin at once, and leaves the rest to other workers; very quick jobs are handled faster without this
            option. A handler that runs on after its ttr frees its place, as another worker may have its job.
        grace: how long handlers may go on after `stop`.
        keep: how long done and cancelled jobs and their history are kept; by default a day. Dead jobs are kept for
            30 days, or for `keep` if that is longer. None: all are kept for ever. If the workers of a store differ,
            the longest time counts.
        name: the worker's name in the history; by default host and process.
        max_bytes: how many bytes of bodies may wait for their handlers.
        pulse: called at each turn of the dispatcher, as ``pulse(ready=bool)``, so that a watchdog sees it go on.
        loop_factory: makes the loop of coroutine handlers, such as `uvloop.new_event_loop`; by default asyncio's.

    Raises:
        BadOption: there is no handler, or none for one of the topics, or another process would not find an isolated
            one. Or every job of a task would fail: a type cannot be found or read, or a parameter has no provider.
        StoreError: the store cannot be used.
    """

    def __init__(
        self,
        program: Program,
        *,
        loop_factory: Callable[[], AbstractEventLoop] | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        misspelt(options, WorkerOptions, "a Worker")
        super().__init__(program, OwnLoop(loop_factory), **options)
        self._thread: threading.Thread | None = None
        self._began = False

    def run(self) -> None:
        """Work until `stop`, or, in the main thread, until SIGTERM, SIGINT or SIGHUP.

        A second signal ends the grace period. A second SIGHUP does not: a closed terminal may send several.

        Raises:
            StoreClosed: the store was closed meanwhile.
            StoreReplaced: the store's files were deleted or replaced. Running handlers get their grace first.
            RuntimeError: this worker works already, or has worked before.
        """
        self._begin()
        with stop_on_signals(self.stop, lambda: self.told_to_stop):
            self.work()

    def start(self) -> None:
        """Start to work in a new daemon thread. Call `stop`, then `join`, to end it.

        RuntimeError: this worker works already, or has worked before; or the system has no thread left.
        """
        self._begin()
        self._thread = threading.Thread(target=self._run_quietly, name="pywheel-worker", daemon=True)
        self._thread.start()

    def join(self, timeout: Duration | None = None) -> bool:
        """Wait up to `timeout`, or without limit, for a started worker to end; return whether it has ended."""
        seconds = None if timeout is None else duration(timeout, "timeout", error=BadOption) / 1000
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _begin(self) -> None:
        if self._began:
            raise RuntimeError("a Worker works once: make another one")
        self._began = True

    def _run_quietly(self) -> None:
        try:
            self.work()
        except (StoreClosed, StoreReplaced) as error:
            log_end(error)


def stop_on_signals(stop: Callable[[], object], told_to_stop: Callable[[], bool]) -> AbstractContextManager[None]:
    """Call `stop` at each SIGTERM and SIGINT, and at the first SIGHUP, if in the main thread."""
    actions: dict[int, Callable[[], object]] = {signal.SIGINT: stop, signal.SIGTERM: stop}
    if _HANG_UP is not None and signal.getsignal(_HANG_UP) is not signal.SIG_IGN:  # nohup ignores it
        actions[_HANG_UP] = lambda: None if told_to_stop() else stop()
    return on_signals(actions)


@contextmanager
def on_signals(actions: Mapping[int, Callable[[], object]]) -> Iterator[None]:
    """Call functions on signals within this context, if in the main thread; elsewhere do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda number, _: actions[number]()) for number in actions}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
