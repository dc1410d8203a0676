"""The queries that a store answers, and the records of its answers. `Store.ask` answers one and changes nothing.

Each class states its answer and its cost. A lease that is over counts as ended in every answer, whether or not `Expire`
was applied, unless the class says otherwise. A query checks its arguments when it is made: BadJob.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Generic, NamedTuple, TypeVar

from .._errors import BadJob
from .bodies import is_encrypted
from .checks import MOST, an_id, whole
from .commands import Ref
from .job import Attempt, Counts, Due, Job, State, Topic

__all__ = [
    "FORECAST_MOST",
    "PAGE_MOST",
    "QUIET",
    "CountJobs",
    "Ended",
    "Filter",
    "GetForecast",
    "GetHistories",
    "GetJob",
    "GetNextDues",
    "GetNextLease",
    "GetNote",
    "GetPage",
    "GetStates",
    "ListClaims",
    "ListEnded",
    "ListFirstDue",
    "ListJobs",
    "ListNotes",
    "ListTopics",
    "ListWorkers",
    "Member",
    "Page",
    "Query",
]

R_co = TypeVar("R_co", covariant=True)

PAGE_MOST: Final = 1_000
"""The most jobs of a page, and about the most that are looked at for one."""
FORECAST_MOST: Final = 30_000
"""The most jobs that are counted for a forecast."""
RECENT_MOST: Final = 1_000
"""The most jobs that `ListEnded` returns."""
QUIET: Final = "quiet of "
"""The prefix of each topic in the announcement of a worker that was told to take no jobs."""
_INTERVALS: Final = 1_000
_NAMED: Final = re.compile(r"(?P<host>.*):(?P<process>[0-9]+)(?![0-9])")


class Query(Generic[R_co]):
    """A question to a store. `R_co` is the type of its answer."""

    __slots__ = ()


# ---- jobs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GetJob(Query[Job | None]):
    """A job, or None. O(log jobs)."""

    ref: Ref


class Filter(NamedTuple):
    """The conditions of a filter; None matches every job."""

    topic: str | None = None
    state: State | None = None
    key: str | None = None  # exactly this key
    due_from: int | None = None  # due at or after, ms
    due_until: int | None = None  # due at or before, ms
    error: str | None = None  # its last error contains this text
    text: str | None = None  # its body contains this text
    header: str | None = None  # it has this header, or with "name=value" this value of it
    worker: str | None = None  # the id of the worker of its last attempt begins with this text
    priority: int | None = None

    @property
    def plain(self) -> Filter:
        """The conditions that stores check; `stores.pages.meant` checks the others."""
        return self._replace(text=None, header=None, worker=None, priority=None)

    def fits(self, job: Job) -> bool:
        """Whether the filter matches a job, except for the condition on its worker."""
        name, valued, value = (self.header or "").partition("=")
        return (
            self.topic in (None, job.topic)
            and self.state in (None, job.state)
            and self.key in (None, job.key)
            and (self.due_from is None or job.due >= self.due_from)
            and (self.due_until is None or job.due <= self.due_until)
            and (self.error is None or self.error in (job.last_error or ""))
            and self.priority in (None, job.priority)
            and (self.text is None or (self.text.encode("utf-8", "replace") in job.body and not is_encrypted(job.body)))
            and (not self.header or (job.headers.get(name) == value if valued else name in job.headers))
        )


@dataclass(frozen=True, slots=True)
class ListJobs(Query[list[Job]]):
    """Up to `limit` jobs with an id above `after`, by id.

    By key, or by a topic or state with few jobs, it costs O(jobs with these) at most, whatever else is stored. If a
    topic or state has thousands of jobs, all jobs are scanned by id until enough are found. Due times and errors are
    checked job by job, without the bodies. A server's time limit holds for all of that: `GetPage` looks at fewer jobs
    at once.
    """

    filter: Filter
    after: int = 0
    limit: int = PAGE_MOST

    def __post_init__(self) -> None:
        _only_plain(self.filter)


class Page(NamedTuple):
    """A part of a list of jobs."""

    jobs: list[Job]
    next: str | None
    """The cursor behind the jobs that were looked at; None at the end."""
    sizes: Sequence[int] = ()
    """The size of each job's body in bytes; the page may have only a part of the body."""
    looked: int = 0
    """How many jobs were checked one by one for conditions that no store checks; 0 without such conditions."""


