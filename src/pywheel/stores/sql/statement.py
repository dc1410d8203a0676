"""Statements, as the engine yields them. A dialect renders their templates; a carrier sends them.

A template is SQL with a few marks in braces, which `Dialect` replaces:

- ``{w: id, claims}`` is a table `w` of these columns, made of the rows in ``values["w"]``.
- ``{in ids}`` is a condition for the expression before it: to be one of the numbers in ``values["ids"]``.
- ``{now}`` is the store's time in ms, the same throughout a statement.
- ``{draw}`` is a number from -1 to 1, drawn for each row.
- ``{then}`` joins tables in the order in which they are named.
- ``{each job j: condition}`` joins each row before it with the rows `j` of `job` that meet the condition. It has all
  that an index needs to find them, and nothing that would lead to another index.
- ``{lock j}`` locks the rows of `j`; ``{skip j}`` locks them too, except those that others have locked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Select:
    """Reads a few rows."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Rows:
    """Reads any number of rows with these columns. `text` gives its columns the same names."""

    columns: str
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Do:
    """Writes, and returns no rows.

    In a caller's own transaction, a statement that goes `apart` runs and commits on another connection, so that nobody
    waits for that caller.
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
    """Inserts rows. With `unless_taken` it skips rows that break a unique index, and returns the other ids."""

    table: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    unless_taken: bool = False


@dataclass(slots=True)
class WriteJobs:
    """Writes the jobs of a list for which `where` holds, and returns the columns `returns` of each.

    `source` is a list ``{w: id, ...}``; `j` is the row of the live job with that id. `write` is either
    ``INSERT INTO table (columns) SELECT values`` from these, or ``UPDATE job SET column = value``. `returns` maps names
    of written columns to their new values, as expressions over `w` and over `j` as it was before.
    """

    write: str
    source: str
    where: str
    values: Mapping[str, Any]
    returns: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Drop:
    """Deletes the live rows of these jobs, as far as an earlier `WriteJobs` has written them as finished."""

    ids: Sequence[int]


@dataclass(slots=True)
class NewNames:
    """Stores names in a table, except those that others have stored meanwhile. It goes apart, as a `Do` may."""

    table: str
    names: Sequence[str]


Statement: TypeAlias = Select | Rows | Do | Each | Insert | WriteJobs | Drop | NewNames
Batch: TypeAlias = Sequence[Statement]
Steps: TypeAlias = Generator[Batch, Sequence[Sequence[Any]], T]
"""Generators that yield batches, are sent the rows of each statement, and return a result."""


class Last(tuple[Statement, ...]):
    """The last batch of a generator: the statements of other commands may be sent with it."""

    __slots__ = ()


def drive(send: Callable[[Batch], Sequence[Any]], steps: Steps[T]) -> T:
    """Run the statements that a generator yields; return its result. Each batch is a trip."""
    try:
        batch = next(steps)
        while True:
            batch = steps.send(send(batch) if batch else ())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def drive_all(parts: Sequence[Steps[Any]]) -> Steps[list[Any]]:
    """Drive several generators in order, in as few batches as possible; return the result of each.

    Each generator sees the writes of those before it. It begins in their batch only if that batch is a `Last`.
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
    """Divide commands, in order, so that no two commands of a part have a name in common."""
    parts: list[list[T]] = [[]]
    seen: set[Any] = set()
    for command in commands:
        if not seen.isdisjoint(names(command)):
            parts.append([])
            seen = set()
        parts[-1].append(command)
        seen.update(names(command))
    return parts
