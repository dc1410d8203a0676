"""Small values by name, some until a time."""

from __future__ import annotations

from collections.abc import Sequence

from ...jobs.commands import NOTES_FORGOTTEN, SetNote
from ...jobs.queries import GetNote, ListNotes
from ..checks import a_prefix, clamped, note_name
from .statement import Do, Insert, Select, Statement, Steps, drive_all
from .transaction import Lookup, Transaction


def keep(tx: Transaction, commands: Sequence[SetNote]) -> Steps[list[bytes | None]]:
    """Keep notes, or delete them; drop some that are over."""
    outcomes = yield from drive_all([_keep(tx, command) for command in commands])
    ends = sum(command.ttl is not None for command in commands)
    if ends:
        yield (tx.forget_notes(NOTES_FORGOTTEN * ends),)
    return outcomes


def _keep(tx: Transaction, command: SetNote) -> Steps[bytes | None]:
    name = note_name(command.name)
    look = Select("SELECT n.value, n.until, {now} FROM note n WHERE n.label = :label {lock n}", {"label": name})
    [rows] = yield (look,)
    if (
        not rows and command.value is not None and tx.dialect.skip
    ):  # others may write the note at once: a row is needed to lock
        row = (name, tx.dialect.moment(tx.now), b"")  # over already
        yield (Insert("note", ("label", "until", "value"), [row], unless_taken=True),)
        [rows] = yield (look,)
    before = None
    for value, until, now in rows:
        before = None if until is not None and now >= until else bytes(value)
    if command.absent and before is not None:
        return before
    if command.value is not None:
        yield (set_note(name, command.value, command.ttl),)
    elif rows:
        yield (Do("DELETE FROM note WHERE label = :label", {"label": name}),)
    return before


def set_note(name: bytes, value: bytes, ttl: int | None) -> Statement:
    """Return the statement that stores a value under a name, in place of the present one."""
    text = "INSERT INTO note (label, until, value) VALUES (:label, {now} + :ttl, :value) {else label: until, value}"
    return Do(text, {"label": name, "value": value, "ttl": ttl})


# ---- reading --------------------------------------------------------------------------------------------------------


def note(known: Lookup, query: GetNote) -> Steps[bytes | None]:  # noqa: ARG001  (as all readers)
    """Return the value of a note, or None."""
    text = "SELECT value FROM note WHERE label = :label AND (until IS NULL OR until > {now})"
    [rows] = yield (Select(text, {"label": note_name(query.name)}),)
    return bytes(rows[0][0]) if rows else None


def notes(known: Lookup, query: ListNotes) -> Steps[list[tuple[str, bytes]]]:  # noqa: ARG001  (as all readers)
    """Return notes, by name."""
    prefix = a_prefix(query.prefix)
    text = (
        "SELECT label, value FROM note WHERE label > :after AND label >= :prefix AND label < :stop "
        "AND (until IS NULL OR until > {now}) ORDER BY label LIMIT :limit"
    )
    values = {
        "prefix": prefix,
        "after": a_prefix(query.after),
        "stop": prefix + b"\xff",
        "limit": max(clamped(query.limit), 0),
    }
    [rows] = yield (Select(text, values),)
    return [(bytes(label).decode(), bytes(value)) for label, value in rows]
