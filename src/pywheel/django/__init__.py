"""Delayed jobs in a Django project: a queue on the project's own database, a command, and the admin's list of jobs.

Add ``"pywheel.django"`` to INSTALLED_APPS, put handlers into modules `jobs` of the apps, and use
``from pywheel.django import queue``. Needs the extra ``django``. docs/frameworks.md shows a project.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .program import queue

__all__ = ["queue"]


def __getattr__(name: str) -> Any:
    """Make the queue when it is first used: Django imports this package before its settings may be used."""
    if name != "queue":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .program import queue

    return queue
