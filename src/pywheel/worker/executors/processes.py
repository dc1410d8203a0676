"""Isolated handlers, in processes of their own: a job that hangs is killed at its ttr, a crash hits no other job.

A child imports the handler's module, then runs one job after the other; see `isolated`. If the child ends while it runs
a job, for any reason, the attempt has failed.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final

from ..._errors import BadOption, PywheelError
from ...execution import Execution
from ...execution.loading import end_of, interpreter
from ...jobs.handler import Handler, RaisedElsewhere, by_name
from ...jobs.job import Job
from ...jobs.retry import RetryFunction
from ...observe import logs
from ..leases import Lease
from .pool import Outside
from .threads import ThreadPool, Threads

_STARTS: Final = 60.0  # seconds that a child may take to import its module
_TURN: Final = 0.02  # seconds between looks whether another child is idle while one starts
_LOOK: Final = 1.0  # seconds between looks whether a silent child still exists
_TRIES: Final = 20  # children that may turn out to have ended before a job counts as failed
_ENDS: Final = 0.5  # seconds for idle children to end by themselves
_LENGTH: Final = struct.Struct("!Q")
_BOOT: Final = (
    "import sys; sys.path.append(sys.argv.pop(1)); from pywheel.worker.executors.isolated import main; main()"
)


class HandlerTimeout(PywheelError):
    """A handler ran for longer than its job's ttr, and its process was killed."""


class HandlerDied(PywheelError):
    """The process of a handler ended while the handler ran, or before it could run."""


class _LeaseOver(Exception):
    """The claim was over before the handler could begin, as when the worker stood still meanwhile."""


class IsolatedPool(ThreadPool):
    """A pool of threads that wait for children. Jobs that run past the grace are killed and given back."""

    def __init__(self, handler: Handler, outside: Outside, threads: Threads, program: object) -> None:
        super().__init__(handler, outside, threads, _as_it_is)
        self._isolated = Isolated(handler, program)
        self._admit = outside.admit
        self._paused_at = -inf
        self._prepares = self.prepared = False

    def prepare(self) -> None:
        """Have a thread start the first child: until that is ready, other workers may be."""
        if not self._prepares:
            self._prepares = True
            self._threads.call(self._prepare)
            self._threads.block()

    def _prepare(self) -> None:
        with suppress(Exception):  # the first job fails with that error
            self._isolated.prepare()
        self.prepared = True
        self._wake()

    def stop(self) -> None:
        """Start nothing more, and end all children."""
        super().stop()
        self._isolated.close()

    def pause(self) -> None:
        """Give back the jobs whose process is still starting."""
        self._paused_at = self._clock.time()

    def _handle(self, lease: Lease) -> None:
        def begin_by() -> float:
            if (lease.started or 0.0) <= self._paused_at:
                return -inf
            return lease.latest(self._alive())

        def call(job: Job) -> bytes | None:
            tracer = self._events.tracer
            return self._isolated(job, {} if tracer is None else tracer.carried(), begin_by)

        execution = Execution(call, self._events, keep=_as_it_is, admit=self._admit)
        lease.error, lease.result = execution.run(lease.job, _as_it_is)
        killed = self._stopped and isinstance(lease.error, HandlerDied)
        lease.handled = not (killed or isinstance(lease.error, _LeaseOver))
        self._ended(lease)


def _as_it_is(value: Any) -> Any:
    """Return a value unchanged: the child has awaited and encoded it."""
    return value


