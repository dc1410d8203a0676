"""What a store of jobs must do. One suite, `pywheel.testing.StoreSuite`, checks every store against it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from random import uniform
from types import TracebackType
from typing import Any, Literal, Self

from .._errors import BadJob, NoKey, StoreError
from ..clock import Clock
from ..jobs.bodies import is_encrypted, key_of
from ..jobs.commands import Command, Put, Ref
from ..jobs.job import Attempt, Counts, Due, Job, NewJob, State, Topic
from . import deaths, pages, readings
from .address import Address
from .filters import Filter
from .notifier import Member, Notifier
from .pages import Page
from .readings import Ended
from .verify import Finding

__all__ = ["Durability", "Ended", "Filter", "Locked", "Page", "Store", "intact", "pauses"]

Durability = Literal["fsync", "everysec", "memory"]


def intact(outcomes: list[Any]) -> list[Any]:
    """Return outcomes. Raises the first StoreError among them."""
    for outcome in outcomes:
        if isinstance(outcome, StoreError):
            raise outcome
    return outcomes


def pauses() -> Iterator[float]:
    """Yield seconds to wait between tries of what was Locked: 10 ms at first, and 100 ms at most."""
    pause = 0.01
    while True:
        yield uniform(0.5, 1) * pause
        pause = min(2 * pause, 0.1)


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
    """Whether it keeps `Terms.limits`. Several stores do not: each would count its own jobs."""
    ids_grow: bool = True
    """Whether a job that is put after another was put has a larger id. Not so where several stores give them out."""

    @abstractmethod
    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands in order, in one transaction, durably; return the outcome of each.

        An outcome is what the command's class says, or an exception that is a PywheelError: then that command has
        changed nothing, and the others have happened. When this returns, all of it survives what `durability` says.
        Several callers may share one transaction. A reader sees all of it or nothing.

        Of a store of several each has a transaction of its own: where one fails, the outcomes of what it was asked for
        are its StoreError, and `intact` raises that.
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

    def put_within(self, connection: object, put: Put) -> list[int]:  # noqa: ARG002
        """Apply a put in the caller's own transaction, on its connection: the jobs exist exactly if that commits.

        Return the ids. JobExists: nothing of it has happened, and the transaction can go on. BadJob: it is no
        connection to this store's database, or there is no transaction. Workers hear of the jobs shortly after the
        commit; another process that puts a job with the same key meanwhile waits for it.
        """
        raise BadJob(f"connection=: {self.url} is in no database that a caller has a transaction in")

    # ---- looking ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None. O(log jobs)."""

    @abstractmethod
    def jobs(self, filter: Filter, after: int, limit: int) -> list[Job]:
        """Return up to `limit` jobs with an id above `after`, by id.

        By topic, state and key it costs by what comes back, whatever else is stored. Due times and errors are looked at
        job by job.
        """

    def page(
        self, filter: Filter, after: str = "", limit: int = 100, *, preview: int | None = None, newest: bool = False
    ) -> Page:
        """Return up to `limit` jobs behind the cursor `after`, and the next cursor, None at the end.

        By id; the delayed ones of a due range, without a key, by (due, id). With `newest` backwards. Of each body there
        are `preview` bytes at most, and `Page.sizes` says how many it has.
        It costs by what it looks at: about 1 000 jobs and 4 MB at most. So it may return fewer than `limit`, even none,
        while there are more. Errors, and due ranges of jobs in other states, are looked at job by job. Jobs whose lease
        is over may be missing by due time, until `Expire`. BadJob: the cursor is not one of such a list, or `limit` is
        less than 1. O(jobs) unless a store says more.
        """
        return pages.from_all(self, pages.asked(filter, after, limit, preview, newest=newest))

    @abstractmethod
    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic that was ever put to or paused, by name. O(topics + running jobs)."""

    @abstractmethod
    def topics(self) -> list[Topic]:
        """Return all topics, by name."""

    @abstractmethod
    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job, oldest first; the present attempt too. [] for an unknown id."""

    def histories(self, ids: Sequence[int]) -> list[list[Attempt]]:
        """Return the histories of jobs, in the order of their ids here. A store on a server asks once for many."""
        return [self.history(id) for id in ids]

    def states(self, ids: Sequence[int]) -> list[State | None]:
        """Return the states of jobs, in the order of their ids here; None where there is no job. O(log jobs) each.

        A store on a server asks once for many, and reads no bodies.
        """
        return [None if (job := self.get(id)) is None else job.state for id in ids]

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

    def forecast(self, edges: Sequence[int], topic: str | None = None, most: int = 10_000) -> list[int]:
        """Return how many delayed jobs are due in each [edges[i], edges[i+1]), of all topics or of one.

        A number below `most`, and below `readings.FORECAST` (30 000) / how many numbers there are, is exact. One that
        is not stands for so many at least: so it costs O(topics x edges + FORECAST), however many jobs there are.
        Jobs whose lease is over may be missing until `Expire`. BadJob: the edges do not ascend, or are more than 1 001.
        O(jobs) unless a store says more.
        """
        return readings.forecast_of_all(self, readings.edges_of(edges, most), topic, most)

    def recent(self, topic: str | None, since: int, limit: int) -> list[Ended]:
        """Return up to `limit` jobs that ended at `since` (ms) or later, the latest first, of all topics or of one.

        Each with the attempt that ended it, 1 000 at most. A lease that is over ends its job with `Expire`, as of then.
        Those that were retried, deleted or purged since are not among them. O(topics + limit); O(jobs) unless a store
        says more.
        """
        return readings.recent_of_all(self, topic, since, readings.most_of(limit))

    @abstractmethod
    def note(self, name: str) -> bytes | None:
        """Return what is kept under a name, or None. O(log notes). BadJob if it is no name of a note."""

    @abstractmethod
    def notes(self, prefix: str, after: str = "", limit: int = 1_000) -> list[tuple[str, bytes]]:
        """Return up to `limit` notes, name and value, whose names begin with `prefix` and come after `after`, by name.

        Names are ordered by their code points. O(log notes + what comes back + what is over and not yet forgotten).
        """

    # ---- for workers ------------------------------------------------------------------------------------------------

    def died(self, topics: Collection[str]) -> list[int]:
        """Return the ids of jobs of these topics that died with a lost lease. Nobody else is told of them.

        O(log notes + jobs of any topic of which nobody was told).
        """
        return deaths.taken(self, topics)

    @abstractmethod
    def next_lease(self) -> int | None:
        """Return when some lease may be over at the earliest, None if there is none. No query where it can be known.

        It may be earlier than the truth. It is never later, for leases that were given before this was called.
        """

    @abstractmethod
    def next_dues(self, topics: Sequence[str] | None = None) -> dict[str, int]:
        """Return for each of some topics that is not paused when the first of its delayed jobs is due, by name.

        None: of all topics, also of paused ones. A topic without any is left out. Jobs whose lease is over may be
        missing until `Expire`. O(topics x log jobs).
        """

    @abstractmethod
    def first_due(self, topic: str, limit: int) -> list[Due]:
        """Return up to `limit` jobs that a Reserve would claim now, in its order; [] while the topic is paused.

        Jobs whose lease is over may be missing until `Expire`. O(log jobs + limit).
        """

    @abstractmethod
    def claimed_by(self, worker: str) -> list[tuple[int, int]]:
        """Return the receipts of all jobs that run for a worker. O(running jobs)."""

    @abstractmethod
    def notifier(self, name: str) -> Notifier:
        """Return a new notifier for a worker whose id begins with `name`. Its horizon is at the beginning of time."""

    @abstractmethod
    def workers(self) -> list[Member]:
        """Return all workers that have announced topics of jobs, by name: for people. O(workers)."""

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
