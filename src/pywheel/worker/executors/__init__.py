"""What runs handlers: threads, an event loop, and processes of their own."""

from .coroutines import AsyncPool, Loop
from .pool import Outside, Pool, Runner
from .processes import IsolatedPool
from .threads import ThreadPool, Threads

__all__ = ["AsyncPool", "IsolatedPool", "Loop", "Outside", "Pool", "Runner", "ThreadPool", "Threads"]