class Isolated:
    """The children of a handler. Any thread may call it to run a job, in an idle child or a new one.

    Raises:
        BadOption: another process would not find the function under its name, or this is not a POSIX system.
    """

    def __init__(self, handler: Handler, program: object = None) -> None:
        if os.name == "nt":
            raise BadOption("isolate=True needs POSIX")
        self._ttr = None if handler.keep_lease else handler.ttr
        retry = handler.retry.function if isinstance(handler.retry, RetryFunction) else None
        self._setup: dict[str, Any] = {
            "function": _name(handler.function, "the handler"),
            "retry": None if retry is None else _name(retry, "its retry function"),
            "program": _places(program),
            "results": handler.results,
        }
        self._mutex = threading.Lock()
        self._idle: list[_Child] = []
        self._starting: list[_Child] = []  # that no job waits for
        self._all: set[_Child] = set()
        self._closed = threading.Event()

    def __call__(
        self, job: Job, carried: Mapping[str, str] = {}, begin_by: Callable[[], float] = lambda: inf
    ) -> bytes | None:
        """Handle a job in a child, with the tracer's context `carried`; return the encoded result to keep, if any.

        `begin_by` gives the latest time to begin, on the monotonic clock, when the process is ready. _LeaseOver: it was
        too late. HandlerTimeout, HandlerDied. RaisedElsewhere: the handler raised an error.
        """
        seconds = None if self._ttr is None else (job.ttr or self._ttr) / 1000
        answer, tries = None, 0
        while answer is None:  # a child may have ended while it was idle
            if tries == _TRIES:
                raise HandlerDied("the handler's process kept ending before it received the job")
            child, tries = self._child(), tries + 1
            try:
                answer = child.handle(job, seconds, carried, begin_by())
            finally:
                self._put_back(child, sound=answer is not None)
        if "late" in answer:
            raise _LeaseOver
        if "text" in answer:
            raise RaisedElsewhere(answer["text"], *answer["verdict"])
        return b64decode(answer["result"]) if "result" in answer else None

    def prepare(self) -> None:
        """Start a child if there is none, and wait until it can handle a job. HandlerDied, HandlerTimeout."""
        self._put_back(self._child(), sound=True)

    def close(self) -> None:
        """End all children, in half a second at most. Those that handle a job are killed at once."""
        with self._mutex:
            self._closed.set()
            idle, self._idle, self._starting = [*self._idle, *self._starting], [], []
            busy = self._all.difference(idle)
            self._all = set()
        for child in busy:
            child.kill()
        for child in idle:
            child.leave()
        end = time.monotonic() + _ENDS
        for child in idle:
            child.end(max(end - time.monotonic(), 0.0))

    def _child(self) -> _Child:
        """Return the idle child that was used last, or a new one if that is ready before another one is idle."""
        starting = None
        while True:
            with self._mutex:
                if self._closed.is_set():
                    break
                if self._idle:
                    if starting is not None:
                        self._starting.append(starting)
                    return self._idle.pop()
                if starting is None and self._starting:
                    starting = self._starting.pop()
            if starting is None:
                starting = _Child(self._setup)
                with self._mutex:
                    self._all.add(starting)
            try:
                if starting.wait_until_ready():
                    return starting
            except BaseException:
                self._put_back(starting, sound=False)
                raise
        if starting is not None:
            self._put_back(starting, sound=False)
        raise HandlerDied("the worker has stopped")

    def _put_back(self, child: _Child, *, sound: bool) -> None:
        """Keep a child for the next job if it is sound, or end it."""
        with self._mutex:
            if sound and not self._closed.is_set():
                self._idle.append(child)
                return
        child.end(0.0)
        with self._mutex:
            self._all.discard(child)


