"""How log lines look: text for people, or a JSON object a line for what collects them."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from .._errors import BadOption
from ..jobs.handler import current_job

__all__ = ["FORMS", "Form", "JsonLines", "begin", "present"]

Form: TypeAlias = Literal["text", "json"]
FORMS: Final = ("text", "json")
_TEXT: Final = "%(asctime)s %(levelname)s %(message)s"
_KNOWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "event", "fields", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object a line, in ASCII.

    Each has ``time`` (RFC 3339, UTC), ``level``, ``logger``, ``process`` and ``message``. An event of pywheel's log has
    ``event`` and its fields by name: ``job``, ``topic``, ``key``, ``attempt``, ``error_text`` and so on. A line that a
    handler has written has its ``job``, ``topic`` and ``attempt``. ``trace_id`` and ``span_id`` are those of the span
    in which it was written, or else ``trace_id`` that of the job. An exception has ``error_type`` and ``stack``. What
    a program gave as ``extra`` goes by its own name, unless that is one of these.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a line."""
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
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line.update(fields)
        if record.exc_info and record.exc_info[0] is not None:
            line["error_type"] = record.exc_info[0].__name__
            line["stack"] = self.formatException(record.exc_info)
        for name, value in vars(record).items():
            if name not in _KNOWN:
                line.setdefault(name, value)
        return json.dumps({name: value for name, value in line.items() if value is not None}, default=str)


def _of_job() -> dict[str, Any]:
    """Return what there is to say of the job whose handler writes this."""
    job = current_job.get()
    if job is None:
        return {}
    return {"job": job.id, "topic": job.topic, "attempt": job.attempt, "trace_id": job.trace_id}


def _of_span() -> dict[str, str]:
    """Return the ids of the present span of OpenTelemetry, if that is in use."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"} if context.is_valid else {}


def begin(form: str = "text", level: int = logging.INFO) -> None:
    """Log to the standard error in a form, unless the program has set up its logging. BadOption for another form."""
    if form not in FORMS:
        raise BadOption(f"a log is written as {' or '.join(FORMS)}, not {form!r:.40}")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(handlers=[handler], level=level)


def present() -> tuple[Form, int] | None:
    """Return form and level of this process's log, for the processes that it starts; None if it has none."""
    root = logging.getLogger()
    if not root.handlers:
        return None
    return "json" if any(isinstance(handler.formatter, JsonLines) for handler in root.handlers) else "text", root.level
