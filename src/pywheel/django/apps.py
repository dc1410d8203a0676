"""The app: handlers are found in the apps' modules `jobs`, and `manage.py migrate` makes the tables of the jobs."""

from __future__ import annotations

import functools
from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import pre_migrate
from django.utils.module_loading import autodiscover_modules

__all__ = ["PywheelConfig"]


class PywheelConfig(AppConfig):
    """What INSTALLED_APPS names by ``"pywheel.django"``."""

    name = "pywheel.django"
    label = "pywheel"
    verbose_name = "Jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import the modules `jobs` of all apps, in which the handlers are."""
        pre_migrate.connect(_migrated, sender=self)
        autodiscover_modules("jobs")


def _migrated(using: str, **_: Any) -> None:
    """Make the store, or upgrade it, if it is in the database that is migrated."""
    from .database import database_alias, made

    if using == database_alias():
        made(using)
        _leave_before_it_is_dropped(using)


def _leave_before_it_is_dropped(alias: str) -> None:
    """Have the queue leave a test's database at its end: PostgreSQL drops none that somebody is connected to.

    Django makes such a database, and migrates it, by the very object that will drop it.
    """
    creation = connections[alias].creation
    destroy = creation.destroy_test_db

    @functools.wraps(destroy)
    def destroyed(*arguments: Any, **options: Any) -> Any:
        from .program import queue

        queue.calls.let_go()
        return destroy(*arguments, **options)

    creation.destroy_test_db = destroyed
