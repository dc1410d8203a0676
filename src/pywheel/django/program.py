"""The queue of a Django project, on the store that its settings name. Its first use opens the store."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import django
from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.apps import apps
from django.db import connections

from ..client.queue import JobQueue
from ..jobs.handler import is_async
from ..jobs.job import Job
from ..jobs.middleware import Middleware
from .database import store_url


class Connections(Middleware):
    """The care for database connections around each job and each `on_dead`, as Django does it around requests.

    Connections that are unusable, or older than CONN_MAX_AGE, are closed where a function runs. A coroutine's calls by
    `sync_to_async` run in a thread of its own, as those of an async view: no other job has its connections.
    """

    def add(self, functions: list[Any], function: Callable[..., object], what: str) -> None:
        """Add a function; care for connections around it if it is an `on_dead`. TypeError as `Middleware.add`."""
        super().add(functions, function, what)
        if functions is self.dead:
            functions[-1] = _with_connections(function)

    def around_function(self, function: Callable[[Job], Any]) -> Callable[[Job], Any]:
        """Return a function of the same kind with this middleware around it."""
        return _with_connections(super().around_function(function))


def _connections() -> list[Any]:
    """Return the connections of this thread, except those in a transaction: a test runs jobs in its own."""
    return [connection for connection in connections.all(initialized_only=True) if not connection.in_atomic_block]


def _close_old_connections() -> None:
    """Close connections as Django does around requests."""
    for connection in _connections():
        connection.close_if_unusable_or_obsolete()


def _close_connections() -> None:
    for connection in _connections():
        connection.close()


def _with_connections(function: Callable[[Job], Any]) -> Callable[[Job], Any]:
    if is_async(function):

        @functools.wraps(function)
        async def awaited(job: Job) -> Any:
            async with ThreadSensitiveContext() as context:
                try:
                    return await function(job)
                finally:
                    if context in SyncToAsync.context_to_thread_executor:  # else it called none, and there is no thread
                        await sync_to_async(_close_connections)()  # the thread ends

        return awaited

    @functools.wraps(function)
    def called(job: Job) -> Any:
        if asyncio._get_running_loop() is not None:  # in a coroutine test, where Django refuses synchronous calls
            return sync_to_async(called)(job)
        _close_old_connections()
        try:
            return function(job)
        finally:
            _close_old_connections()

    return called


queue = JobQueue(store_url)
"""The project's queue. Its handlers are in the modules `jobs` of the apps, which Django imports when it is ready."""
queue.middleware = Connections()

if not apps.ready and not apps.loading:  # a worker process starts with this module, not with manage.py
    django.setup()
