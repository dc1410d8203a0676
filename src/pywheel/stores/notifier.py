"""Wake-ups and presence: how workers hear of changes that are due soon, and know the other workers.

A notifier is best effort. A lost wake-up delays a job until another worker sees that it is overdue, or until the next
rescan. It never loses or repeats a job.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from ..jobs.commands import SetNote
from ..jobs.job import Due
from ..jobs.queries import Member

SILENT: Final = 0.6
"""`Notifier.silent` where a beat costs nothing."""
OVERLOOKED: Final = 500
"""ms after which a due job that nobody claims may have been overlooked: its owner stands still, or was never told."""
Spare = Callable[[], Collection[str]]
"""Returns the topics for which a worker has room for more jobs than it knows."""
ENDS_OF: Final = "ends of "
"""The prefix of the announced topics of a member that waits for the ends of their jobs."""


ORDERS: Final = {"quiet": b"quiet", "resume": None, "stop": b"stop"}
"""The orders to a worker, and their notes: take no jobs, take jobs again, drain."""
_STANDS: Final = 30 * 86_400_000  # ms for which an order counts


def order_note(worker: str) -> str:
    """Return the name of the note in which a worker finds its order, every other second."""
    return f"order:{worker[-100:]}"


def order(worker: str, word: str) -> SetNote:
    """Return the command that gives a worker an order, one of ORDERS."""
    return SetNote(order_note(worker), ORDERS[word], _STANDS)


class Hints(NamedTuple):
    """The changes since a worker last asked."""

    due: list[Due]  # delayed jobs that are new, or whose due time changed
    reload: bool  # some hints are missing, or a topic was paused or resumed: read all again


def workers(members: Iterable[Member]) -> list[Member]:
    """Return the members that handle jobs: without those that only wait for ends."""
    return [one for one in members if not all(topic.startswith(ENDS_OF) for topic in one.topics)]


def waiters(members: Iterable[Member]) -> dict[str, list[str]]:
    """Return, by topic, the workers to ring when a job of it has ended; {} if there are none."""
    found: dict[str, list[str]] = {}
    for one in members:
        for topic in one.topics:
            if topic.startswith(ENDS_OF):
                found.setdefault(topic[len(ENDS_OF) :], []).append(one.worker)
    return found


class Notifier(ABC):
    """A worker's wake-ups, and its place among the other workers. Its worker closes it; `close` is idempotent.

    After its store was closed, `wait` returns at once, queries raise StoreClosed, and the rest does nothing.
    """

    worker: str
    """The worker's id, to be given with commands: a new one at every start."""
    silent: float = SILENT
    """Seconds without a beat after which a worker counts as no owner, unless all are silent. Others may take its shards
    over once it has been silent for longer, not sooner. When it goes on, it reads all again: `Hints.reload`. The value
    is the same for all workers of a store, and longer where each beat is a query."""

    @abstractmethod
    def publish(self, horizon: int) -> None:
        """Set the due time (ms) up to which changes matter to this worker. Others see it before this returns."""

    @abstractmethod
    def beat(self, behind: int, spare: Spare = tuple) -> int | None:
        """Show that this worker works, and whether it is behind. Call it at least every quarter of a second beside
        other workers, and once a second alone; the store need not be told of each call. A worker that does not call it
        counts as gone after `silent`.

        Return the first due time of delayed jobs of the `spare` topics, of all owners. None if there is none, if
        the store was not asked now, or if it needs no such look, as no silence lasts for long there."""  # noqa: D205, D209

    @abstractmethod
    def members(self) -> tuple[Member, ...]:
        """Return all workers that have announced topics, this one included, by name. No query unless one came or went.

        Silent workers are among them, until they have been gone for long. A worker that misses itself was taken for
        gone: it announces its topics again.
        """

    @abstractmethod
    def hints(self) -> Hints:
        """Return the changes since the last call, up to the worker's horizon, in the slices of time that it owns.

        Each put, reschedule, retry, nack, release or expiry that is applied after `publish(horizon)` returned, with a
        new due time of at most that horizon, comes with some later call, or `reload` is set. A hint may name a job that
        has changed since, or come twice.
        """

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Return when rung or woken, or after `seconds`; at once if a ring or wake has come since the last wait.

        It may return early. True if there may be new hints or members. False if there are certainly none, or if only
        `wake` was called.
        """

    @abstractmethod
    def wake(self) -> None:
        """Let the present `wait`, or else the next one, return. From any thread, and from signal handlers."""

    @abstractmethod
    def ring(self, worker: str) -> None:
        """Wake another worker, so that it looks at `members`. Best effort."""

    @abstractmethod
    def quiet(self) -> None:
        """Announce that nothing starts here of the topics that were paused before the last `hints` with `reload`."""

    @abstractmethod
    def close(self) -> None:
        """Stop listening, and leave."""
