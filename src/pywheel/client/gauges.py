"""Reads the gauges of a store."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ..jobs.job import Counts
from ..jobs.queries import CountJobs, GetNextDues, ListTopics, ListWorkers
from ..observe.gauges import StoreGauges, TopicGauges
from ..stores.contract import Store

__all__ = ["read"]

_SILENT: Final = 5.0
"""Seconds without a beat after which a worker is not counted: more than any store lets pass between two."""
_NONE: Final = Counts()


def read(store: Store) -> StoreGauges:
    """Return what a store holds now. O(topics x log jobs + running jobs + workers), in five queries.

    Raises:
        StoreError: the store cannot do it.
    """
    counts, now = store.ask(CountJobs()), store.clock.wall()
    paused = {topic.name: topic.paused for topic in store.ask(ListTopics())}
    dues = store.ask(GetNextDues())
    there = [member for member in store.ask(ListWorkers()) if member.silent <= _SILENT]
    handled = Counter(topic for member in there for topic in member.topics)
    topics = {
        name: TopicGauges(
            counts.get(name, _NONE),
            paused.get(name, False),
            max(now - dues.get(name, now), 0) / 1000,
            handled[name],
        )
        for name in sorted(counts.keys() | paused.keys())
    }
    return StoreGauges(topics, len(there), store.about())
