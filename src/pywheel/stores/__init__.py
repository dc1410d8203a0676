"""Where jobs are kept: the records, the contract that every store keeps, and the stores."""

from .clock import Clock, SystemClock
from .contract import Hints, Listener, Store
from .ops import Ref, Terms
from .record import SHARDS, Attempt, Counts, Due, Job, NewJob, Outcome, State, Topic, shard_of
from .url import open

__all__ = [
    "SHARDS",
    "Attempt",
    "Clock",
    "Counts",
    "Due",
    "Hints",
    "Job",
    "Listener",
    "NewJob",
    "Outcome",
    "Ref",
    "State",
    "Store",
    "SystemClock",
    "Terms",
    "Topic",
    "open",
    "shard_of",
]
