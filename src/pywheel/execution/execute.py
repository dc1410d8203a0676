"""The one way to run a handler, for threads and for coroutines.

First `admit` decides whether a job that may be skipped runs. Then the tracer's span begins. Within it, the handler is
called, its result is awaited if it is awaitable, and encoded if it is kept.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, NamedTuple, NoReturn

from .._errors import PywheelError
from ..events import Events, JobEnded, JobGivenBack, JobSkipped
from ..jobs.commands import Ack, Cancel, Edit, Nack, Release
from ..jobs.handler import Handler, NotNow, current_job, ending, rest_of, to_the_end
from ..jobs.job import Job, Outcome, State
from ..jobs.schedule import NAME
from ..stores.contract import Store

Finish = Callable[[Awaitable[Any]], Any]


class Ended(NamedTuple):
    """How a handler's call ended."""

    error: BaseException | None = None
    """The error that it raised."""
    result: bytes | None = None
    """The encoded result, if it is kept."""


class Execution:
    """The execution of a handler's function. All errors are returned, not raised: `sys.exit` ends the attempt alone.

    A handler may fork. The child process ends where the handler ends: it has a copy of one of the worker's threads,
    without the others.

    Args:
        function: the handler's function.
        events: the program's events, whose tracer is around each call.
        keep: encodes the function's result; None if no results are kept.
        admit: called before a job that may be skipped runs; its error counts as the handler's.
    """

    def __init__(
        self,
        function: Callable[[Job], Any],
        events: Events | None,
        *,
        keep: Callable[[Any], bytes | None] | None = None,
        admit: Callable[[Job], None] = lambda _: None,
    ) -> None:
        self._function = function
        self._events = events or Events(log=None)
        self._keep = keep
        self._admit = admit

    def run(self, job: Job, finish: Finish, span: Callable[[], AbstractContextManager[object]] | None = None) -> Ended:
        """Run the function in this thread, within a span; by default the tracer's. `finish` awaits what it returns."""
        process, tracer = _process, self._events.tracer
        token = current_job.set(job)
        ended = _DONE
        try:
            if job.expires or NAME in job.headers:  # it may have expired, or is a tick
                self._admit(job)
            if span is None and tracer is None:
                ended = self._call(job, finish, process)
            else:
                with self._events.handling(job) if span is None else span():
                    ended = self._call(job, finish, process)
        except BaseException as raised:  # noqa: BLE001
            ended = Ended(raised)
        current_job.reset(token)
        if _process != process:
            end_child(ended.error)
        return ended

    def _call(self, job: Job, finish: Finish, process: int) -> Ended:
        result = self._function(job)
        if result is not None and (rest := rest_of(result)) is not None:
            if _process != process:  # this child may have no thread that runs the loop
                end_child(None)
            result = finish(rest)
        return _DONE if self._keep is None else Ended(None, self._keep(result))

    async def arun(self, job: Job, finish: Finish = to_the_end) -> Ended:
        """Run the function in this task. `finish` turns the awaitable that it may return into a coroutine to await."""
        process, token = _process, current_job.set(job)
        ended = _DONE
        try:
            if job.expires or NAME in job.headers:
                await self._admit_in_thread(job)
            with self._events.handling(job):
                result = self._function(job)
                if (rest := rest_of(result)) is not None:
                    result = await finish(rest)
                if self._keep is not None:
                    ended = Ended(None, self._keep(result))
        except BaseException as raised:
            if isinstance(raised, GeneratorExit) and (_process != process or current_job.get() is not job):
                raise  # the task was dropped: its loop is closed, or it is a copy in a forked child
            ended = Ended(raised)
        current_job.reset(token)
        if _process != process:
            end_child(ended.error)
        return ended

    async def _admit_in_thread(self, job: Job) -> None:
        """Call `admit`. NotNow if the system has no thread for it: the handler has tried nothing."""
        try:
            await asyncio.to_thread(self._admit, job)
        except RuntimeError as error:
            raise NotNow(_NO_THREAD, f"cannot tell whether the job may run: {error}") from error


_NO_THREAD: Final = 1.0  # seconds until a job is claimed again, if there was no thread to ask whether it may run
_DONE: Final = Ended()
_process = os.getpid()  # known without a system call at each job


def _after_fork() -> None:
    global _process
    _process = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def end_child(error: BaseException | None) -> NoReturn:
    """End this process, a forked child, with the status and the output of an interpreter that ends by this error."""
    status: object = 0
    if isinstance(error, SystemExit):
        status = error.code or 0
    elif error is not None:
        status = 1
        with suppress(Exception):
            traceback.print_exception(error)
    if not isinstance(status, int):
        with suppress(Exception):
            print(status, file=sys.stderr)
        status = 1
    with suppress(Exception):
        sys.stderr.flush()
    os._exit(status & 0xFF)


def settlement(
    store: Store, handler: Handler, job: Job, ended: Ended
) -> tuple[Ack | Nack | Release, BaseException | None]:
    """Return the command that settles a claim whose handler has ended, and the error by which it failed."""
    error, result = ended
    if error is None and result is not None:
        try:
            result = store.sealed_result(job, result)
        except PywheelError as missing:  # a key is missing
            error = missing
    return ending(handler, job, error, result), error


def event_of(
    job: Job,
    command: Ack | Nack | Release,
    move: Edit | Cancel | None,
    outcome: Any,
    seconds: float,
    error: BaseException | None,
) -> JobEnded | JobGivenBack | JobSkipped:
    """Return the event of a claim that a command has settled with this outcome. `move` follows a Release, if any."""
    if isinstance(command, Ack):
        return JobEnded(job, Outcome.DONE, State.DONE, seconds, None)
    if isinstance(command, Nack):
        return JobEnded(job, Outcome.FAILED, outcome, seconds, command.error)
    if isinstance(move, Cancel):
        return JobSkipped(job, str(error))
    return JobGivenBack(job, None if move is None else (move.delay or 0) / 1000)
