"""The worker: the handlers of a program at work."""

from .supervisor import Supervisor
from .worker import Worker

__all__ = ["Supervisor", "Worker"]
