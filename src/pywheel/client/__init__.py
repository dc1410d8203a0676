"""The client: what a program does with jobs."""

from .jobs import AsyncJobs, AsyncTopics, BulkWords, FilterWords, Jobs, PageWords, RetryWords, Topics
from .program import HandlerOptions, TaskOptions
from .queue import AsyncJobQueue, JobQueue
from .schedules import AsyncSchedules, Scheduled, ScheduleOptions, Schedules

__all__ = [
    "AsyncJobQueue",
    "AsyncJobs",
    "AsyncSchedules",
    "AsyncTopics",
    "BulkWords",
    "FilterWords",
    "HandlerOptions",
    "JobQueue",
    "Jobs",
    "PageWords",
    "RetryWords",
    "ScheduleOptions",
    "Scheduled",
    "Schedules",
    "TaskOptions",
    "Topics",
]
