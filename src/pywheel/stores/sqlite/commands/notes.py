"""Keeping notes."""

from __future__ import annotations

from collections.abc import Sequence

from ....jobs.commands import NOTES_FORGOTTEN, Keep
from ...checks import note_name
from ..transaction import Transaction

__all__ = ["keep"]


def keep(transaction: Transaction, commands: Sequence[Keep]) -> list[bytes | None]:
    """Keep notes, or delete them; forget some that are over."""
    outcomes = [_keep(transaction, command) for command in commands]
    ends = sum(command.ttl is not None for command in commands)
    if ends:
        transaction.forget_notes(NOTES_FORGOTTEN * ends)
    return outcomes


def _keep(transaction: Transaction, command: Keep) -> bytes | None:
    name, now = note_name(command.name), transaction.now
    row = transaction.row("note", (name,))
    before: bytes | None = None if row is None or (row[1] is not None and now >= row[1]) else row[0]
    if command.absent and before is not None:
        return before
    if command.value is not None:
        until = None if command.ttl is None else now + command.ttl
        transaction.run("note_set", (name, until, command.value))
    elif row is not None:
        transaction.run("note_remove", (name,))
    return before
