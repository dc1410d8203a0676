"""The client: what a program does with jobs."""

from .queue import JobQueue

__all__ = ["JobQueue"]
