"""Which jobs a reader means."""

from __future__ import annotations

from typing import NamedTuple

from ..jobs.job import Job, State

__all__ = ["Filter"]


class Filter(NamedTuple):
    """Which jobs are meant; None is any."""

    topic: str | None = None
    state: State | None = None
    key: str | None = None  # exactly this key
    due_from: int | None = None  # due at or after, ms
    due_until: int | None = None  # due at or before, ms
    error: str | None = None  # its last error contains this text

    def fits(self, job: Job) -> bool:
        """Whether it means this job."""
        return (
            self.topic in (None, job.topic)
            and self.state in (None, job.state)
            and self.key in (None, job.key)
            and (self.due_from is None or job.due >= self.due_from)
            and (self.due_until is None or job.due <= self.due_until)
            and (self.error is None or self.error in (job.last_error or ""))
        )
