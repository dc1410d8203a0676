"""One transaction of the engine: the state that its commands share, and the changes to announce afterwards."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from ...jobs.checks import FURTHEST
from ...jobs.commands import NONCES_KEPT
from ...jobs.limits import lane
from .dialect import Dialect
from .statement import Do, Last, NewNames, Rows, Select, Statement, Steps

LIVE: Final = 0
"""The first column of a tally; the finished states follow, in the order of their numbers."""
NEVER: Final = 2**63 - 1
_ALL_AGAIN: Final = (1.0, 15.0)  # seconds between looks at all: at least, at most
_PARTS: Final = 64  # in which claims look at all, or up to twice as many
_SHARE: Final = 100  # pause between them, in durations of one: they take a hundredth of the time
_BEHIND: Final = 1_000  # ms
_MANY: Final = 2_000  # index entries that are read in less than a millisecond


class Taken(Exception):
    """Another transaction has taken a key, or a name, since the look at it: the transaction has to begin anew."""

    def __init__(self) -> None:
        super().__init__("other puts kept taking the same keys: try again")


class Look(NamedTuple):
    """Where a claim looks for jobs of a topic and priority."""

    first: int | None
    """The due time from which; None: at all jobs."""
    since: int
    """It also looks for earlier jobs, from this due time on."""
    until: int
    """The due time before which it does; `since`: it does not."""


@dataclass(slots=True)
class _Head:
    """The knowledge of the waiting jobs of a topic and priority."""

    due: int
    """The time from which claims look."""
    claimed: int = 0
    borders: list[int] = field(default_factory=list)
    """Due times that part the earlier ones, so that about as many jobs were claimed in each part."""
    apart: int = _MANY
    """The number of jobs that are claimed from one border to the next."""
    looked: int = -FURTHEST
    """The due time up to which claims have looked in this round."""
    again: float = 0.0
    """When to look at the next part."""
    pause: float = 0.0
    """The seconds between looks at two parts."""

    def parts(self) -> int:
        """Return how many parts to look at by now; as many as there are: at all."""
        late = time.monotonic() - self.again
        if self.claimed < _MANY or late < 0:
            return 0
        return 1 + int(late / self.pause) if self.pause else self.all

    @property
    def all(self) -> int:
        """The number of parts."""
        return len(self.borders) + 1

    def looked_at(self, look: Look, now: float, seconds: float) -> None:
        """Note a look at parts, and the seconds that it took. The pause gets shorter by half at most."""
        self.looked = look.until if look.until < self.due else -FURTHEST
        parts = 1 + sum(look.since < border < look.until for border in self.borders)
        least, most = (seconds / self.all for seconds in _ALL_AGAIN)
        self.pause = min(max(_SHARE * seconds / parts, self.pause / 2, least), most)
        self.again = now + self.pause

    def claims(self, jobs: int, due: int) -> None:
        """Note claimed jobs that were due from a time on."""
        borders, before = self.borders, self.claimed
        self.claimed += jobs
        if self.claimed // self.apart > before // self.apart and (not borders or borders[-1] < due):
            borders.append(due)
            if len(borders) > 2 * _PARTS:
                del borders[::2]
                self.apart *= 2


class Heads:
    """Due times from which claims look at the waiting jobs, by topic and priority.

    A claimed job's entry stays in the index while any transaction may see it. So after many claims, a claim begins at
    the first job that the last one found, less a second. Hints tell of jobs that it skips, unless a hint was lost. So
    claims also look at what is earlier, a part at a time: at all once a second, or less often if that takes longer.
    Claims that come seldom look at several parts at once.
    """

    def __init__(self) -> None:
        self._known: dict[int, dict[int, _Head]] = {}
        self._usual = math.inf  # seconds of the last claim that looked at no part
        self._ended: dict[int, float] = {}  # when lost leases were last ended, by topic

    def leases_wait(self, topic: int) -> bool:
        """Return whether the lost leases of a topic may wait for a second, while its reserves find enough jobs."""
        if self.first(topic, 0) is None:
            return False
        now = time.monotonic()
        if now - self._ended.get(topic, -math.inf) < _ALL_AGAIN[0]:
            return True
        self._ended[topic] = now
        return False

    def _of(self, topic: int) -> list[_Head]:
        return list(self._known.get(topic, {}).values())

    def first(self, topic: int, priority: int) -> int | None:
        """Return the due time from which to look; None: look at all jobs."""
        known = self._known.get(topic, {}).get(priority)
        return known.due if known is not None and known.claimed >= _MANY else None

    def look(self, topic: int, priority: int) -> Look:
        """Return where the next claim looks."""
        known, first = self._known.get(topic, {}).get(priority), self.first(topic, priority)
        parts = 0 if known is None else known.parts()
        if known is None or not parts:
            return Look(first, 0, 0)
        since = known.looked if known.looked < known.due and parts < known.all else -FURTHEST
        ends = [border for border in known.borders if since < border < known.due]
        return Look(first, since, [*ends, known.due][min(parts - 1, len(ends))])

    def found(
        self, topic: int, priority: int, look: Look, due: int, jobs: int, began: float, earlier: int | None
    ) -> None:
        """Note a claim: where it looked, its first job's due time, its jobs, when it began, and an earlier job."""
        due -= _BEHIND
        known = self._known.setdefault(topic, {}).setdefault(priority, _Head(due))
        known.claims(jobs, due)
        now = time.monotonic()
        if look.since == look.until:
            self._usual = now - began
        else:
            known.looked_at(look, now, now - began - self._usual)
        lowered = look.first is not None and known.due < look.first  # another thread noted a job meanwhile
        due = due if earlier is None else earlier
        known.due = min(known.due, due) if lowered else due

    def of(self, topic: int) -> int | None:
        """Return the earliest due time of a topic's waiting jobs as known here; None: unknown."""
        known = self._of(topic)
        return min(head.due for head in known) if any(head.claimed >= _MANY for head in known) else None

    def look_all(self, topic: int) -> bool:
        """Return whether to look at all jobs of a topic: claims have come too seldom to do so."""
        return any(head.parts() >= head.all for head in self._of(topic))

    def moved(self, moved: Iterable[tuple[int, int, int]]) -> None:
        """Note when jobs are due: topic, id and due time of each."""
        if self._known:
            firsts: dict[int, int] = {}
            for topic, _, due in moved:
                firsts[topic] = min(due, firsts.get(topic, due))
            for topic, due in firsts.items():
                self.changed(topic, due)

    def changed(self, topic: int, due: int) -> None:
        """Note a job with this due time."""
        for known in self._of(topic):
            known.due = min(known.due, due)

    def forget(self) -> None:
        """Forget all places: the next claims look at all jobs."""
        self._known.clear()


