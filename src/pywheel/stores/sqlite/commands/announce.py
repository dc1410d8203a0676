"""Saying which topics a worker handles."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ....jobs.commands import Announce
from ..transaction import Transaction

__all__ = ["announce"]


def announce(transaction: Transaction, commands: Sequence[Announce]) -> list[None]:
    """Store what workers handle; forget those that are long gone."""
    for command in commands:
        if command.topics:
            topics = sorted(set(command.topics))
            transaction.run("member_set", (command.worker, json.dumps(topics)))
        else:
            transaction.run("member_remove", (command.worker,))
    said = [command.worker for command in commands]
    for worker, _ in json.loads(transaction.row("roster")[0]):
        if worker not in said and transaction.presence.gone(worker):
            transaction.run("member_remove", (worker,))
    transaction.announced(said)
    return [None for _ in commands]
