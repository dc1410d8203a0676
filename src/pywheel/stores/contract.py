"""The interface of a job store. One suite, `pywheel.testing.StoreSuite`, checks every store against it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from random import uniform
from typing import Any, Final, Literal, Self, TypeVar

from .._errors import BadJob, NoKey, PywheelError, StoreError, StoreFull
from ..clock import Clock
from ..jobs.bodies import is_encrypted, key_of
from ..jobs.commands import Command, SetNote
from ..jobs.job import Job, NewJob
from ..jobs.queries import ListNotes, Query
from .address import Address
from .notifier import Notifier
from .verify import Finding

R = TypeVar("R")
Durability = Literal["fsync", "everysec", "memory"]
CLOSED: Final = "this store is closed: open another one"
DEATHS_KEPT: Final = 86_400_000
"""ms for which the note of a dead job is kept for the worker that reports the death."""
_DEAD: Final = "dead:"
_PAGE: Final = 1_000  # notes per read
_REFUSALS: Final = 16  # after which a store counts as full for all that is left


def intact(outcomes: list[Any]) -> list[Any]:
    """Return outcomes. Raises the first StoreError among them."""
    for outcome in outcomes:
        if isinstance(outcome, StoreError):
            raise outcome
    return outcomes


def apart_if_full(
    apply: Callable[[Sequence[Command[Any]]], list[Any]], commands: Sequence[Command[Any]], outcomes: list[Any]
) -> list[Any]:
    """Apply commands again that were refused together at StoreFull: some may need no room, or less.

    Those of each kind go together, such as all acks. If they are refused, each half goes by itself, then each half of a
    refused half, and so on. Return the outcomes of all. After _REFUSALS refusals, or once the store fails in another
    way, such as in time, the rest stays refused.
    """
    kinds: dict[type, list[int]] = {}
    for place, outcome in enumerate(outcomes):
        if isinstance(outcome, StoreFull):
            kinds.setdefault(type(commands[place]), []).append(place)
    parts, refusals = deque(kinds.values()), 0
    while parts and refusals < _REFUSALS:
        part = parts.popleft()
        if len(part) < len(commands):  # else it is all that was refused
            try:
                found = apply([commands[place] for place in part])
            except StoreError as error:
                found = [error] * len(part)
            for place, outcome in zip(part, found, strict=True):
                outcomes[place] = outcome
        failed = [place for place in part if isinstance(outcomes[place], StoreError)]
        if not all(isinstance(outcomes[place], StoreFull) for place in failed):
            break
        refusals += bool(failed)
        half = len(failed) // 2
        parts += [some for some in (failed[:half], failed[half:]) if half]
    return outcomes


def outcome_of(store: Store, command: Command[R]) -> R:
    """Apply one command; return its outcome. Raises the outcome if it is an error."""
    [outcome] = store.apply([command])
    if isinstance(outcome, PywheelError):
        raise outcome
    return outcome  # type: ignore[no-any-return]  # what the command's class says


def notes(store: Store, prefix: str, some: int = _PAGE, after: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield notes whose names begin with a prefix and come after `after`. One query reads `some`. StoreError."""
    while page := store.ask(ListNotes(prefix, after, some)):
        after = page[-1][0]
        yield from page
        if len(page) < some:
            return


def pauses(first: float = 0.01, longest: float = 0.1) -> Iterator[float]:
    """Yield the seconds to wait between tries, with jitter. The defaults suit a retry after Locked."""
    pause = first
    while True:
        yield uniform(0.5, 1) * pause
        pause = min(2 * pause, longest)


def word_of_death(id: int, claims: int) -> str:
    """Return the name of the note that reports a job's death with a claim. The note's value is the job's topic."""
    return f"{_DEAD}{id}:{claims}"


class Locked(Exception):
    """Another transaction holds a lock that a command needs, such as that of a key; nothing was stored.

    Locked is not a StoreError: of the callers that share a transaction, only those that need the lock have to wait.
    """

    def __init__(self, seconds: float) -> None:
        """Take the store's time limit: the seconds for which the caller may try again."""
        super().__init__(
            f"another transaction held what this waits for, such as a key, for {seconds:g} s: end that transaction, "
            "and try again"
        )
        self.seconds = seconds