class Names:
    """Names of topics or workers and their numbers, which never change once they are committed."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.numbers: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.lanes: dict[int, int] = {}  # the known priorities of each topic
        self.heads = Heads()

    def learn(self, numbers: Mapping[str, int]) -> None:
        """Note names that are committed, or will be with the current transaction."""
        self.numbers.update(numbers)
        self.names.update((number, name) for name, number in numbers.items())

    def head_of(self, topic: str) -> int:
        """Return the earliest due time of a topic's waiting jobs as known here."""
        number = self.numbers.get(topic)
        head = None if number is None else self.heads.of(number)
        return -FURTHEST if head is None else head

    def look_from(self, topic: str) -> int:
        """Return the due time from which to look for waiting jobs of a topic that its claims do not look at."""
        return -FURTHEST if self.heads.look_all(self.numbers[topic]) else self.head_of(topic)

    def changed(self, topic: str, due: int) -> None:
        """Note a job of a topic with this due time."""
        if (number := self.numbers.get(topic)) is not None:
            self.heads.changed(number, due)

    def named(self, numbers: Iterable[int | None]) -> Steps[Mapping[int, str]]:
        """Return a mapping with the names of these numbers; it may have others."""
        missing = sorted({number for number in numbers if number is not None and number not in self.names})
        if missing:
            text = f"SELECT id, name FROM {self.table} WHERE id {{in ids}}"
            [rows] = yield (Rows("id name", text, {"ids": missing}),)
            self.learn({name: number for number, name in rows})
        return self.names

    def stand(self, numbers: Collection[int] | None = None) -> Steps[bool]:
        """Return whether names have the numbers, and topics the priorities, that are known: these, or all. O(names)."""
        names, lanes = dict(self.names), dict(self.lanes)
        if numbers is not None:
            names = {number: names[number] for number in numbers}
        if not names:
            return True
        text = f"SELECT id, name, {'lanes' if lanes else '0'} AS lanes FROM {self.table} WHERE id {{in ids}}"
        [rows] = yield Last((Rows("id name lanes", text, {"ids": sorted(names)}),))
        there = {number: (name, seen) for number, name, seen in rows}
        return all(
            there.get(number, ("",))[0] == name and not lanes.get(number, 0) & ~there[number][1]
            for number, name in names.items()
        )

    def rows(self, topic: str | None = None) -> Steps[Sequence[Any]]:
        """Return (number, name, paused, priorities) of a topic or of all, by name."""
        where = "" if topic is None else "WHERE name = :name"
        text = f"SELECT id, name, paused, lanes FROM topic {where}"
        [rows] = yield (Rows("id name paused lanes", text, {"name": topic}),)
        self.learn({name: number for number, name, _, _ in rows})
        self.lanes.update((number, lanes) for number, _, _, lanes in rows)
        return sorted(rows, key=lambda row: row[1])

    def forget(self) -> None:
        """Forget all names: some may have been rolled back."""
        self.numbers.clear()
        self.names.clear()
        self.lanes.clear()
        self.heads.forget()


