"""What a database does for a transaction: two trips to the server, of which the second commits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..._errors import StoreAway, StoreBusy
from ...jobs.commands import Command
from .changes import Changes
from .direct import Direct

__all__ = ["Answer", "Asked", "Conflict", "Purged", "Session", "Unknown"]


class Conflict(StoreBusy):
    """Another transaction came first: begin anew, and see what it has done."""


class Unknown(StoreAway):
    """The connection broke in the commit, and whether it happened is not known."""


class Purged(NamedTuple):
    """Finished jobs to be forgotten."""

    state: int
    age: int
    topic: int | None
    limit: int


class Asked(NamedTuple):
    """What is to be read and locked. Topics are numbers."""

    due: Sequence[tuple[int, bool]] = ()  # id, and whether its body matters
    run: Sequence[tuple[int, bool]] = ()  # id, body
    finished: Sequence[int] = ()
    claimed: Sequence[int] = ()  # delayed or with a lease that is over; those that others lock are left out
    topics: Sequence[str] = ()  # whether they are paused
    pausing: bool = False  # and they are locked
    holders: Sequence[tuple[int, str]] = ()  # topic and key: who has it
    named: Sequence[tuple[int, str]] = ()  # topic and key: the latest with it
    reserved: Sequence[tuple[int, int]] = ()  # topic, and how many that are due; those that others lock are left out
    lanes: Sequence[tuple[int, int, int]] = ()  # the same of jobs with a priority: topic, how many, and which
    lost: int = 0  # how many whose lease is over; those that others lock are left out
    lost_of: Sequence[int] = ()  # topics of which they come with their bodies
    leases: int = 0  # how many of the first leases that are not over
    purged: Sequence[Purged] = ()
    nonces: Sequence[str] = ()
    notes: Sequence[bytes] = ()  # names
    limits: Sequence[bytes] = ()  # names of notes, to be locked before all else: one that guards a limit
    running: Sequence[int] = ()  # topics, of which is read what runs
    looked: Sequence[int] = ()  # delayed or with a lease that is over: read without a body, and not locked
    noticed: Sequence[bytes] = ()  # names of notes, not locked


class Answer(NamedTuple):
    """What was found."""

    now: int
    topics: Sequence[tuple[int, str, bool, int]] = ()  # number, name, whether paused, and bits of priorities
    due: Sequence[Sequence[Any]] = ()
    run: Sequence[Sequence[Any]] = ()
    finished: Sequence[Sequence[Any]] = ()
    ids: Sequence[int] = ()  # of `holders` and `named`
    leases: Sequence[tuple[int, int]] = ()  # job and lease
    nonces: Sequence[tuple[str, int, str]] = ()  # nonce, when, ids as JSON
    delayed: Sequence[int] = ()  # of `claimed`, those that others lock among them
    notes: Sequence[tuple[bytes, bytes, int | None]] = ()  # name, value, until when
    running: Sequence[tuple[int, int, str | None]] = ()  # topic, job, key
    looked: Sequence[Sequence[Any]] = ()  # id, topic, due, key, what the last claim came to, size of the body, priority
    lapsed: Sequence[int] = ()  # of those that were to be looked at, those with a lease that is over


class Session(ABC):
    """A transaction on a connection of its own. Each method is one trip; Conflict if it must begin anew."""

    def direct(self, commands: Sequence[Command[Any]], topics: Mapping[str, int]) -> Direct | None:  # noqa: ARG002
        """Begin, and have the database decide commands; None if it cannot: nothing has happened then."""
        return None

    def fixed(self) -> bool:
        """Whether it sees what there was at a moment, also when it is begun anew, and cannot see what others commit."""
        return False

    @abstractmethod
    def begin(self, asked: Asked) -> Answer:
        """Begin, unless `direct` has, and read and lock what is asked for."""

    @abstractmethod
    def more(self, asked: Asked) -> Answer:
        """Read and lock more; `now` is any."""

    @abstractmethod
    def bodies(self, ids: Sequence[int]) -> Mapping[int, bytes]:
        """Return the bodies of jobs."""

    @abstractmethod
    def results(self, ids: Sequence[int]) -> Mapping[int, bytes]:
        """Return the results of those jobs that are done and have one."""

    @abstractmethod
    def numbers(self, names: Sequence[str] | None, *, add: bool = False) -> Mapping[str, int]:
        """Return the numbers of topics, of all for None; those that are new are stored if `add` says so."""

    @abstractmethod
    def commit(self, changes: Changes, near: int | None) -> Sequence[Sequence[Any]]:
        """Write and commit. Return the rows of workers if one of their horizons is at least `near`, read afterwards."""

    @abstractmethod
    def abandon(self) -> None:
        """End it without a change."""
