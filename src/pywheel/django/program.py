"""The queue of a Django project, on the store that its settings name. Opened when it is used first."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.db import close_old_connections

from ..client.queue import JobQueue
from ..jobs.handler import is_async
from ..jobs.job import Job
from .database import store_url

__all__ = ["queue"]

F = TypeVar("F", bound=Callable[[Job], Any])


class DjangoQueue(JobQueue):
    """A JobQueue whose handlers find a good connection to the database, as a request does.

    Before and after each job Django closes the connections that are unusable, or older than CONN_MAX_AGE.
    """

    def handler(self, topic: str, **options: Any) -> Callable[[F], F]:
        """Return a decorator that registers a topic's handler; see `JobQueue.handler`."""
        register = super().handler(topic, **options)

        def registered(function: F) -> F:
            # A process of its own imports what it finds by name, and has one job at a time.
            register(function if options.get("isolate") else _with_connections(function))
            return function

        return registered


def _with_connections(function: Callable[[Job], Any]) -> Callable[[Job], Any]:
    if is_async(function):

        @functools.wraps(function)
        async def awaited(job: Job) -> Any:
            await sync_to_async(close_old_connections)()
            try:
                return await function(job)
            finally:
                await sync_to_async(close_old_connections)()

        return awaited

    @functools.wraps(function)
    def called(job: Job) -> Any:
        if asyncio._get_running_loop() is not None:  # a test that is a coroutine: Django refuses to be asked there
            return sync_to_async(called)(job)
        close_old_connections()
        try:
            return function(job)
        finally:
            close_old_connections()

    return called


queue = DjangoQueue(store_url)
"""The project's queue. Handlers stand in the modules `jobs` of the apps, which are imported when Django is ready."""

if not apps.ready and not apps.loading:  # a worker's process begins here, and not with manage.py
    django.setup()
