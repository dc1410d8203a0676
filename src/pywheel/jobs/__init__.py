"""Durable delayed jobs: put now, run later, at least once, with retries."""

from .durations import Duration
from .handler import GiveUp, Handler, RetryLater
from .metrics import Metrics, Silent, Tally
from .queue import JobQueue
from .retry import DEFAULT, Exponential, Fixed, Ladder, RetryPolicy
from .worker import Worker

__all__ = [
    "DEFAULT",
    "Duration",
    "Exponential",
    "Fixed",
    "GiveUp",
    "Handler",
    "JobQueue",
    "Ladder",
    "Metrics",
    "RetryLater",
    "RetryPolicy",
    "Silent",
    "Tally",
    "Worker",
]
