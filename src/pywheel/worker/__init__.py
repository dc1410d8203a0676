"""The worker: the handlers of a program at work."""

from .async_worker import AsyncWorker
from .base import WorkerOptions
from .worker import Worker

__all__ = ["AsyncWorker", "Worker", "WorkerOptions"]
