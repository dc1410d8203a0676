"""What a store of jobs must do. One suite, `pywheel.testing.StoreSuite`, checks every store against it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from random import uniform
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from .._errors import BadJob, NoKey, PywheelError, StoreError
from ..clock import Clock
from ..jobs.bodies import is_encrypted, key_of
from ..jobs.commands import Command, SetNote
from ..jobs.job import Job, NewJob
from ..jobs.queries import ListNotes, Query
from .address import Address
from .notifier import Notifier
from .verify import Finding

__all__ = [
    "CLOSED", "DEATHS_KEPT", "Durability", "Locked", "Store", "intact", "notes", "outcome_of", "pauses",
    "word_of_death",
]  # fmt: skip

R = TypeVar("R")
Durability = Literal["fsync", "everysec", "memory"]
CLOSED: Final = "this store is closed: open another one"
DEATHS_KEPT: Final = 86_400_000
"""ms for which a worker may come yet that is to be told of a dead job."""
_DEAD: Final = "dead:"
_PAGE: Final = 1_000  # notes that are read at once


def intact(outcomes: list[Any]) -> list[Any]:
    """Return outcomes. Raises the first StoreError among them."""
    for outcome in outcomes:
        if isinstance(outcome, StoreError):
            raise outcome
    return outcomes


def outcome_of(store: Store, command: Command[R]) -> R:
    """Apply one command; return its outcome. Raises what is an error."""
    [outcome] = store.apply([command])
    if isinstance(outcome, PywheelError):
        raise outcome
    return outcome  # type: ignore[no-any-return]  # what the command's class says


def notes(store: Store, prefix: str, some: int = _PAGE) -> Iterator[tuple[str, bytes]]:
    """Yield the notes of a store whose names begin so, by name; some are asked for at once. StoreError."""
    after = ""
    while page := store.ask(ListNotes(prefix, after, some)):
        after = page[-1][0]
        yield from page
        if len(page) < some:
            return


def pauses(first: float = 0.01, longest: float = 0.1) -> Iterator[float]:
    """Yield seconds to wait between tries, less some by lot; unless told those for what was Locked."""
    pause = first
    while True:
        yield uniform(0.5, 1) * pause
        pause = min(2 * pause, longest)


def word_of_death(id: int, claims: int) -> str:
    """Return the name of the note that says that a job died with a claim. Its value is the job's topic."""
    return f"{_DEAD}{id}:{claims}"


class Locked(Exception):
    """Another transaction holds a lock that a command needs, such as that of a key; nothing was stored.

    It is no StoreError: of several callers in one transaction only those whom it concerns are to wait.
    """

    def __init__(self, seconds: float) -> None:
        """Take the time limit of the store: for how long to try again."""
        super().__init__(
            f"another transaction held what this waits for, such as a key, for {seconds:g} s: end that transaction, "
            "and try again"
        )
        self.seconds = seconds


