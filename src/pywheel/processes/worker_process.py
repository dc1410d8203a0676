"""One worker process, as its supervisor sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import MutableSequence
from contextlib import suppress
from typing import Any, Final

__all__ = ["STOP_NOW", "WorkerProcess"]

STOP_NOW: Final = signal.SIGQUIT if hasattr(signal, "SIGQUIT") else signal.SIGTERM
"""Ends the grace of a worker that drains. SIGTERM does not, however often it comes: a service manager may send it to
all processes, and the supervisor sends it as well."""
_MOST_TEXT: Final = 1 << 16  # characters of a report's line; what is longer is none


class WorkerProcess:
    """One child, and what it last said of itself.

    Raises:
        OSError: the system has no process, or no descriptor left.
    """

    def __init__(self, command: list[str], told: bytes, late: MutableSequence[float]) -> None:
        ours, theirs = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*command, str(theirs)],
                stdin=subprocess.PIPE,
                pass_fds=[theirs],
                process_group=0,  # Ctrl-C on a terminal is for the supervisor, who tells them once
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        assert self._process.stdin is not None
        # Not among its arguments, which everybody on this host can read. It may have ended already.
        with suppress(BrokenPipeError), self._process.stdin as order:
            order.write(told)
        os.set_blocking(ours, False)
        self.pipe = ours
        self.pid = self._process.pid
        self.started = self.heard = time.monotonic()
        self.ready = False
        self.ended = False
        """Whether it will report no more."""
        self.drains_since: float | None = None
        self.counts: Counter[str] = Counter()
        self.about: dict[str, Any] = {}
        self.failed: dict[str, str] | None = None
        """Why it could not begin, or go on, if it has said so."""
        self._late = late
        self._rest = b""

    def read(self) -> None:
        """Take in its reports."""
        try:
            while content := os.read(self.pipe, 1 << 16):
                *lines, self._rest = (self._rest + content).split(b"\n")
                self._rest = self._rest[-_MOST_TEXT:]
                for line in lines:
                    self._hear(line)
            self.ended = True
        except BlockingIOError:
            pass

    def _hear(self, line: bytes) -> None:
        try:
            report = json.loads(line)
            if "failed" in report:
                self.failed = report
                return
            self.ready |= report["ready"]
            self.counts = Counter(report["counts"])
            self._late.extend(report["late"])
            self.about = report
        except (ValueError, TypeError, KeyError):  # not from us: a handler has written there
            return
        self.heard = time.monotonic()

    @property
    def draining(self) -> bool:
        """Whether it was told to end."""
        return self.drains_since is not None

    def drain(self) -> None:
        """Tell it to end, if it does not know."""
        if self.drains_since is None:
            self.drains_since = time.monotonic()
            self.tell(signal.SIGTERM)

    def tell(self, number: int) -> None:
        """Send it a signal."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    @property
    def gone(self) -> bool:
        """Whether the process has ended; then it is reaped."""
        return self._process.poll() is not None

    @property
    def reason(self) -> str:
        """How it has ended."""
        if self.failed is not None:
            return self.failed["text"]
        code = self._process.returncode
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"

    def close(self) -> None:
        """Wait for its end."""
        self._process.wait()
        os.close(self.pipe)
