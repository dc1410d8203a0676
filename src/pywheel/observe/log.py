"""A listener that writes log lines for people and machines: an event, then ``name=value`` pairs.

Both are attributes of the record too: ``record.event`` and ``record.fields``.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from ..events import (
    ClockStepped,
    Event,
    JobEnded,
    JobGivenBack,
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
    match event:
        case JobEnded(outcome=Outcome.DONE) | JobEnded(error=None):
            pass
        case JobEnded(job=job, state=state, error=error):
            _line(logging.WARNING, "attempt_failed", **_about(job), error_text=(error or "")[:_ERROR_LENGTH])
            if state is State.DEAD:
                _line(logging.ERROR, "job_dead", **_about(job))
        case LeaseLost(job):
            _line(logging.WARNING, "lease_lost", **_about(job))
        case JobGivenBack(job):
            _line(logging.INFO, "job_given_back", **_about(job))
        case StoreFailed(error=problem, failures=failures, unsettled=unsettled):
            _line(logging.ERROR, "store_error", problem, failures=failures, unsettled=unsettled)
        case _:
            _seldom(event)


def _seldom(event: Event) -> None:
    match event:
        case StoreBack(failures):
            _line(logging.WARNING, "store_back", failures=failures)
        case PoolStuck(topic, count):
            _line(logging.WARNING, "pool_stuck", topic=topic, count=count)
        case ClockStepped(seconds):
            _line(logging.WARNING, "clock_stepped", seconds=round(seconds, 3))
        case WorkerStarted(worker, store):
            _line(logging.INFO, "worker_started", worker=worker, store=store)
        case WorkerDrains(worker, grace):
            _line(logging.INFO, "worker_drains", worker=worker, grace=grace)
        case WorkerStopped(worker):
            _line(logging.INFO, "worker_stopped", worker=worker)
        case _:
            pass


def _line(level: int, what: str, error: BaseException | None = None, **fields: Any) -> None:
    if _LOGGER.isEnabledFor(level):
        pairs = " ".join(f"{name}={_shown(value)}" for name, value in fields.items() if value is not None)
        _LOGGER.log(level, "%s %s", what, pairs, exc_info=error, extra={"event": what, "fields": fields})


def _about(job: Job) -> dict[str, Any]:
    return {"job": job.id, "topic": job.topic, "key": job.key, "attempt": job.attempt, "trace_id": job.trace_id}


def _shown(value: Any) -> str:
    text = str(value)
    return text if text.isalnum() or text.replace(".", "").replace("-", "").isalnum() else json.dumps(text[:200])
