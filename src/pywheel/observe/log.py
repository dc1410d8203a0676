"""A listener that writes log lines for people and machines: an event, then ``name=value`` pairs.

Both are attributes of the record too: ``record.event`` and ``record.fields``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Final

from .._errors import StoreError
from ..events import (
    BodiesSealed,
    ClockStepped,
    Event,
    JobDied,
    JobEnded,
    JobGivenBack,
    JobRefused,
    JobsForwarded,
    JobSkipped,
    LeaseLost,
    PoolStuck,
    StoreBack,
    StoreFailed,
    WorkerDrains,
    WorkerStarted,
    WorkerStopped,
)
from ..jobs.job import Job, Outcome, State

__all__ = ["log"]

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_ERROR_LENGTH: Final = 200  # characters


def log(event: Event) -> None:
    """Log to ``pywheel.jobs`` what a person would want to know: ``JobQueue(url, listeners=[log])``.

    Puts, claims and good ends are not logged: they are what a queue is for.
    """
    logged = _LOGGED.get(type(event))
    if logged is not None:
        logged(event)


def _ended(event: JobEnded) -> None:
    if event.outcome is Outcome.DONE or event.error is None:
        return
    _line(logging.WARNING, "attempt_failed", **_about(event.job), error_text=event.error[:_ERROR_LENGTH])
    if event.state is State.DEAD:
        _line(logging.ERROR, "job_dead", **_about(event.job))


def _failed(event: StoreFailed) -> None:
    fields: dict[str, Any] = {"failures": event.failures, "unsettled": event.unsettled}
    if isinstance(event.error, StoreError):  # its text says what and how to mend it
        _line(logging.ERROR, "store_error", **fields, error_text=str(event.error))
    else:
        _line(logging.ERROR, "store_error", event.error, **fields)


_LOGGED: Final[dict[type, Callable[[Any], None]]] = {
    JobEnded: _ended,
    JobDied: lambda event: _line(logging.ERROR, "job_dead", **_about(event.job), reason="lease_lost"),
    BodiesSealed: lambda event: _line(
        logging.ERROR, "bodies_sealed", topic=event.topic, count=event.jobs, error_text=str(event.error)
    ),
    LeaseLost: lambda event: _line(logging.WARNING, "lease_lost", **_about(event.job)),
    JobsForwarded: lambda event: _line(logging.INFO, "jobs_forwarded", topic=event.topic, count=event.jobs),
    JobRefused: lambda event: _line(
        logging.ERROR, "job_refused", job=event.id, topic=event.topic, key=event.key, error_text=event.error
    ),
    JobGivenBack: lambda event: _line(
        logging.INFO if event.delay is None else logging.DEBUG,  # where much is put off, it is by design
        "job_given_back",
        **_about(event.job),
        delay=event.delay,
    ),
    JobSkipped: lambda event: _line(logging.INFO, "job_skipped", **_about(event.job), reason=event.reason),
    StoreFailed: _failed,
    StoreBack: lambda event: _line(logging.WARNING, "store_back", failures=event.failures),
    PoolStuck: lambda event: _line(logging.WARNING, "pool_stuck", topic=event.topic, count=event.jobs),
    ClockStepped: lambda event: _line(logging.WARNING, "clock_stepped", seconds=round(event.seconds, 3)),
    WorkerStarted: lambda event: _line(logging.INFO, "worker_started", worker=event.worker, store=event.store),
    WorkerDrains: lambda event: _line(logging.INFO, "worker_drains", worker=event.worker, grace=event.grace),
    WorkerStopped: lambda event: _line(logging.INFO, "worker_stopped", worker=event.worker),
}


def _line(level: int, what: str, error: BaseException | None = None, **fields: Any) -> None:
    if _LOGGER.isEnabledFor(level):
        pairs = " ".join(f"{name}={_shown(value)}" for name, value in fields.items() if value is not None)
        _LOGGER.log(level, "%s %s", what, pairs, exc_info=error, extra={"event": what, "fields": fields})


def _about(job: Job) -> dict[str, Any]:
    return {"job": job.id, "topic": job.topic, "key": job.key, "attempt": job.attempt, "trace_id": job.trace_id}


def _shown(value: Any) -> str:
    text = str(value)
    return text if text.isalnum() or text.replace(".", "").replace("-", "").isalnum() else json.dumps(text[:200])
