"""Log lines for people and machines: an event, then ``name=value`` pairs, which are attributes of the record too."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from ..jobs.job import Job

__all__ = ["about", "event"]

_LOGGER: Final = logging.getLogger("pywheel.jobs")


def event(level: int, what: str, error: BaseException | None = None, **fields: Any) -> None:
    """Log an event to ``pywheel.jobs``; the record has `event` and `fields`."""
    if _LOGGER.isEnabledFor(level):
        pairs = " ".join(f"{name}={_shown(value)}" for name, value in fields.items() if value is not None)
        _LOGGER.log(level, "%s %s", what, pairs, exc_info=error, extra={"event": what, "fields": fields})


def about(job: Job) -> dict[str, Any]:
    """Return the fields that name a job."""
    return {"job": job.id, "topic": job.topic, "key": job.key, "attempt": job.attempt, "trace_id": job.trace_id}


def _shown(value: Any) -> str:
    text = str(value)
    return text if text.isalnum() or text.replace(".", "").replace("-", "").isalnum() else json.dumps(text[:200])
