"""From commands to statements: which part of the engine knows what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from ...jobs import commands as c
from . import claim, manage, notes, put, settle
from .statement import Steps, drive_all
from .transaction import Transaction

__all__ = ["apply"]

_Part = Callable[[Transaction, Any], Steps[list[Any]]]


def _announce(tx: Transaction, commands: Sequence[c.Announce]) -> Steps[list[None]]:
    """Say which topics workers handle."""
    for command in commands:
        topics = json.dumps(sorted(set(command.topics))) if command.topics else None
        tx.changes.announced[command.worker] = command.topics
        yield from tx.dialect.announce(tx, command.worker, topics)
    return [None] * len(commands)


_PARTS: Final[dict[type, _Part]] = {
    c.Put: put.put,
    c.Import: put.take_in,
    c.Cancel: manage.cancel,
    c.Reschedule: manage.reschedule,
    c.Retry: manage.retry,
    c.Rewrite: manage.rewrite,
    c.Delete: manage.delete,
    c.Pause: manage.pause,
    c.Purge: manage.purge,
    c.SetNote: notes.keep,
    c.Reserve: claim.reserve,
    c.Claim: claim.claim,
    c.Ack: settle.settle,
    c.Nack: settle.settle,
    c.Release: settle.settle,
    c.Touch: settle.settle,
    c.Begin: settle.settle,
    c.Expire: settle.expire,
    c.Announce: _announce,
}
"""What applies commands that follow each other, of one kind or of one that goes with it."""


def apply(tx: Transaction, commands: Sequence[c.Command[Any]]) -> Steps[list[Any]]:
    """Apply commands in order; return the outcome of each. `Dialect.count` and the commit come after it."""
    [(part, some), *others] = _grouped(commands)
    return _in_order(tx, [(part, some), *others]) if others else part(tx, some)


def _in_order(tx: Transaction, groups: Sequence[tuple[_Part, list[Any]]]) -> Steps[list[Any]]:
    parts = yield from drive_all([part(tx, some) for part, some in groups])
    return [outcome for outcomes in parts for outcome in outcomes]


def _grouped(commands: Sequence[c.Command[Any]]) -> Iterator[tuple[_Part, list[Any]]]:
    """Yield the commands in order, those together that one part applies at once."""
    parts = map(_PARTS.__getitem__, map(type, commands))
    for part, some in groupby(zip(parts, commands, strict=True), itemgetter(0)):
        yield part, [command for _, command in some]
