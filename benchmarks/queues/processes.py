"""Programs started and stopped, each with the processes that it starts in turn."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self


class Program:
    """A running program, in a session of its own, so that Ctrl-C reaches us alone. Its output goes to `log`."""

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
        """Return the last lines of its output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
