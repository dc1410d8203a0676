"""The client: what a program does with jobs."""

from .queue import AsyncJobQueue, JobQueue
from .task import AsyncTask, Task

__all__ = ["AsyncJobQueue", "AsyncTask", "JobQueue", "Task"]