class Store(ABC):
    """A durable set of jobs, shared by all threads, and if it can, by many processes and hosts.

    Every method is safe to call from any thread. Each returns or raises within the store's time limit. Each raises
    StoreError (StoreBusy, StoreFull, StoreReadOnly, StoreCorrupt, StoreAway, StoreClosed) when the store cannot do it;
    then nothing has changed. If the connection broke while a commit was under way, all of the call has happened, or
    nothing.
    """

    url: str
    """The address, without a password; opening it again leads here, with the password where one is needed."""
    address: Address | None = None
    """Where a server's store is, with its password."""
    clock: Clock
    """The store's clock: it judges what is due and which lease is over. A server's store takes its server's time."""
    durability: Durability
    """What `apply` promises when it returns."""
    keeps_limits: bool = True
    """Whether it keeps `ClaimPolicy.limits`. Several stores do not: each would count its own jobs."""
    ids_grow: bool = True
    """Whether a job that is put after another was put has a larger id. Not so where several stores give them out."""

    @abstractmethod
    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands in order, in one transaction, durably; return the outcome of each.

        An outcome is what the command's class says, or an exception that is a PywheelError: then that command has
        changed nothing, and the others have happened. When this returns, all of it survives what `durability` says.
        Several callers may share one transaction. A reader sees all of it or nothing.

        Some take several transactions: a store of several has one in each, a database makes claims beside many ends of
        claims, and Redis divides more of both than one call should do, if nothing else is among them. Where one fails
        after another did not, the outcomes of what it was asked for are its StoreError, and `intact` raises that.
        """

    def apply_each(self, commands: Sequence[Command[Any]], *, again: bool = False) -> list[Any]:  # noqa: ARG002
        """Apply commands of callers who know nothing of each other, in any order and in any number of transactions.

        Return what became of each: its outcome, an error, or Locked, if it would have to wait for another program's
        transaction. Such a command is to be tried `again` after a pause.
        """
        return self.apply(commands)

    @property
    def secret_url(self) -> str:
        """The address with its password: for another process of the same program, never to be shown."""
        return self.address.url if self.address else self.url

    def apply_within(self, connection: object, command: Command[R]) -> R:  # noqa: ARG002
        """Apply a Put, Cancel or Edit in the caller's own transaction, on its connection; return the outcome.

        It has happened exactly if that transaction commits. JobExists: nothing of it has happened, and the transaction
        can go on. BadJob: it is no connection to this store's database, or there is no transaction. Workers hear of the
        jobs shortly after the commit; another process that changes the same job or key meanwhile waits for it.

        A connection of a driver for asyncio is used on its loop: called by `within.in_thread`.
        """
        raise BadJob(f"connection=: {self.url} is in no database that a caller has a transaction in")

    # ---- looking ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def ask(self, query: Query[R]) -> R:
        """Return the answer to a query of `jobs.queries`, which its class says. Nothing changes.

        What was committed before the call is seen. A query is of one moment, but for lists and counts that take several
        trips. TypeError: it is no query, or none that this store knows.
        """

    def opened(self, job: Job) -> Job:
        """Return a claimed job as its handler gets it. NoKey, BadBody: its body cannot be read here, nobody handles it.

        Whoever has claimed it gives it back, for others who may have the key. It asks no server, and never raises
        StoreError: the store may have gone away since the claim.
        """
        if is_encrypted(job.body):
            raise NoKey(
                f"job {job.id}: the body is encrypted, with key {key_of(job.body)!r:.80}, and there is no keyring: "
                "set PYWHEEL_KEYS for a command, or give the queue a Keyring (encryption=)"
            )
        return job

    def sealed_result(self, job: Job, result: bytes) -> bytes:  # noqa: ARG002
        """Return the result of a job as it is stored: encrypted if bodies are. NoKey, BadJob. It asks no server."""
        return result

    def sealed(self, job: NewJob) -> NewJob:
        """Return a new job as a put would store it: with an encrypted body, where bodies are encrypted. NoKey."""
        return job

    # ---- for workers ------------------------------------------------------------------------------------------------

    def died(self, topics: Collection[str]) -> list[int]:
        """Return the ids of jobs of these topics that died with a lost lease. Nobody else is told of them.

        Whoever ended that lease has left a note, `word_of_death`, in that transaction. It is taken.
        O(log notes + jobs of any topic of which nobody was told).
        """
        found: list[int] = []
        after = ""
        while page := self.ask(ListNotes(_DEAD, after)):
            after = page[-1][0]
            names = [name for name, topic in page if topic.decode() in topics]
            outcomes = self.apply([SetNote(name, None) for name in names]) if names else []
            for name, outcome in zip(names, outcomes, strict=True):
                if isinstance(outcome, bytes):  # else another worker has it, or nobody yet
                    found.append(int(name.removeprefix(_DEAD).partition(":")[0]))
        return found

    @abstractmethod
    def notifier(self, name: str) -> Notifier:
        """Return a new notifier for a worker whose id begins with `name`. Its horizon is at the beginning of time."""

    @abstractmethod
    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once no worker can start a job of a paused topic that it claimed before; False after so long."""

    # ---- life -------------------------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return what there is to know of the place, by name, as JSON can say it. Names of sizes end in ``bytes``."""
        return {}

    def vacuum(self, pages: int) -> int:  # noqa: ARG002
        """Give the room of about so many pages of purged jobs back to the system; return how many were."""
        return 0

    @abstractmethod
    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with what is stored, [] if nothing is. O(jobs); others read and write meanwhile.

        Each job is in exactly one place: delayed, running or finished. Each lease is that of the job's last claim. Each
        live job with a key has it, unless it has handed it on, and each key has its live job. What is counted, indexed
        and recorded is what a look at each job gives. With `repair` all of it is made so, as far as it can be, from
        the jobs themselves, while nobody else writes; then `Finding.repaired` says whether it is.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of everything, once what is under way has ended. Idempotent; other methods then raise StoreClosed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
