"""Jobs: their records, commands and queries, retry policies, limits and schedules. No I/O and no thread."""

from .commands import Change, Ref
from .durations import Duration
from .handler import GiveUp, Handler, NotNow, RetryLater
from .job import SHARDS, Attempt, Counts, Due, Imported, Job, NewJob, Outcome, State, Topic
from .keyring import Keyring
from .limits import Limit, LimitOverride, Rate
from .new_job import EditOptions, JobOptions, PutOptions
from .results import Result
from .retry import DEFAULT, AnyRetry, Exponential, Fixed, Ladder, RetryPolicy
from .schedule import CatchUp, Overlap, Schedule

__all__ = [
    "DEFAULT",
    "SHARDS",
    "AnyRetry",
    "Attempt",
    "CatchUp",
    "Change",
    "Counts",
    "Due",
    "Duration",
    "EditOptions",
    "Exponential",
    "Fixed",
    "GiveUp",
    "Handler",
    "Imported",
    "Job",
    "JobOptions",
    "Keyring",
    "Ladder",
    "Limit",
    "LimitOverride",
    "NewJob",
    "NotNow",
    "Outcome",
    "Overlap",
    "PutOptions",
    "Rate",
    "Ref",
    "Result",
    "RetryLater",
    "RetryPolicy",
    "Schedule",
    "State",
    "Topic",
]
