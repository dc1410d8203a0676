"""What a store holds, at one moment: for metrics and pages. `pywheel.client.gauges` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..jobs.job import Counts

__all__ = ["StoreGauges", "TopicGauges"]


class TopicGauges(NamedTuple):
    """A topic."""

    counts: Counts
    paused: bool
    late: float  # seconds since the oldest job was due that is not claimed; 0 if none is due
    workers: int  # that handle it

    @property
    def abandoned(self) -> bool:
        """Whether a job is due, nobody has paused its topic, and no worker handles it."""
        return self.late > 0 and not self.paused and self.workers == 0


class StoreGauges(NamedTuple):
    """A store."""

    topics: Mapping[str, TopicGauges]
    workers: int  # that are there
    about: Mapping[str, Any]  # what the store says of its place; names of sizes end in ``bytes``