class Lookup(NamedTuple):
    """The names that readers know, and the statements that count jobs."""

    topics: Names
    workers: Names
    tallies: Sequence[Select]
    """Statements that read (topic, live, done, cancelled, dead), to be added up."""


class Tally:
    """A transaction's changes of the counts of topics."""

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}  # by topic: live, done, cancelled, dead
        self.new: list[Sequence[Any]] = []  # rows of new jobs, by id; each begins with id and topic

    @property
    def put(self) -> Mapping[int, int]:
        """The number of new jobs, by topic."""
        return Counter([row[1] for row in self.new])

    def add(self, topic: int, column: int, jobs: int) -> None:
        """Add to a count of a topic."""
        row = self.rows.get(topic)
        if row is None:
            row = self.rows[topic] = [0, 0, 0, 0]
        row[column] += jobs

    def ended(self, topics: Sequence[int], state: int) -> None:
        """Count one live job of each of these topics as finished."""
        each, jobs = topics, 1
        if len(topics) > 1 and len({*topics}) == 1:
            each, jobs = topics[:1], len(topics)
        for topic in each:
            self.add(topic, LIVE, -jobs)
            self.add(topic, state + 1, jobs)


class Changes:
    """Changes that others may wait for."""

    leases = NEVER  # the earliest end of a lease given here
    expired = False  # whether lapsed leases were ended

    def __init__(self) -> None:
        self.moved: list[tuple[int, int, int]] = []  # topic, id and new due time of jobs
        self.paused: dict[int, bool] = {}  # the new pause state of topics that were paused or resumed
        self.announced: dict[str, tuple[str, ...]] = {}  # the topics of each worker that has announced some

    def due(self, topic: int, id: int, due: int) -> None:
        """Note a job's new due time."""
        self.moved.append((topic, id, due))

    @property
    def dues(self) -> dict[int, list[tuple[int, int]]]:
        """Ids and due times, by topic."""
        dues: dict[int, list[tuple[int, int]]] = {}
        for topic, id, due in self.moved:
            dues.setdefault(topic, []).append((id, due))
        return dues


class Watcher(Protocol):
    """Knowledge of leases and workers without a look at the tables."""

    def lapsed(self, now: int) -> bool:
        """Whether a lease may be over."""

    def gone(self, worker: str) -> bool:
        """Whether a worker that has announced topics has gone without a word."""


