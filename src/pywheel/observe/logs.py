"""Log lines: a listener that logs events, and the form of lines: text for people, JSON for collectors."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from .. import events
from .._errors import BadOption, StoreError
from ..jobs.handler import current_job
from ..jobs.job import Job, Outcome, State

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_ERROR_LENGTH: Final = 200  # characters
Form: TypeAlias = Literal["text", "json"]
FORMS: Final = ("text", "json")
_TEXT: Final = "%(asctime)s %(levelname)s %(message)s"
_json: Final = json.JSONEncoder(default=str, allow_nan=False).encode
_KNOWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "event", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object a line, in ASCII.

    Each has ``time`` (RFC 3339, UTC), ``level``, ``logger``, ``process`` and ``message``. An event of pywheel's log has
    ``event`` and its fields by name: ``job``, ``topic``, ``key``, ``attempt``, ``error_text`` and so on. A line from a
    handler has the ``job``, ``topic`` and ``attempt`` of its job. ``trace_id`` and ``span_id`` are those of the current
    span; without a span, ``trace_id`` is the job's. An exception has ``error_type`` and ``stack``. The names that a
    program passes in ``extra`` are added, except those above; a value that JSON cannot express becomes text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
            "event": getattr(record, "event", None),
            **_of_job(),
            **_of_span(),
        }
        given = dict(vars(record))
        if record.name == _LOGGER.name:
            line.update(given.pop("fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            line["error_type"] = record.exc_info[0].__name__
            line["stack"] = self.formatException(record.exc_info)
        for name, value in given.items():
            if name not in _KNOWN:
                line.setdefault(name, value)
        said = {name: value for name, value in line.items() if value is not None}
        try:
            return _json(said)
        except Exception:  # noqa: BLE001  (for nan, a cycle, a key that is no text, and whatever a __str__ raises)
            return _json({name: _writable(value) for name, value in said.items()})


def _writable(value: Any) -> Any:
    """Return a value, or text instead of one that cannot be written."""
    try:
        _json(value)
    except Exception:  # noqa: BLE001  (as above)
        try:
            return repr(value)
        except Exception:  # noqa: BLE001  (whatever it raises)
            return object.__repr__(value)
    return value


def _of_job() -> dict[str, Any]:
    """Return the fields of the job whose handler logs this, if any."""
    job = current_job.get()
    if job is None:
        return {}
    return {"job": job.id, "topic": job.topic, "attempt": job.attempt, "trace_id": job.trace_id}


def _of_span() -> dict[str, str]:
    """Return the ids of the current span of OpenTelemetry, if that is in use."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"} if context.is_valid else {}


def begin(form: str = "text", level: int = logging.INFO) -> None:
    """Log to the standard error in a form, unless the program has set up logging. BadOption: there is no such form."""
    if form not in FORMS:
        raise BadOption(f"a log format must be {' or '.join(FORMS)}, not {form!r:.40}")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(handlers=[handler], level=level)


def present() -> tuple[Form, int] | None:
    """Return the form and the level of this process's log, for its child processes; None if it has none."""
    root = logging.getLogger()
    if not root.handlers:
        return None
    return "json" if any(isinstance(handler.formatter, JsonLines) for handler in root.handlers) else "text", root.level


# ---- events ---------------------------------------------------------------------------------------------------------


def log(event: events.Event) -> None:
    """Log noteworthy events to ``pywheel.jobs``: ``JobQueue(url, listeners=[log])``.

    A line is the event, then ``name=value`` pairs; the record also has ``event`` and ``fields``. Puts, claims and good
    ends are not logged, as they are normal.
    """
    logged = _LOGGED.get(type(event))
    if logged is not None:
        logged(event)


def _ended(event: events.JobEnded) -> None:
    if event.outcome is Outcome.DONE or event.error is None:
        return
    _line(logging.WARNING, "attempt_failed", **_about(event.job), error_text=event.error[:_ERROR_LENGTH])
    if event.state is State.DEAD:
        _line(logging.ERROR, "job_dead", **_about(event.job))


def _given_back(event: events.JobGivenBack) -> None:
    level = logging.INFO if event.delay is None else logging.DEBUG  # a delay is the handler's own decision
    _line(level, "job_given_back", **_about(event.job), delay=event.delay)


def _failed(event: events.StoreFailed) -> None:
    fields: dict[str, Any] = {"failures": event.failures, "unsettled": event.unsettled}
    if isinstance(event.error, StoreError):  # its text explains the error and its remedy
        _line(logging.ERROR, "store_error", **fields, error_text=str(event.error))
    else:
        _line(logging.ERROR, "store_error", event.error, **fields)


_LOGGED: Final[dict[type, Callable[[Any], None]]] = {
    events.JobEnded: _ended,
    events.JobDied: lambda event: _line(logging.ERROR, "job_dead", **_about(event.job), reason="lease_lost"),
    events.BodiesSealed: lambda event: _line(
        logging.ERROR, "bodies_sealed", topic=event.topic, count=event.jobs, error_text=str(event.error)
    ),
    events.LeaseLost: lambda event: _line(logging.WARNING, "lease_lost", **_about(event.job)),
    events.JobsForwarded: lambda event: _line(logging.INFO, "jobs_forwarded", topic=event.topic, count=event.jobs),
    events.JobRefused: lambda event: _line(
        logging.ERROR, "job_refused", job=event.id, topic=event.topic, key=event.key, error_text=event.error
    ),
    events.JobGivenBack: _given_back,
    events.JobSkipped: lambda event: _line(logging.INFO, "job_skipped", **_about(event.job), reason=event.reason),
    events.StoreFailed: _failed,
    events.StoreBack: lambda event: _line(logging.WARNING, "store_back", failures=event.failures),
    events.PoolStuck: lambda event: _line(logging.WARNING, "pool_stuck", topic=event.topic, count=event.jobs),
    events.ClockStepped: lambda event: _line(logging.WARNING, "clock_stepped", seconds=round(event.seconds, 3)),
    events.WorkerStarted: lambda event: _line(logging.INFO, "worker_started", worker=event.worker, store=event.store),
    events.WorkerDrains: lambda event: _line(logging.INFO, "worker_drains", worker=event.worker, grace=event.grace),
    events.WorkerStopped: lambda event: _line(logging.INFO, "worker_stopped", worker=event.worker),
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
