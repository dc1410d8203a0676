"""Turns of the loop: whoever reads or writes many jobs lets other requests have theirs in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from ...jobs.job import Job

__all__ = ["Turns", "jobs_out"]

_TURN: Final = 262_144  # bytes of bodies that are looked at in a turn
_EACH: Final = 4_096  # as many as a job without a body takes time for


class Turns:
    """Counts what was done in this turn."""

    def __init__(self) -> None:
        self._size = 0

    async def after(self, body: bytes) -> None:
        """Let others have their turn, if it is time for that after a job with this body."""
        self._size += len(body) + _EACH
        if self._size >= _TURN:
            self._size = 0
            await asyncio.sleep(0)


async def jobs_out(jobs: Sequence[Job], shown: Callable[[Job], Any]) -> Any:
    """Return the list of jobs for an answer, as they are shown: encoded job by job."""
    turns = Turns()
    parts = []
    for job in jobs:
        parts.append(msgspec.json.encode(shown(job)))
        await turns.after(job.body)
    return msgspec.Raw(b"[%s]" % b",".join(parts))
