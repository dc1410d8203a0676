"""Wake-ups and presence: how workers hear of changes that are due soon, and know who else is there.

A notifier is best effort. A lost wake-up delays a job until another worker sees that it is overdue, or until the next
rescan. It never loses or repeats one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from ..jobs.commands import SetNote
from ..jobs.job import Due
from ..jobs.queries import Member

__all__ = [
    "ENDS_OF", "ORDERS", "OVERLOOKED", "SILENT", "Hints", "Member", "Notifier", "Spare", "order", "order_note",
    "waiters", "workers",
]  # fmt: skip

SILENT: Final = 0.6
"""`Notifier.silent` where a beat costs nothing."""
OVERLOOKED: Final = 500
"""ms after which a due job that nobody claims may have been overlooked: its owner stands still, or was never told."""
Spare = Callable[[], Collection[str]]
"""Gives the topics of which a worker has room for more than it knows of."""
ENDS_OF: Final = "ends of "
"""What a member that waits for the ends of a topic's jobs has announced: this, and the topic."""


ORDERS: Final = {"quiet": b"quiet", "resume": None, "stop": b"stop"}
"""What a worker can be told, and the note that says so: take no jobs, take some again, drain."""
_STANDS: Final = 30 * 86_400_000  # ms for which an order counts


def order_note(worker: str) -> str:
    """Return the name of the note in which a worker finds its order, every other second."""
    return f"order:{worker[-100:]}"


def order(worker: str, word: str) -> SetNote:
    """Return the command that gives a worker an order, one of ORDERS."""
    return SetNote(order_note(worker), ORDERS[word], _STANDS)


class Hints(NamedTuple):
    """What changed since a worker last asked."""

    due: list[Due]  # delayed jobs that are new, or whose due time changed
    reload: bool  # some hints are missing, or a topic was paused or resumed: read all again


def workers(members: Iterable[Member]) -> list[Member]:
    """Return the members that handle jobs: without those that wait for ends alone."""
    return [one for one in members if not all(topic.startswith(ENDS_OF) for topic in one.topics)]


def waiters(members: Iterable[Member]) -> dict[str, list[str]]:
    """Return by topic who is to be rung when a job of it has ended; {} as long as nobody waits."""
    found: dict[str, list[str]] = {}
    for one in members:
        for topic in one.topics:
            if topic.startswith(ENDS_OF):
                found.setdefault(topic[len(ENDS_OF) :], []).append(one.worker)
    return found


class Notifier(ABC):
    """The ear of one worker, and its place among the others. Closed by its worker; `close` is idempotent.

    After its store was closed, `wait` returns at once, queries raise StoreClosed, and the rest does nothing.
    """

    worker: str
    """The worker's id, to be given with commands: another one for every start."""
    silent: float = SILENT
    """Seconds without a beat after which a worker counts as none of the owners, unless all are silent. Others may take
    its shards over once it has been silent for longer, not sooner. It reads all again when it goes on: `Hints.reload`.
    The same for all workers of a store. Longer where each beat is a query."""

    @abstractmethod
    def publish(self, horizon: int) -> None:
        """Say up to which due time (ms) changes matter to this worker. Others see it before this returns."""

    @abstractmethod
    def beat(self, behind: int, spare: Spare = tuple) -> int | None:
        """Show that this worker works, and whether it is behind. To be called at least every quarter of a second
        while others are there, and once a second alone; not all of these calls need be told to the store. A worker that
        does not call it counts as gone after `silent`.

        Return when the first delayed job of the `spare` topics is due, whoever owns its shard. None if there is none,
        if the store was not asked now, or if it needs no such look: nobody's silence lasts for long there."""  # noqa: D205, D209

    @abstractmethod
    def members(self) -> tuple[Member, ...]:
        """Return all workers that have announced topics, this one too, by name. No query unless one came or went.

        Silent ones are among them, until they are gone for long. A worker that misses itself was taken for gone: it
        announces its topics again.
        """

    @abstractmethod
    def hints(self) -> Hints:
        """Return what changed since the last call, up to its horizon, in the slices of time that it owns.

        Every put, reschedule, retry, nack, release or expiry that is applied after `publish(horizon)` returned, and
        whose new due time is at most that horizon, comes with some later call, or `reload` is set. A hint may
        name a job that has changed since, or come twice.
        """

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Return when rung or woken, or after so many seconds; at once if that was since the last wait.

        It may return early. True if there may be new hints or members. False if certainly not, or if only `wake` was
        called.
        """

    @abstractmethod
    def wake(self) -> None:
        """Let the present `wait`, or else the next one, return. From any thread, and from signal handlers."""

    @abstractmethod
    def ring(self, worker: str) -> None:
        """Wake another worker, so that it looks at `members`. Best effort."""

    @abstractmethod
    def quiet(self) -> None:
        """Say that nothing starts here of the topics that were paused before the last `hints` with `reload`."""

    @abstractmethod
    def close(self) -> None:
        """Stop listening, and be gone for the others."""
