"""A worker process of a supervisor: works, and says in its pipe that it does.

usage: python -m pywheel.worker.child TARGET OPTIONS PIPE
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from typing import Any, Final

from ..events import Event, JobEnded, JobsClaimed, JobStarted, LeaseLost
from .loading import load
from .worker import Worker

__all__ = ["main"]

_EVERY: Final = 0.25  # seconds between reports


class Report:
    """Counts events, and writes the counts down as a line of JSON, from the dispatcher's own thread."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._counts: Counter[str] = Counter()
        self._late: list[float] = []
        self._at = 0.0

    def __call__(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, JobStarted):
            self._late.append(event.late)
        elif isinstance(event, JobsClaimed):
            self._counts["claimed"] += event.jobs
        elif isinstance(event, JobEnded):
            self._counts[event.state if event.outcome == "done" else f"failed {event.state}"] += 1
        elif isinstance(event, LeaseLost):
            self._counts["lost"] += 1

    def pulse(self, *, ready: bool) -> None:
        """Report, if it is time to. The supervisor takes a worker that does not for one that stands still."""
        now = time.monotonic()
        if now < self._at:
            return
        self._at = now + _EVERY
        late, self._late = sorted(self._late), []
        line = {"ready": ready, "counts": dict(self._counts), "late": late[:: max(len(late) // 50, 1)]}
        try:
            os.write(self._pipe, json.dumps(line).encode() + b"\n")
        except BlockingIOError:
            pass  # the supervisor does not read: it is stopped itself
        except BrokenPipeError:
            os._exit(1)  # it is gone, and whatever starts it again starts workers of its own


def main(target: str, options: str, pipe: str) -> None:
    """Work until told to stop."""
    os.set_blocking(int(pipe), False)
    sys.setswitchinterval(0.001)  # handlers give the dispatcher its turn
    report = Report(int(pipe))
    program: Any = load(target)
    program.events.listen(report)
    Worker(program, **json.loads(options), pulse=report.pulse).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
