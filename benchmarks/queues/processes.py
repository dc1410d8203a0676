"""Programs started, measured and stopped, each with the processes that it starts in turn."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self


class Program:
    """A running program, in a session of its own: Ctrl-C is left to us. What it says goes to `log`."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        folder: Path | None = None,
        ending: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.log = log
        self._ending = ending
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, env=env, user=user, cwd=folder, start_new_session=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(self._ending)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(3)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def complaint(self) -> str:
        """Return the last lines that it said."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def spent(self) -> dict[Path, int]:
        """Return the ns of processor time of each of its threads so far."""
        return {path: int(text.split()[0]) for path, text in self._each("task/*/schedstat").items()}

    def since(self, before: Mapping[Path, int]) -> float:
        """Return the seconds of processor time since `before`."""
        return sum(ns - before.get(thread, 0) for thread, ns in self.spent().items()) / 1e9

    def rss(self) -> int:
        """Return the resident bytes of all its processes together."""
        page = os.sysconf("SC_PAGESIZE")
        return page * sum(int(text.split()[1]) for text in self._each("statm").values())

    def _each(self, pattern: str) -> dict[Path, str]:
        found = {}
        for process in descendants(self._process.pid):
            for path in Path(f"/proc/{process}").glob(pattern):
                with suppress(OSError):  # it has just ended
                    found[path] = path.read_text()
        return found


def descendants(process: int) -> list[int]:
    """Return a process and all that come from it."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found = [process]
    for one in found:
        found += children.get(one, [])
    return found
