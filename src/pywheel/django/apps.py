"""The app: it imports handlers from the apps' modules `jobs`, and `manage.py migrate` makes the tables of the jobs."""

from __future__ import annotations

import functools
from typing import Any, Final
from weakref import WeakSet

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import pre_migrate
from django.utils.module_loading import autodiscover_modules

_LEFT: Final[WeakSet[Any]] = WeakSet()  # what drops databases, after the queue has left them


class PywheelConfig(AppConfig):
    """The app that ``"pywheel.django"`` in INSTALLED_APPS names."""

    name = "pywheel.django"
    label = "pywheel"
    verbose_name = "Jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import the modules `jobs` of all apps, which have the handlers."""
        pre_migrate.connect(_migrated, sender=self)
        autodiscover_modules("jobs")


def _migrated(using: str, **_: Any) -> None:
    """Make or upgrade the store, if it is in the database that is migrated."""
    from .database import database_alias, made

    if using == database_alias():
        made(using)
        _leave_before_it_is_dropped(using)


def _leave_before_it_is_dropped(alias: str) -> None:
    """Have the queue disconnect before a test's database is dropped: PostgreSQL drops none with open connections.

    The same `creation` object makes, migrates and drops such a database.
    """
    creation = connections[alias].creation
    if creation in _LEFT:  # at an earlier migration
        return
    _LEFT.add(creation)
    destroy = creation.destroy_test_db

    @functools.wraps(destroy)
    def destroyed(*arguments: Any, **options: Any) -> Any:
        from .program import queue

        queue.calls.let_go()
        return destroy(*arguments, **options)

    creation.destroy_test_db = destroyed