class _Child:
    """One process, the leader of its own group, so that processes that the handler starts are killed with it.

    The child holds one end of a pipe, the worker the other. So the system tells the child when the worker is gone.
    """

    def __init__(self, setup: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        life, ends = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*interpreter(), "-c", _BOOT, str(Path(__file__).parents[3]), str(theirs.fileno()), str(life)],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), life],
                process_group=0,
            )
        except BaseException as error:
            ours.close()
            os.close(ends)
            if isinstance(error, OSError):
                raise HandlerDied(f"no process can be started for the handler: {error}") from None
            raise
        finally:
            theirs.close()
            os.close(life)
        self._socket = ours
        self._life = ends
        self._mutex = threading.Lock()
        self._ended = False
        self._setup: dict[str, Any] | None
        self._setup = {**setup, "prepare": _preparation(setup["function"][0]), "log": logs.present()}
        self._limit = time.monotonic() + _STARTS

    def wait_until_ready(self) -> bool:
        """Wait for a turn; return whether the child can handle jobs. HandlerDied if it never can, HandlerTimeout."""
        try:
            if self._setup is not None:
                self._send(json.dumps(self._setup).encode())
                self._setup = None
            if not wait([self._socket], _TURN) and self._process.poll() is None and time.monotonic() < self._limit:
                return False
            failed = json.loads(self._receive())
        except TimeoutError:
            raise HandlerTimeout(f"the handler's process was not ready within {_STARTS:g} s") from None
        except (OSError, EOFError):
            raise HandlerDied(f"the handler's process ended before it was ready: {end_of(self._waited())}") from None
        if failed:
            raise HandlerDied(f"the handler's process cannot import it: {failed}")
        return True

    def handle(
        self, job: Job, seconds: float | None, carried: Mapping[str, str], begin_by: float
    ) -> dict[str, Any] | None:
        """Return the child's answer, with the handler's error or result; None if the process had ended before."""
        self._limit = time.monotonic() + (inf if seconds is None else seconds)
        began = False
        try:
            self._send(pickle.dumps((job._replace(headers=dict(job.headers)), seconds, dict(carried), begin_by)))
            self._receive()
            began = True
            answer: dict[str, Any] = json.loads(self._receive())
        except TimeoutError:
            self.kill()
            raise HandlerTimeout(f"the handler was killed after its ttr of {seconds:g} s") from None
        except (OSError, EOFError):
            if not began and not self._ended:
                return None
            raise HandlerDied(f"the handler's process ended: {end_of(self._waited())}") from None
        return answer

    def _left(self) -> float:
        return min(max(self._limit - time.monotonic(), 0.001), 1e6)

    def _send(self, content: bytes) -> None:
        self._socket.settimeout(self._left())
        send(self._socket, content)

    def _receive(self) -> bytes:
        """Return a message. TimeoutError at the limit; EOFError if the child ended, even if heirs hold the socket."""
        gone = False
        while not wait([self._socket], min(self._left(), _LOOK)):
            if time.monotonic() >= self._limit:
                raise TimeoutError
            if gone:
                raise EOFError
            gone = self._process.poll() is not None
        self._socket.settimeout(self._left())
        return receive(self._socket)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Let an idle child end by itself."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """Kill the child and the processes that it has started. A thread that waits for it gets HandlerDied."""
        with self._mutex:
            if not self._ended:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def _waited(self, seconds: float = _ENDS) -> int:
        """Return the child's exit status; kill the child if it has not ended after `seconds`."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()
        return self._process.wait()

    def end(self, seconds: float) -> None:
        """Reap the child, and kill it if it has not ended after `seconds`. Idempotent."""
        self._waited(seconds)
        with self._mutex:
            if not self._ended:
                self._ended = True
                self._socket.close()
                os.close(self._life)


def send(to: socket.socket, content: bytes) -> None:
    """Send a message: its length, then its bytes. OSError; TimeoutError after the socket's time."""
    to.sendall(_LENGTH.pack(len(content)) + content)


def receive(source: socket.socket) -> bytes:
    """Return the next message. EOFError at the end, OSError, TimeoutError."""
    return _exactly(source, *_LENGTH.unpack(_exactly(source, _LENGTH.size)))


def _exactly(source: socket.socket, length: int) -> bytes:
    content = bytearray()
    while len(content) < length:
        part = source.recv(min(length - len(content), 1 << 20))
        if not part:
            raise EOFError
        content += part
    return bytes(content)


def _preparation(module: str) -> dict[str, Any]:
    """Return the data for `multiprocessing.spawn.prepare`: the import path, and the main module if it is needed."""
    found: dict[str, Any] = {"sys_path": sys.path, "sys_argv": sys.argv}
    if module == "__main__":
        main = sys.modules["__main__"]
        if main.__spec__ is not None:
            found["init_main_from_name"] = main.__spec__.name
        else:
            found["init_main_from_path"] = os.path.abspath(str(main.__file__))  # noqa: PTH100  (text)
    return found


def _name(function: Callable[..., Any], what: str) -> tuple[str, str, int]:
    """Return a function's module and name, and how many decorators are around it under that name.

    Raises:
        BadOption: the function has no name, or the name leads elsewhere.
    """
    module, name = by_name(function)
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    count = 0
    while found is not None and found != function:
        found = getattr(found, "__wrapped__", None)
        count += 1
    if found is None:
        raise BadOption(f"isolate=True: {name:.200} of {module:.200} is not {what} itself, but something else")
    return module, name, count


def _places(program: object) -> tuple[list[tuple[str, str]], str] | None:
    """Return the modules and variables that have a program, or its twin, and its store's URL. None if no module has it.

    A child imports only some of these modules: not this one's main module, nor those that import the handler's.
    """
    if program is None:
        return None
    kinds = set(type(program).__mro__) - {object}
    places = [
        (module_name, name)
        for module_name, module in list(sys.modules.items())
        for name, value in list(getattr(module, "__dict__", {}).items())
        if value is program or (not kinds.isdisjoint(type(value).__mro__) and vars(value) is vars(program))
    ]
    url = getattr(getattr(program, "store", None), "secret_url", None)
    return (places, str(url)) if places else None
