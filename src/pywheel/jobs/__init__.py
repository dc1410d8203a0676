"""What a job is and what may happen to it: records, commands, retries. No I/O and no thread."""

from .commands import Change
from .durations import Duration
from .handler import GiveUp, Handler, NotNow, RetryLater
from .job import SHARDS, Attempt, Counts, Due, Imported, Job, NewJob, Outcome, State, Topic
from .keyring import Keyring
from .limits import Limit, Rate
from .results import Result
from .retry import DEFAULT, AnyRetry, Exponential, Fixed, Ladder, RetryPolicy

__all__ = [
    "DEFAULT",
    "SHARDS",
    "AnyRetry",
    "Attempt",
    "Change",
    "Counts",
    "Due",
    "Duration",
    "Exponential",
    "Fixed",
    "GiveUp",
    "Handler",
    "Imported",
    "Job",
    "Keyring",
    "Ladder",
    "Limit",
    "NewJob",
    "NotNow",
    "Outcome",
    "Rate",
    "Result",
    "RetryLater",
    "RetryPolicy",
    "State",
    "Topic",
]