class Transaction:
    """The state that the commands of a transaction share."""

    def __init__(
        self,
        dialect: Dialect,
        now: int,
        topics: Names,
        workers: Names,
        ids: Callable[[int], Steps[Sequence[int]]],
        watcher: Watcher | None = None,
        *,
        eager: bool = False,
    ) -> None:
        self.dialect = dialect
        self.now = now
        """The store's time. Of a server's store an estimate, used only in news for others."""
        self.seen: int | None = None
        """The store's time as a claim of this transaction has read it."""
        self.topics = topics
        self.workers = workers
        self.eager = eager
        """Whether puts may take keys without a look, so that some outcomes may be `put.NOT_FREE`."""
        self.new_ids = ids
        """Returns a number of ids that no job had, ascending."""
        self._watcher = watcher
        self.tally = Tally()
        self.changes = Changes()
        self._new: dict[str, dict[str, int]] = {}  # names that this transaction has stored, by table
        self._lanes: dict[int, int] = {}  # priorities that this transaction has noted, by topic

    @property
    def lapsed(self) -> bool:
        """Whether a lease may be over."""
        return self._watcher is None or self._watcher.lapsed(self.now)

    def gone(self, worker: str) -> bool:
        """Whether a worker that has announced topics has gone without a word."""
        return self._watcher is not None and self._watcher.gone(worker)

    # ---- names ------------------------------------------------------------------------------------------------------

    def numbers(self, names: Iterable[str], *, add: bool = False, of: Names | None = None) -> Steps[dict[str, int]]:
        """Return the numbers of names, by default of topics; `add` stores new names."""
        known = self.topics if of is None else of
        new = self._new.get(known.table, {})
        found: dict[str, int] = {}
        missing: list[str] = []
        for name in names:
            number = known.numbers.get(name) or new.get(name)
            if number is None:
                missing.append(name)
            else:
                found[name] = number
        if missing:
            missing = sorted(set(missing))
            wanted = {"w": [(name,) for name in missing]}
            text = f"SELECT t.id, t.name FROM {{w: name}} {{each {known.table} t: t.name = w.name}}"
            find = Rows("id name", text, wanted)
            [rows] = yield (find,)
            known.learn({name: number for number, name in rows if not new or name not in new})
            found |= {name: number for number, name in rows}
            if add and len(rows) < len(missing):
                _, rows = yield (NewNames(known.table, [name for name in missing if name not in found]), find)
                added = {name: number for number, name in rows if name not in found}
                self._new.setdefault(known.table, {}).update(added)
                found |= added
        return found

    def had_priority(self, topic: str, priority: int) -> bool:
        """Whether a topic is known to have had jobs of a priority."""
        return bool(self.topics.lanes.get(self.topics.numbers.get(topic, 0), 0) & lane(priority))

    def know_priorities(self, priorities: Iterable[tuple[int, int]]) -> Steps[None]:
        """Store new priorities of topics."""
        text = "UPDATE topic SET lanes = lanes | :lanes WHERE id = :topic AND lanes & :lanes <> :lanes"
        lanes: dict[int, int] = {}
        for topic, priority in priorities:
            lanes[topic] = lanes.get(topic, 0) | lane(priority)
        for topic, bits in sorted(lanes.items()):
            if bits & ~(self.topics.lanes.get(topic, 0) | self._lanes.get(topic, 0)):
                yield (Do(text, {"topic": topic, "lanes": bits}, apart=True),)
                self._lanes[topic] = self._lanes.get(topic, 0) | bits

    def committed(self) -> None:
        """Publish the new names, now that the transaction cannot be rolled back any more."""
        for table, new in self._new.items():
            (self.topics if table == self.topics.table else self.workers).learn(new)
        for topic, bits in self._lanes.items():
            self.topics.lanes[topic] = self.topics.lanes.get(topic, 0) | bits
        if self.dialect.take:
            self.topics.heads.moved(self.changes.moved)

    # ---- what is kept for a time ------------------------------------------------------------------------------------

    def forget_nonces(self, limit: int) -> Statement:
        """Return the statement that deletes up to `limit` nonces that are old enough."""
        some = "SELECT id FROM nonce WHERE at <= {now} - :kept ORDER BY at LIMIT :limit"
        return Do(f"DELETE FROM nonce WHERE id IN (SELECT id FROM ({some}) o)", {"kept": NONCES_KEPT, "limit": limit})

    def forget_notes(self, limit: int) -> Statement:
        """Return the statement that deletes up to `limit` notes that are over."""
        some = "SELECT label FROM note WHERE until <= {now} ORDER BY until LIMIT :limit"
        return Do(f"DELETE FROM note WHERE label IN (SELECT label FROM ({some}) o)", {"limit": limit})
