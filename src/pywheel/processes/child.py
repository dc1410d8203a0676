"""A worker process of a supervisor: it works, and reports through a pipe that it goes on.

usage: python -m pywheel.processes.child TARGET PIPE < OPTIONS
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any, Final

from .._errors import BadJob, BadOption, StoreError
from ..events import Event, JobEnded
from ..execution.loading import importing, load
from ..jobs.handler import error_text
from ..jobs.job import Outcome
from ..observe import logs
from ..worker import Worker
from .supervisor import STOP_NOW

_EVERY: Final = 0.25  # seconds between reports
_TRACE: Final = 2_500  # characters: a report is written whole or not at all if it is shorter than a page
_TOPICS: Final = 30_000  # characters of topics in a report: the pipe holds twice as many
_HUNG: Final = 10.0  # seconds beyond its grace that a worker without a supervisor has to end


class Report:
    """The reports of a worker, as lines of JSON, sent by its dispatcher: it goes on, and whether jobs end well."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._worked = False
        self._at = 0.0
        self.ready = False
        self.about: dict[str, Any] = {}
        """The part of a report that never changes."""

    def __call__(self, event: Event) -> None:
        """Note a good end."""
        self._worked = self._worked or (isinstance(event, JobEnded) and event.outcome is Outcome.DONE)

    def pulse(self, *, ready: bool) -> None:
        """Send a report, if it is time to. The supervisor takes a worker without reports for one that stands still."""
        if ready != self.ready or time.monotonic() >= self._at:
            self.ready = ready
            self.now()

    def now(self) -> None:
        """Send a report."""
        self._at = time.monotonic() + _EVERY
        self.tell({"ready": self.ready, "worked": self._worked, **self.about})

    def fail(self, error: BaseException) -> None:
        """Report why this process ends."""
        known = isinstance(error, BadJob | BadOption | StoreError)
        text = str(error) if known else error_text(error)
        trace = "" if known else "".join(traceback.format_exception(error))[-_TRACE:]
        self.tell({"failed": type(error).__name__, "text": text[-500:], "trace": trace})

    def tell(self, line: dict[str, Any]) -> None:
        """Write a line. If the supervisor does not read, because it stands still or is gone, the line is lost."""
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._pipe, json.dumps(line).encode() + b"\n")


def _outlive(pipe: int, workers: list[Worker]) -> None:
    """Wait for the end of the supervisor; then drain the worker, and end this process even if the drain hangs."""
    poll = select.poll()
    poll.register(pipe, 0)  # returns when the pipe has no reader any more
    poll.poll()
    for worker in workers:  # none while the program is imported
        worker.retire()
        time.sleep(worker.grace + _HUNG)
    os._exit(1)


def _options() -> Any:
    """Return the options that the supervisor sent, and redirect the standard input to nothing."""
    with open(0, "rb", closefd=False) as told:
        options = json.load(told)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return options


def main(target: str, pipe: str) -> int:
    """Work until stopped; return the exit code: 0, 2 if the program cannot work with the options, 3 for its store."""
    os.set_blocking(int(pipe), False)
    os.set_inheritable(int(pipe), False)
    sys.setswitchinterval(0.001)  # handlers give the dispatcher its turn
    report, workers = Report(int(pipe)), list[Worker]()
    threading.Thread(target=_outlive, args=(int(pipe), workers), name="pywheel-orphanage", daemon=True).start()
    try:
        worker = _worker(target, _options(), report)
    except BaseException as error:  # noqa: BLE001  (also sys.exit during the import)
        report.fail(error)
        return 3 if isinstance(error, StoreError) else 2

    def told(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  (signal handlers get it)
        worker.retire()
        if number == STOP_NOW:
            worker.end_grace()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, STOP_NOW):  # they stay until the process ends
        signal.signal(number, told)
    workers.append(worker)
    try:
        worker.work()
    except StoreError as error:  # another process may find the store usable
        report.now()
        report.fail(error)
        return 3
    report.now()
    report.tell({"stopped": True})
    return 0


def _worker(target: str, told: dict[str, Any], report: Report) -> Worker:
    """Return a worker for the program, on the store that the supervisor names, if any."""
    with importing():
        program = load(target)
    if told["log"] is not None:
        logs.begin(*told["log"])
    if told["store"] is not None:
        program.use(told["store"])
    program.events.listen(report)
    worker = Worker(program, **told["options"], pulse=_pulse(program, told["metrics"], report))
    report.about = {"store": program.store.url, "topics": _first(told["options"].get("topics") or program.handlers)}
    return worker


def _first(topics: Iterable[str]) -> list[str]:
    """Return the topics in order, as many as a report has room for, then "…" if some are left."""
    named, room = list[str](), _TOPICS
    for topic in sorted(topics):
        room -= len(json.dumps([topic]))
        if room < 0:
            return [*named, "…"]
        named.append(topic)
    return named


def _pulse(program: Any, metrics: tuple[int, str, int] | None, report: Report) -> Callable[..., None]:
    """Return the function to call at each turn of the worker: it sends reports, and tells the endpoint, if any."""
    if metrics is None:
        return report.pulse
    from ..observe.endpoint import Endpoint  # few processes need it

    endpoint = Endpoint(program.events, *metrics)
    logging.getLogger("pywheel.jobs").info("metrics at %s", endpoint.url)

    def pulse(*, ready: bool) -> None:
        report.pulse(ready=ready)
        endpoint.pulse(ready=ready)

    return pulse


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
