"""What each command does to the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ....jobs import commands as c
from ..transaction import Transaction
from . import announce, claims, endings, imports, manage, notes, puts

__all__ = ["APPLY"]

APPLY: Final[dict[type, Callable[[Transaction, Any], list[Any]]]] = {
    c.Put: puts.put,
    c.Import: imports.take_in,
    c.Cancel: manage.cancel,
    c.Reschedule: manage.reschedule,
    c.Retry: manage.retry,
    c.Rewrite: manage.rewrite,
    c.Delete: manage.delete,
    c.Pause: manage.pause,
    c.Purge: manage.purge,
    c.Keep: notes.keep,
    c.Reserve: claims.reserve,
    c.Claim: claims.claim,
    c.Begin: claims.begin,
    c.Touch: claims.touch,
    c.Ack: endings.ack,
    c.Nack: endings.nack,
    c.Release: endings.release,
    c.Expire: endings.expire,
    c.Announce: announce.announce,
}
"""Each applies commands of a kind that follow each other, and returns their outcomes, in order."""
