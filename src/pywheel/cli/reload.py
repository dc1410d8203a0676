"""``--reload``: begin again when the sources of a program change."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Final, NoReturn

from .._errors import PywheelError
from .output import fail, note

__all__ = ["Watch", "begin_again", "project_files", "wait_for_mending"]

_EVERY: Final = 0.5  # seconds
_NOT_OURS: Final = ("node_modules", "__pycache__", "site-packages")


class Watch:
    """Looks at the modules that a program has imported, every half second, in a daemon thread."""

    def __init__(self) -> None:
        self.changed: Path | None = None
        """The file that changed first."""
        self._seen = _times(project_files())

    def start(self, tell: Callable[[], object]) -> None:
        """Call `tell` once when a file changes. Modules that are imported later are watched from then on."""
        threading.Thread(target=self._look, args=(tell,), name="pywheel-reload", daemon=True).start()

    def _look(self, tell: Callable[[], object]) -> None:
        while self.changed is None:
            time.sleep(_EVERY)
            now = _times(project_files())
            self.changed = next((file for file, at in self._seen.items() if now.get(file) != at), None)
            self._seen = {**now, **self._seen}
        note(f"pywheel: {self.changed} has changed, beginning again")
        tell()


def wait_for_mending(error: Exception) -> None:
    """Show what is wrong with a program, and return when a source below the working directory changes."""
    if isinstance(error, PywheelError):
        fail(str(error))
    else:
        traceback.print_exception(error)
    note("pywheel: waiting for a change of the sources; Ctrl-C ends it")
    before = _times(_sources_below(Path.cwd()))
    while _times(_sources_below(Path.cwd())) == before:
        time.sleep(_EVERY)


def begin_again() -> NoReturn:
    """Become a new process of the same command."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


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
