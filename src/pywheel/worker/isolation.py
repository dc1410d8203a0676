"""Handlers in processes of their own: a job that hangs is killed at its ttr, one that crashes takes nobody with it.

A child imports the handler's module, then runs one job after the other. Whatever ends it is a failed attempt.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import signal
import threading
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final

from .._errors import PywheelError
from ..jobs.handler import Handler, rest_of
from ..jobs.job import Job

__all__ = ["HandlerDied", "HandlerFailed", "HandlerTimeout", "Isolated"]

_STARTS: Final = 60.0  # seconds that a child may take to import its module


class HandlerTimeout(PywheelError):
    """A handler ran for longer than its job's ttr, and its process was killed."""


class HandlerDied(PywheelError):
    """The process of a handler ended while it ran."""


class HandlerFailed(PywheelError):
    """What a handler raised in a process of its own, as text; `cause` names its class."""


class Isolated:
    """Calls a handler's function in a child process. From many threads; each call takes an idle child, or a new one."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._mutex = threading.Lock()
        self._idle: list[_Child] = []
        self._closed = False

    def __call__(self, job: Job) -> None:
        """Handle a job. HandlerTimeout, HandlerDied, HandlerFailed, or what the handler raised if that can travel."""
        with self._mutex:
            child = self._idle.pop() if self._idle else None
        child = child or _Child(self._handler.function)
        try:
            error = child.handle(job, (job.ttr or self._handler.ttr) / 1000)
        except BaseException:
            child.kill()
            raise
        with self._mutex:
            if not self._closed:
                self._idle.append(child)
                child = None
        if child is not None:
            child.kill()
        if error is not None:
            raise error

    def close(self) -> None:
        """End all children. Those that handle a job now are killed when that ends."""
        with self._mutex:
            self._closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.kill()


class _Child:
    """One process. It ends with its parent: it sees the end of the pipe."""

    def __init__(self, function: Callable[[Job], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        name = function.__module__, function.__qualname__
        self._process = context.Process(target=_serve, args=(theirs, *name), name="pywheel-isolated", daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(_STARTS):
            self.kill()
            raise HandlerTimeout(f"the handler's process did not start within {_STARTS:g} s")

        self._receive()

    def handle(self, job: Job, seconds: float) -> BaseException | None:
        self._pipe.send(job)
        if not self._pipe.poll(seconds):
            self.kill()
            raise HandlerTimeout(f"the handler was killed after its ttr of {seconds:g} s")
        error = self._receive()
        return error if error is None or isinstance(error, BaseException) else HandlerFailed(str(error))

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            raise HandlerDied(f"the handler's process ended: {_reason(self._process.exitcode)}") from None

    def kill(self) -> None:
        self._pipe.close()
        with suppress(ValueError, OSError):
            self._process.kill()
            self._process.join()


def _reason(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


def _serve(pipe: Connection, module: str, qualname: str) -> None:
    """Run in the child: handle what comes through the pipe until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker drains; its children finish what they do
    function: Any = importlib.import_module(module)
    for name in qualname.split("."):
        function = getattr(function, name)
    pipe.send(None)
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        _answer(pipe, _handled(function, job))


def _handled(function: Callable[[Job], Any], job: Job) -> BaseException | None:
    try:
        rest = rest_of(function(job))
        if rest is not None:
            asyncio.run(_finished(rest))
    except BaseException as error:  # noqa: BLE001  (sys.exit in a handler ends the attempt, not the child)
        return error
    return None


async def _finished(rest: Awaitable[Any]) -> None:
    await rest


def _answer(pipe: Connection, error: BaseException | None) -> None:
    try:
        pipe.send(error)
    except Exception:  # noqa: BLE001  (an error that cannot travel goes as text)
        pipe.send("".join(traceback.format_exception_only(error)).strip())
