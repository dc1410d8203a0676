"""The worker: the handlers of a program at work."""

from .worker import Worker

__all__ = ["Worker"]
