"""The executors of handlers: threads, an event loop, and isolated processes."""

from .coroutines import AdoptedLoop, AsyncPool, Loop, OwnLoop
from .pool import Outside, Pool, Runner
from .processes import IsolatedPool
from .threads import ThreadPool, Threads

__all__ = [
    "AdoptedLoop",
    "AsyncPool",
    "IsolatedPool",
    "Loop",
    "Outside",
    "OwnLoop",
    "Pool",
    "Runner",
    "ThreadPool",
    "Threads",
]