@dataclass(frozen=True, slots=True)
class GetPage(Query[Page]):
    """Up to `limit` jobs behind the cursor `after`, and the next cursor, None at the end.

    In the order of ids; the delayed jobs of a due range, without a key, by (due, id), unless `by_id` is set. With
    `newest` backwards. Each body has at most its first `preview` bytes, and `Page.sizes` has its full size. The cost
    depends on the jobs that are looked at: about 1 000 jobs and 4 MB at most. So the page may have fewer than `limit`
    jobs, even none, while there are more. In the order of ids, errors and due ranges are checked job by job. Jobs whose
    lease is over may be missing by due time, until `Expire`. BadJob: the cursor does not belong to such a list.
    """

    filter: Filter
    after: str = ""
    limit: int = 100
    preview: int | None = None
    newest: bool = False
    by_id: bool = False

    def __post_init__(self) -> None:
        _only_plain(self.filter)
        whole(self.limit, "limit", MOST)
        if self.preview is not None:
            whole(self.preview, "preview", MOST, 0)
        for text in (self.filter.topic, self.filter.key, self.filter.error):
            if text is not None and not text.isascii():
                _encodable(text)


def _only_plain(filter: Filter) -> None:
    if filter != filter.plain:
        raise BadJob("stores do not look for text, header, worker and priority: ask for the plain filter")


def _encodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadJob(f"a filter must be text that UTF-8 can encode, not {text!r:.40}") from None


@dataclass(frozen=True, slots=True)
class GetHistories(Query[list[list[Attempt]]]):
    """The attempts of jobs, in the order of the ids given, each job's oldest first, including the current one.

    [] for an unknown id. A store on a server is asked once for all.
    """

    ids: Sequence[int]

    def __post_init__(self) -> None:
        for id in self.ids:
            an_id(id)


@dataclass(frozen=True, slots=True)
class GetStates(Query[list[State | None]]):
    """The states of jobs, in the order of the ids given; None for an unknown id. O(log jobs) each, no bodies."""

    ids: Sequence[int]

    def __post_init__(self) -> None:
        for id in self.ids:
            an_id(id)


# ---- numbers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CountJobs(Query[dict[str, Counts]]):
    """The counts of each topic that was ever put to or paused, by name. O(topics + running jobs)."""


@dataclass(frozen=True, slots=True)
class ListTopics(Query[list[Topic]]):
    """All topics, by name."""


