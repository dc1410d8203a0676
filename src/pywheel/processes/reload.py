"""Reload: begin again when the sources of a program change."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from ..worker.base import BaseWorker
from .supervisor import Supervisor

__all__ = ["Watch", "begin_again", "interruptible", "project_files", "wait_for_change"]

_EVERY: Final = 0.5  # seconds
_NOT_OURS: Final = ("node_modules", "__pycache__", "site-packages")
_STOPS: Final = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_IGNORED: Final = [number for number in _STOPS[2:] if signal.getsignal(number) is signal.SIG_IGN]  # as by nohup


class Watch:
    """Looks at the modules that a program has imported, every half second, in a daemon thread.

    `say` is called with what there is to be said.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._changed: Path | None = None  # the file that changed first
        self._seen = _times(project_files())

    @contextmanager
    def over(self, runner: BaseWorker | Supervisor) -> Iterator[None]:
        """Have what runs within retire once a source changes; begin again then, unless it was told to stop.

        Modules that are imported later are watched from then on.
        """
        threading.Thread(target=self._look, args=(runner,), name="pywheel-reload", daemon=True).start()
        yield
        if self._changed is not None:
            begin_again(lambda: runner.told_to_stop)

    def _look(self, runner: BaseWorker | Supervisor) -> None:
        while self._changed is None:
            time.sleep(_EVERY)
            now = _times(project_files())
            self._changed = next((file for file, at in self._seen.items() if now.get(file) != at), None)
            self._seen = {**now, **self._seen}
        so = "and it stops all the same" if runner.told_to_stop else "beginning again"
        self._say(f"{self._changed} has changed, {so}")
        runner.retire()


def wait_for_change(show: Callable[[], object]) -> None:
    """Call `show`, and return when a source below the working directory has changed since."""
    before = _times(_sources_below(Path.cwd()))  # whoever reads what is shown may mend it at once
    show()
    while _times(_sources_below(Path.cwd())) == before:
        time.sleep(_EVERY)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Raise KeyboardInterrupt in the end if Ctrl-C came meanwhile, also if a program has caught it.

    Yields what says whether it came.
    """
    came: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else Ctrl-C is ignored here
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield lambda: bool(came)
    finally:
        if ours and signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt


def begin_again(stopped: Callable[[], bool]) -> None:
    """Become a new process of the same command. Return instead if `stopped` says that a signal came to stop.

    Exit functions run first, as at the end of a process. They give back the jobs of handlers that go on.
    """
    if stopped():
        return
    _second_ends_it(stopped)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    _signals_end_it()
    if not stopped():
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _second_ends_it(stopped: Callable[[], bool]) -> None:
    """Have the second signal to stop end this process: an exit function may hang."""
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in _STOPS}

    def told(number: int, frame: Any) -> None:
        if stopped():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        handlers[number](number, frame)

    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, told)


def _signals_end_it() -> None:
    """Let the system end this process at a signal to stop. No signal that came before is lost.

    Python calls a handler some time after its signal, and forgets the call if the handler was removed meanwhile. So
    this listens for signals while it removes the handlers, and calls them itself.
    """
    ear, mouth = socket.socketpair()
    ear.setblocking(False)
    mouth.setblocking(False)
    signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    handlers: dict[int, Any] = {
        number: signal.signal(number, signal.SIG_IGN if number in _IGNORED else signal.SIG_DFL) for number in _STOPS
    }
    signal.set_wakeup_fd(-1)
    with ear, mouth, suppress(BlockingIOError):
        for number in ear.recv(1 << 10):
            if callable(handlers.get(number)):
                handlers[number](number, None)


def project_files() -> set[Path]:
    """Return the sources of all imported modules, but those of Python itself, of installed packages and of pywheel."""
    not_ours = [os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    not_ours.append(os.path.realpath(Path(__file__).parents[1]))
    names = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    files = {_real(name) for name in names if name}
    return {Path(file) for file in files if not file.startswith(tuple(folder + os.sep for folder in not_ours))}


_real = cache(os.path.realpath)  # twice a second, for hundreds of modules


def _sources_below(folder: Path) -> set[Path]:
    found = set()
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _NOT_OURS]
        found |= {Path(here) / name for name in files if name.endswith(".py")}
    return found


def _times(files: Iterable[Path]) -> dict[Path, int]:
    """Return when each was last changed; 0 if it is not there."""
    times = {}
    for file in files:
        try:
            times[file] = file.stat().st_mtime_ns
        except OSError:
            times[file] = 0
    return times
