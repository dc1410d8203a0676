"""Statements, as the engine yields them. A dialect renders their templates; a carrier sends them.

A template is SQL with a few marks in braces, which `Dialect` replaces:

- ``{w: id, claims}`` is a table `w` of those columns, made of the rows in ``values["w"]``.
- ``{in ids}`` says that what stands before it is one of the numbers in ``values["ids"]``.
- ``{now}`` is the store's time in ms, the same throughout a statement.
- ``{draw}`` is a number from -1 to 1, drawn for each row.
- ``{then}`` joins tables in the order in which they are named.
- ``{lock j}`` locks the rows of `j`, ``{skip j}`` does so and passes over those that others have locked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

__all__ = [
    "Batch", "Do", "Drop", "Each", "Insert", "Last", "NewNames", "Rows", "Select", "Statement", "Steps", "WriteJobs",
    "drive_all", "once_each",
]  # fmt: skip

T = TypeVar("T")


@dataclass(slots=True)
class Select:
    """Reads a few rows."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Rows:
    """Reads any number of rows, of which each has these columns. `text` names its columns so."""

    columns: str
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Do:
    """Writes, and returns no rows.

    What goes `apart` is done on another connection where the transaction is a caller's own, and committed: nobody waits
    for that caller.
    """

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    apart: bool = False


@dataclass(slots=True)
class Each:
    """Runs one writing statement for each of many values."""

    text: str
    values: Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class Insert:
    """Inserts rows. With `unless_taken` it leaves out those that break a unique index, and returns the other ids."""

    table: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    unless_taken: bool = False


@dataclass(slots=True)
class WriteJobs:
    """Writes jobs that a list names and for which `where` holds, and returns what it says of each.

    `source` is a list ``{w: id, ...}``, and the row of the live job with that id is `j`. `write` is either
    ``INSERT INTO table (columns) SELECT values``, of those, or ``UPDATE job SET column = value``. `returns` has names
    of columns of what was written, with what they will be as an expression over `w` and `j` as it was before.
    """

    write: str
    source: str
    where: str
    values: Mapping[str, Any]
    returns: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Drop:
    """Forgets the live rows of those of some jobs that a `WriteJobs` before it has written as finished."""

    ids: Sequence[int]


@dataclass(slots=True)
class NewNames:
    """Stores names in a table, but those that somebody else has stored meanwhile. It goes apart, as a `Do` may."""

    table: str
    names: Sequence[str]


Statement: TypeAlias = Select | Rows | Do | Each | Insert | WriteJobs | Drop | NewNames
Batch: TypeAlias = Sequence[Statement]
Steps: TypeAlias = Generator[Batch, Sequence[Sequence[Any]], T]
"""Yields batches, is sent the rows of each statement, and returns what they come to."""


class Last(tuple[Statement, ...]):
    """The last batch of a generator: what other commands need may be sent along with it."""

    __slots__ = ()


def drive_all(parts: Sequence[Steps[Any]]) -> Steps[list[Any]]:
    """Drive several generators in order, with as few batches as may be; return what each returns.

    What one writes is there for those after it: the next one begins in the same batch only behind a `Last`.
    """
    found: list[Any] = [None] * len(parts)
    begun: list[tuple[int, Batch]] = []  # generators and the batches that they wait for
    at = 0
    while at < len(parts) or begun:
        while at < len(parts) and (not begun or isinstance(begun[-1][1], Last)):
            try:
                begun.append((at, next(parts[at])))
            except StopIteration as end:
                found[at] = end.value
            at += 1
        rows = iter((yield [statement for _, batch in begun for statement in batch])) if begun else iter(())
        still: list[tuple[int, Batch]] = []
        for place, batch in begun:
            try:
                still.append((place, parts[place].send([next(rows) for _ in batch])))
            except StopIteration as end:
                found[place] = end.value
        begun = still
    return found


def once_each(commands: Sequence[T], names: Callable[[T], Collection[Any]]) -> list[list[T]]:
    """Divide commands, in order, so that no two of a part have a name in common."""
    parts: list[list[T]] = [[]]
    seen: set[Any] = set()
    for command in commands:
        if not seen.isdisjoint(names(command)):
            parts.append([])
            seen = set()
        parts[-1].append(command)
        seen.update(names(command))
    return parts
