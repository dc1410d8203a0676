"""Durable delayed jobs: put now, run later, at least once, with retries."""

from ..stores import Attempt, Counts, Job, NewJob, Outcome, State
from .durations import Duration
from .handler import GiveUp, Handler, RetryLater
from .metrics import Metrics, Silent, Tally
from .queue import JobQueue
from .retry import DEFAULT, Exponential, Fixed, Ladder, RetryPolicy
from .worker import Worker

__all__ = [
    "DEFAULT",
    "Attempt",
    "Counts",
    "Duration",
    "Exponential",
    "Fixed",
    "GiveUp",
    "Handler",
    "Job",
    "JobQueue",
    "Ladder",
    "Metrics",
    "NewJob",
    "Outcome",
    "RetryLater",
    "RetryPolicy",
    "Silent",
    "State",
    "Tally",
    "Worker",
]