@dataclass(frozen=True, slots=True)
class GetForecast(Query[list[int]]):
    """How many delayed jobs are due in each [edges[i], edges[i+1]), of all topics or of one.

    A number below `most`, and below FORECAST_MOST / (how many numbers there are), is exact. A higher number is a lower
    bound. So the query costs O(topics x edges + FORECAST_MOST), however many jobs there are. Jobs whose lease is over
    may be missing until `Expire`. BadJob: the edges do not ascend, or are more than 1 001.
    """

    edges: Sequence[int]
    topic: str | None = None
    most: int = 10_000

    def __post_init__(self) -> None:
        whole(self.most, "most", MOST)
        if len(self.edges) > _INTERVALS + 1:
            raise BadJob(f"a forecast has {_INTERVALS} numbers at most, not {len(self.edges) - 1}")
        for edge in self.edges:
            whole(edge, "an edge", MOST, -MOST)
        if any(later <= earlier for earlier, later in pairwise(self.edges)):
            raise BadJob("the edges of a forecast must ascend")

    @property
    def cap(self) -> int:
        """The most jobs that are counted between two edges."""
        return min(self.most, max(FORECAST_MOST // max(len(self.edges) - 1, 1), 1))


class Ended(NamedTuple):
    """A job that has ended, and its last attempt."""

    id: int
    topic: str
    key: str | None
    state: State  # done, dead or cancelled
    due: int
    started: int | None  # start of its last attempt; None if it was cancelled
    ended: int
    attempt: int
    worker: str | None
    error: str | None  # of that attempt

    @property
    def lateness(self) -> int | None:
        """The ms from its due time to the start of its last attempt."""
        return None if self.started is None else self.started - self.due


@dataclass(frozen=True, slots=True)
class ListEnded(Query[list[Ended]]):
    """Up to `limit` jobs that ended at `since` (ms) or later, and by `until`, the latest first, of a topic or of all.

    With `state`, those in it alone. Each comes with the attempt that ended it; RECENT_MOST at most. A lease that is
    over ends its job with `Expire`, as of then. Jobs that were retried, deleted or purged since are missing.
    O(topics + limit). BadJob: jobs in that state have not ended.
    """

    topic: str | None
    since: int
    limit: int
    until: int | None = None
    state: State | None = None

    def __post_init__(self) -> None:
        whole(self.limit, "limit", MOST, 0)
        if self.state is not None and self.state.live:
            raise BadJob(f"jobs that are {self.state} have not ended")

    @property
    def most(self) -> int:
        """The most jobs that the answer has."""
        return min(self.limit, RECENT_MOST)


# ---- notes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GetNote(Query[bytes | None]):
    """The value of a note, or None. O(log notes). BadJob if the name is invalid."""

    name: str


@dataclass(frozen=True, slots=True)
class ListNotes(Query[list[tuple[str, bytes]]]):
    """Up to `limit` notes, name and value, whose names begin with `prefix` and come after `after`, by name.

    Names are ordered by their code points. O(log notes + returned notes + expired notes that are not deleted yet).
    """

    prefix: str
    after: str = ""
    limit: int = 1_000


# ---- for workers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GetNextLease(Query[int | None]):
    """The earliest time at which some lease may be over, None if there is none. Asks no server if the answer is known.

    The answer may be too early. It is never too late for leases that were given before the query.
    """


@dataclass(frozen=True, slots=True)
class GetNextDues(Query[dict[str, int]]):
    """When the first delayed job of each of some topics is due, by name. Without paused topics.

    `topics` None: of all topics, including paused ones. A topic without such a job is left out. Jobs whose lease is
    over may be missing until `Expire`. O(topics x log jobs).
    """

    topics: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class ListFirstDue(Query[list[Due]]):
    """Up to `limit` jobs that a Reserve would claim now, in its order; [] while the topic is paused.

    Jobs whose lease is over may be missing until `Expire`. O(log jobs + limit).
    """

    topic: str
    limit: int


@dataclass(frozen=True, slots=True)
class ListClaims(Query[list[tuple[int, int]]]):
    """The receipts of all running jobs of a worker. O(running jobs)."""

    worker: str


class Member(NamedTuple):
    """A worker that has announced itself, or a client that waits for ends of jobs: see `stores.notifier.waiters`."""

    worker: str
    topics: frozenset[str]
    silent: float  # seconds since its last sign of life
    behind: int  # ms since when jobs for which it has no room are due; 0 if it keeps up; -1 if it is just full

    @property
    def quiet(self) -> bool:
        """Whether it was told to take no jobs."""
        return any(topic.startswith(QUIET) for topic in self.topics)

    @property
    def handles(self) -> list[str]:
        """The topics that it handles, by name, even while it is quiet."""
        return sorted(topic.removeprefix(QUIET) for topic in self.topics)

    def about(self, now: int) -> dict[str, Any]:
        """Return the worker as a dict, for people and programs; times in seconds."""
        return {
            "worker": self.worker,
            "host": self.host,
            "process": self.process,
            "topics": self.handles,
            "silent": round(self.silent, 3),
            "gone": self.gone,
            "quiet": self.quiet,
            "room": self.behind == 0,
            "behind": round(max((now - self.behind) / 1000, 0.0) if self.behind > 0 else 0.0, 3),
        }

    @property
    def gone(self) -> bool:
        """Whether it has given no sign of life for 5 s: it was killed or stopped, or is cut off."""
        return self.silent > 5

    @property
    def host(self) -> str | None:
        """The host that it runs on; None if its id does not name one."""
        named = _NAMED.match(self.worker)
        return named and named["host"]

    @property
    def process(self) -> int | None:
        """The id of its process; None if the worker's id does not name one."""
        named = _NAMED.match(self.worker)
        return named and int(named["process"])


@dataclass(frozen=True, slots=True)
class ListWorkers(Query[list[Member]]):
    """All workers that have announced topics of jobs, by name, for people. O(workers)."""
