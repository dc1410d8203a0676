"""The client: what a program does with jobs."""

from .queue import AsyncJobQueue, JobQueue

__all__ = ["AsyncJobQueue", "JobQueue"]
