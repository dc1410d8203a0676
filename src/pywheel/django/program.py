"""The queue of a Django project, on the store that its settings name. Opened when it is used first."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.db import connections

from ..client.queue import JobQueue
from ..jobs.handler import Handler, is_async
from ..jobs.job import Job
from ..jobs.middleware import Middleware
from .database import store_url

__all__ = ["queue"]


class Connections(Middleware):
    """Handlers find good connections to the databases, as requests do: around each job, where it runs.

    Those that are unusable, or older than CONN_MAX_AGE, are closed there. So does what is told of dead jobs.
    """

    def add(self, functions: list[Any], function: Callable[..., object], what: str) -> None:
        """Take one in. BadJob as for any program."""
        super().add(functions, function, what)
        if functions is self.dead:
            functions[-1] = _with_connections(function)

    def around(self, handler: Handler) -> Handler:
        """Return the handler with that around it."""
        return replace(handler, function=self.around_function(handler.function))

    def around_function(self, function: Callable[[Job], Any]) -> Callable[[Job], Any]:
        """Return a function of the same kind, with that around it."""
        return _with_connections(super().around_function(function))


def _close_old_connections() -> None:
    """Do what Django does around requests. Connections in a transaction stay: a test runs jobs in its own."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def _with_connections(function: Callable[[Job], Any]) -> Callable[[Job], Any]:
    if is_async(function):

        @functools.wraps(function)
        async def awaited(job: Job) -> Any:
            await sync_to_async(_close_old_connections)()
            try:
                return await function(job)
            finally:
                await sync_to_async(_close_old_connections)()

        return awaited

    @functools.wraps(function)
    def called(job: Job) -> Any:
        if asyncio._get_running_loop() is not None:  # a test that is a coroutine: Django refuses to be asked there
            return sync_to_async(called)(job)
        _close_old_connections()
        try:
            return function(job)
        finally:
            _close_old_connections()

    return called


queue = JobQueue(store_url)
"""The project's queue. Handlers stand in the modules `jobs` of the apps, which are imported when Django is ready."""
queue.middleware = Connections()

if not apps.ready and not apps.loading:  # a worker's process begins here, and not with manage.py
    django.setup()