class Store(ABC):
    """A durable set of jobs, shared by all threads and, if the store can, by many processes and hosts.

    Every method is safe to call from any thread and returns or raises within the store's time limit. It raises
    StoreError (StoreBusy, StoreFull, StoreReadOnly, StoreCorrupt, StoreAway, StoreClosed) when the store cannot do it;
    then nothing has changed. If the connection broke during a commit, either all of the call has happened or nothing.
    """

    url: str
    """The address without its password. Opening it again leads here; add the password where one is needed."""
    address: Address | None = None
    """The address of a server's store, with its password."""
    clock: Clock
    """The store's clock: it decides which jobs are due and which leases are over. Server stores use the server's."""
    durability: Durability
    """The guarantee that `apply` gives when it returns."""
    keeps_limits: bool = True
    """Whether the store enforces `ClaimPolicy.limits`. Partitions do not: each would count its own jobs only."""
    ids_grow: bool = True
    """Whether a later put gets a larger id. Not so where several stores give out ids."""

    @abstractmethod
    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands in order, in one transaction, durably; return the outcome of each.

        A command's class describes its outcome. If an outcome is a PywheelError, its command has changed nothing; the
        others have happened. When this returns, all changes are as safe as `durability` says. Several callers may
        share one transaction. A reader sees all of a transaction or nothing.

        Some calls take several transactions: partitions use one per store, a database separates claims from many ends
        of claims, and Redis splits long calls that have only those two. If one transaction fails after another has
        committed, the outcome of each of its commands is the StoreError; `intact` raises it.
        """

    def apply_each(self, commands: Sequence[Command[Any]], *, again: bool = False) -> list[Any]:  # noqa: ARG002
        """Apply commands of unrelated callers, in any order and in any number of transactions.

        Return for each command its outcome, an error, or Locked if the command would have to wait for another program's
        transaction. The caller tries a Locked command `again` after a pause.
        """
        try:
            outcomes = self.apply(commands)
        except StoreFull as error:
            outcomes = [error] * len(commands)
        return apart_if_full(self.apply, commands, outcomes)

    @property
    def secret_url(self) -> str:
        """The address with its password: for another process of the same program. Never show it."""
        return self.address.url if self.address else self.url

    def apply_within(self, connection: object, command: Command[R]) -> R:  # noqa: ARG002
        """Apply a Put, Cancel or Edit in the caller's own transaction, on its connection; return the outcome.

        The change happens exactly if that transaction commits. JobExists: nothing was changed, and the transaction can
        go on. BadJob: the connection does not lead to this store's database, or no transaction is open. Workers hear
        of the jobs shortly after the commit. Another process that changes the same job or key meanwhile waits for it.

        The connection of an asyncio driver is used on its own loop: see `within.in_thread`.
        """
        raise BadJob(f"connection=: {self.url} is in no database that a caller has a transaction in")

    # ---- looking ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def ask(self, query: Query[R]) -> R:
        """Return the answer to a query of `jobs.queries`; the query's class describes it. Nothing changes.

        The answer includes all that was committed before the call. It is a snapshot of one moment, except for lists and
        counts that take several trips. TypeError: the argument is not a query, or none that this store knows.
        """

    def opened(self, job: Job) -> Job:
        """Return a claimed job as its handler gets it. NoKey, BadBody: the body cannot be read here.

        The worker then releases the job unhandled, for workers that may have the key. The call needs no server and
        never raises StoreError: the store may have gone away since the claim.
        """
        if is_encrypted(job.body):
            raise NoKey(
                f"job {job.id}: the body is encrypted, with key {key_of(job.body)!r:.80}, and there is no keyring: "
                "set PYWHEEL_KEYS for a command, or give the queue a Keyring (encryption=)"
            )
        return job

    def sealed_result(self, job: Job, result: bytes) -> bytes:  # noqa: ARG002
        """Return a job's result as it is stored: encrypted if bodies are. NoKey, BadJob. The call needs no server."""
        return result

    def sealed(self, job: NewJob) -> NewJob:
        """Return a new job as a put would store it: with an encrypted body where bodies are encrypted. NoKey."""
        return job

    # ---- for workers ------------------------------------------------------------------------------------------------

    def died(self, topics: Collection[str]) -> list[int]:
        """Return the ids of jobs of these topics that died with a lost lease. Each id is returned to one caller only.

        The transaction that ended the lease has left a note, `word_of_death`. This call deletes the note.
        O(log notes + unreported deaths of all topics).
        """
        words = (name for name, topic in notes(self, _DEAD) if topic.decode() in topics)
        found: list[int] = []
        while names := list(islice(words, _PAGE)):
            taken = zip(names, self.apply([SetNote(name, None) for name in names]), strict=True)
            mine = [name for name, outcome in taken if isinstance(outcome, bytes)]  # else another has it, or nobody yet
            found += [int(name.removeprefix(_DEAD).partition(":")[0]) for name in mine]
        return found

    @abstractmethod
    def notifier(self, name: str) -> Notifier:
        """Return a new notifier for a worker whose id begins with `name`. Its horizon is at the beginning of time."""

    @abstractmethod
    def quiet(self, topic: str, seconds: float) -> bool:
        """Return True once no worker can start a paused topic's job that it claimed before, False after `seconds`."""

    # ---- life -------------------------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return facts about the place, by name, as JSON values. Names of sizes end in ``bytes``."""
        return {}

    def vacuum(self, pages: int) -> int:  # noqa: ARG002
        """Return the space of about `pages` pages of purged jobs to the system; return how many pages were freed."""
        return 0

    @abstractmethod
    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return the faults in the stored data, [] if there are none. O(jobs); others read and write meanwhile.

        Each job is in exactly one place: delayed, running or finished. Each lease is that of the job's last claim. Each
        live job with a key holds it, unless the job has handed its key on, and each key has its live job. Counts,
        indexes and records agree with the jobs themselves. With `repair` the store derives them anew from the jobs, as
        far as possible, while nobody else writes; `Finding.repaired` then says whether a fault is gone.
        """

    @abstractmethod
    def close(self) -> None:
        """Release everything once the calls under way have ended. Idempotent; other methods then raise StoreClosed."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
