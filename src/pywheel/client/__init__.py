"""The client: what a program does with jobs."""

from .queue import JobQueue
from .task import Task

__all__ = ["JobQueue", "Task"]
