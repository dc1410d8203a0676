"""The worker of a process, or of a thread: it blocks who runs it, and its coroutine handlers have a loop of its own."""

from __future__ import annotations

import signal
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Unpack

from .._errors import StoreClosed, StoreReplaced
from ..jobs.new_job import misspelt
from .base import BaseWorker, Program, WorkerOptions, log_end
from .executors import OwnLoop

__all__ = ["Worker", "on_signals", "stop_on_signals"]

_HANG_UP: Final = getattr(signal, "SIGHUP", None)


class Worker(BaseWorker):
    """Runs the handlers of a program, a JobQueue. Any number of workers, in any number of processes, may share a store.

    `AsyncWorker` does it on the program's own loop.

    Args:
        program: whose handlers run, on whose store.
        topics: the topics to work on; all that have a handler unless told.
        concurrency: how many jobs run at once in this worker, of whatever topics; None: as many as their handlers may.
            The next place is for the topic that has waited longest. The worker claims no more than can begin, so other
            workers have the rest; very quick jobs are handled faster without. A handler that goes on after its
            ttr, when its job is another's, leaves its place to others.
        grace: how long handlers may go on after `stop`.
        keep: how long done and cancelled jobs and their history are kept: a day unless told. Dead jobs are kept for
            30 days, or for `keep` if that is longer. None: all are kept for ever. Of the workers of a store the one
            counts that keeps them for the longest.
        name: for the history; host and process unless told.
        max_bytes: how many bytes of bodies may wait for their handlers.
        pulse: called at each turn of the dispatcher, as ``pulse(ready=bool)``: for whoever watches that it goes on.
        loop_factory: makes the loop of coroutine handlers, such as `uvloop.new_event_loop`; asyncio's unless told.

    Raises:
        BadOption: there is no handler, or none for one of the topics, or no other process would find an isolated one.
            Every job of a task would fail: a type cannot be found or read, or nothing provides what it asks for.
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

        A second signal ends the grace period, but for SIGHUP: a closed terminal may send several.

        Raises:
            StoreClosed: the store was closed meanwhile.
            StoreReplaced: its files were deleted or replaced, once the handlers under way have had their grace.
            RuntimeError: it has worked before, or does.
        """
        self._begin()
        with self.signals():
            self.work()

    def start(self) -> None:
        """Work in a daemon thread of its own; `stop` and `join` end it.

        RuntimeError: it has worked before, or does; or the system has no thread left.
        """
        self._begin()
        self._thread = threading.Thread(target=self._run_quietly, name="pywheel-worker", daemon=True)
        self._thread.start()

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds for the end of a worker that was started; return whether it has come."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
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

    def signals(self) -> AbstractContextManager[None]:
        """Stop on signals, where they can be had: in the main thread. `run` does so, for as long as it runs."""
        return stop_on_signals(self.stop, lambda: self.told_to_stop)


def stop_on_signals(stop: Callable[[], object], told_to_stop: Callable[[], bool]) -> AbstractContextManager[None]:
    """Call `stop` at each SIGTERM and SIGINT, and at the first SIGHUP, where signals can be had."""
    actions: dict[int, Callable[[], object]] = {signal.SIGINT: stop, signal.SIGTERM: stop}
    if _HANG_UP is not None and signal.getsignal(_HANG_UP) is not signal.SIG_IGN:  # else it was begun by nohup
        actions[_HANG_UP] = lambda: None if told_to_stop() else stop()
    return on_signals(actions)


@contextmanager
def on_signals(actions: Mapping[int, Callable[[], object]]) -> Iterator[None]:
    """Have signals call functions, where they can be had: in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda number, _: actions[number]()) for number in actions}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
