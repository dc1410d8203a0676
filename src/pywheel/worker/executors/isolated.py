"""The process of an isolated handler: it imports the handler, then runs one job after the other.

`processes` starts it. It ends when its worker does, for any reason, even while the handler runs.
"""

from __future__ import annotations

import asyncio
import contextvars
import fcntl
import importlib
import json
import multiprocessing.spawn
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from ...events import Events
from ...execution import Ended, Execution
from ...execution.loading import give_keys, importing
from ...jobs.handler import decide, error_text, to_the_end, verdict
from ...jobs.job import Job
from ...jobs.results import result_of
from ...jobs.retry import RetryFunction
from ...observe import logs
from .processes import receive, send

_LOOK: Final = 0.5  # seconds between looks at the parent and the clock
_LATE: Final = 0.5  # seconds after a job's ttr at which its process ends itself, if the worker has not killed it


def main() -> None:
    """Handle the jobs of the worker that has started this process, until the worker hangs up."""
    number, life = int(sys.argv[1]), int(sys.argv[2])
    for file in (number, life):
        os.set_inheritable(file, False)
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)  # the worker drains; its children finish what they do
    watch = _Watch(life)
    with socket.socket(fileno=number) as worker, suppress(EOFError, OSError):  # the worker has hung up
        _serve(worker, watch)


def _serve(worker: socket.socket, watch: _Watch) -> None:
    setup = json.loads(receive(worker))
    try:
        function, retry, events = _functions(setup)
    except BaseException as error:  # noqa: BLE001  (also sys.exit during the import)
        send(worker, json.dumps(error_text(error)).encode())
        return
    send(worker, b'""')
    execution = Execution(function, events, keep=result_of if setup["results"] else None)
    with asyncio.Runner() as runner:

        def finish(rest: Awaitable[Any]) -> Any:
            """Await the awaitable that a handler returned. Those of all jobs run on one loop."""
            return runner.run(to_the_end(rest), context=contextvars.copy_context())

        while True:
            job, seconds, carried, begin_by = pickle.loads(receive(worker))
            watch.until = None if seconds is None else time.monotonic() + seconds + _LATE
            send(worker, b"begins")
            if time.monotonic() >= begin_by:  # the worker stood still, and another one may have the job by now
                send(worker, json.dumps({"late": True}).encode())
                continue
            tracer = None if events is None else events.tracer
            span = None if tracer is None else partial(tracer.going_on, carried)
            ended = execution.run(job, finish, span)
            watch.until = None
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):  # the job's output is not lost if this process is killed
                    stream.flush()
            send(worker, json.dumps(_told(ended, job, retry)).encode())


def _functions(setup: dict[str, Any]) -> tuple[Callable[[Job], Any], RetryFunction | None, Events | None]:
    """Return the handler, its retry function, and the events of its program, which uses the worker's store."""
    with importing():
        multiprocessing.spawn.prepare(setup["prepare"])
        found = _found(*setup["function"])
        retry = None if setup["retry"] is None else RetryFunction(_found(*setup["retry"]))
        program = None if setup["program"] is None else _used(*setup["program"])
    if setup["log"] is not None:
        logs.begin(*setup["log"])
    middleware = getattr(program, "middleware", None)
    if middleware is not None:
        found = middleware.around_function(found)
    return found, retry, getattr(program, "events", None)


def _found(module: str, name: str, wrappers: int) -> Any:
    """Return a function of a module, without the decorators around it."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    for _ in range(wrappers):
        found = found.__wrapped__
    return found


def _used(places: Sequence[tuple[str, str]], url: str) -> Any:
    """Return the program's queue, switched to the worker's store if it names another one.

    It is a variable of one of these modules. None if none of them is imported here.
    """
    found = (getattr(sys.modules.get(module), name, None) for module, name in places)
    program = next((queue for queue in found if hasattr(queue, "handlers")), None)
    if program is not None:
        give_keys(program)
        if program.store.secret_url != url:
            program.use(url)
    return program


def _told(ended: Ended, job: Job, retry: RetryFunction | None) -> dict[str, Any]:
    """Return the end of a handler for JSON: its result, or the error's text and the verdict on the job.

    The worker does not get the error itself. So a retry function that must see the error is called here.
    """
    error, result = ended
    if error is None:
        return {} if result is None else {"result": b64encode(result).decode()}
    text, said = (error_text(error), verdict(error)) if retry is None else decide(retry, job, error)
    return {"text": text.removeprefix("__mp_main__."), "verdict": said}


class _Watch:
    """Ends this process and its children when the worker is gone, or has not killed a job after its ttr.

    When the worker is gone, SIGIO from the system ends them, even while a handler holds the interpreter's lock. A
    thread does so where the system does not, or where a handler uses that signal itself.
    """

    def __init__(self, life: int) -> None:
        self.until: float | None = None
        """When this process ends itself if the current job still runs, monotonic clock; None: never."""
        self._life = life
        self._parent = os.getppid()
        with suppress(OSError, AttributeError):
            signal.signal(signal.SIGIO, signal.SIG_DFL)
            fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
        threading.Thread(target=self._look, name="pywheel-watch", daemon=True).start()

    def _look(self) -> None:
        poll = select.poll()
        poll.register(self._life, select.POLLIN)
        while not poll.poll(_LOOK * 1000) and os.getppid() == self._parent:
            until = self.until
            if until is not None and time.monotonic() > until:
                break
        os.killpg(0, signal.SIGKILL)
