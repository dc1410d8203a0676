"""From commands to a commit: read and lock what they name, decide, write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from random import uniform
from typing import Any, Final, NamedTuple

from ...jobs.commands import Claimed, Command, Import, Put
from ...jobs.limits import note_of
from ..checks import clamped, note_name
from .changes import Changes
from .part import FINISHED, Part, Told, with_bodies
from .session import Answer, Asked, Purged, Session
from .topics import Topics
from .wanted import Name, Wanted

__all__ = ["Done", "transact"]


_PUTTING: Final = (Put, Import)


class Done(NamedTuple):
    """How a transaction ended."""

    outcomes: list[Any]
    told: Told
    near: Sequence[Sequence[Any]]  # the workers, if some look as far as what changed
    leases: list[int]  # that were given
    counted: int  # rows of counts that were written


def transact(
    session: Session,
    commands: Sequence[Command[Any]],
    topics: Topics,
    ids: Callable[[int], Iterator[int]],
    before: Callable[[list[Any]], None],
) -> Done:
    """Apply commands in one transaction. `ids` gives so many new ids; `before` hears the outcomes before the commit."""
    direct = session.direct(commands, topics.numbers)
    if direct is None:
        return _decide(session, commands, topics, ids, before)
    outcomes = direct.outcomes
    if direct.rest:

        def merged(decided: list[Any]) -> None:
            for place, outcome in zip(direct.rest, decided, strict=True):
                outcomes[place] = _joined(outcomes[place], outcome)
            before(outcomes)

        done = _decide(session, list(direct.rest.values()), topics, ids, merged, begun=True)
    else:
        before(outcomes)
        rows = session.commit(_NOTHING, None)
        done = Done([], Told(), rows, [], 0)
    return Done(outcomes, done.told, done.near, done.leases + direct.leases, done.counted + direct.counted)


def _joined(claimed: Claimed, more: Claimed) -> Claimed:
    """Return the outcome of a Claim that was decided in two parts: the second is of jobs that come later."""
    return Claimed([*claimed.jobs, *more.jobs], claimed.begun + more.begun, more.left, more.paused, more.again)


def _decide(
    session: Session,
    commands: Sequence[Command[Any]],
    topics: Topics,
    ids: Callable[[int], Iterator[int]],
    before: Callable[[list[Any]], None],
    *,
    begun: bool = False,
) -> Done:
    wanted = Wanted(commands)
    new = ids(sum(len(command.jobs) for command in commands if isinstance(command, _PUTTING)))
    reading = _Reading(session, wanted, topics)
    part = reading.read(new)
    if wanted.rewritten:
        part.learn_bodies(session.bodies(sorted(wanted.rewritten)))
    if wanted.results:
        part.learn_results(session.results(sorted(wanted.results)))
    outcomes = part.run(commands)
    unread = part.without_bodies(outcomes)
    if unread:
        outcomes = with_bodies(outcomes, session.bodies(unread))
    missing = sorted(name for name in part.paused if topics.number(name) is None)
    if missing:
        topics.learn(session.numbers(missing, add=True))
    changes = Changes(part, topics.numbers)
    told = part.told
    before(outcomes)
    if changes.empty and not missing and not begun:
        session.abandon()
        return Done(outcomes, told, (), [], 0)
    near = min((due for _, due in told.jobs.values()), default=None)
    rows = session.commit(changes, near)
    leases = [entry.run.lease for _, _, entry in part.entries() if entry is not None and entry.run is not None]
    return Done(outcomes, told, rows, leases, len(changes.counts))


_NOTHING: Final = Changes(Part(0, iter(()), lambda: 0.0), {})


class _Reading:
    """Asks for what is wanted, and for what turns out to matter too."""

    def __init__(self, session: Session, wanted: Wanted, topics: Topics) -> None:
        self._session = session
        self._wanted = wanted
        self._topics = topics
        self._asked: set[int] = set(wanted.anywhere)
        self._resolved: set[Name] = set(wanted.holders | wanted.named)
        self._laned: set[str] = set()

    def read(self, ids: Iterator[int]) -> Part:
        """Return the part of the store that the commands are about."""
        self._know_topics()
        answer = self._session.begin(self._first())
        part = Part(answer.now, ids, lambda: uniform(-1, 1))
        part.guarded, part.lock_jobs = self._wanted.guarded, partial(self._lock, part)
        while True:
            self._load(part, answer)
            found = set(answer.ids) - self._asked
            self._asked |= found
            keys, lanes = self._keys(part), self._lanes(part)
            if not found and not keys and not lanes:
                return part
            asked = self._anywhere(found, holders=self._numbered(keys))
            answer = self._session.more(asked._replace(lanes=lanes))

    def _know_topics(self) -> None:
        """Learn the numbers of the topics that are named, as far as there are such topics."""
        wanted = self._wanted
        names = {name for name, _ in wanted.holders | wanted.named} | wanted.reserved.keys() | wanted.topics
        names |= {purge.topic for purge in wanted.purged if purge.topic is not None}
        missing = [name for name in names if self._topics.number(name) is None]
        if missing:
            self._topics.learn(self._session.numbers(missing))

    def _first(self) -> Asked:
        wanted = self._wanted
        asked = self._anywhere(wanted.anywhere, self._numbered(wanted.holders), self._numbered(wanted.named))
        claimed = wanted.claimed
        others = wanted.anywhere | wanted.settled
        due = [(id, id in claimed) for id in wanted.anywhere | (claimed & others)]
        run = [(id, id in claimed) for id in others]
        reserved = [
            (self._topics.numbers[name], n) for name, n in wanted.reserved.items() if name in self._topics.numbers
        ]
        return asked._replace(
            due=due,
            run=run,
            claimed=sorted(claimed - others),
            topics=sorted(wanted.topics),
            pausing=wanted.pauses,
            reserved=[(topic, limit) for topic, limit in reserved if limit > 0],
            lost=wanted.expired,
            lost_of=[topic for topic, _ in reserved],
            leases=1 + len(due) + len(run) + len(claimed | wanted.looked) + wanted.expired if wanted.next_lease else 0,
            purged=list(self._purged()),
            nonces=sorted(wanted.nonces),
            notes=sorted(map(note_name, wanted.notes)),
            limits=self._guards() if wanted.guarded else (),
            noticed=() if wanted.guarded else self._guards(),
            running=self._limited(),
            looked=sorted(wanted.looked - wanted.anywhere),
        )

    def _guards(self) -> list[bytes]:
        """Return the names of the notes that guard limits, in the order in which they are locked."""
        return sorted(note_name(note_of(topic)) for topic in self._wanted.limited)

    def _limited(self) -> list[int]:
        """Return the topics with limits."""
        return [self._topics.numbers[topic] for topic in self._wanted.limited if topic in self._topics.numbers]

    def _lock(self, part: Part, ids: Iterable[int]) -> None:
        """Lock what guards limits, unless it is locked, and then jobs that they let through."""
        asked = Asked(claimed=sorted(ids))
        if not part.guarded:
            asked = asked._replace(limits=self._guards(), running=self._limited())
        answer = self._session.more(asked)
        if not part.guarded:
            part.guard(asked.limits)
        self._load(part, answer)

    def _purged(self) -> Iterator[Purged]:
        for purge in self._wanted.purged:
            topic = None if purge.topic is None else self._topics.number(purge.topic)
            if (topic is not None or purge.topic is None) and purge.state in FINISHED:
                yield Purged(FINISHED.index(purge.state), purge.age, topic, max(clamped(purge.limit), 0))

    def _anywhere(
        self, ids: Iterable[int], holders: list[tuple[int, str]], named: Sequence[tuple[int, str]] = ()
    ) -> Asked:
        some = sorted(ids)
        return Asked(
            due=[(id, False) for id in some],
            run=[(id, False) for id in some],
            finished=some,
            holders=sorted({*holders, *named}),
            named=sorted(named),
        )

    def _numbered(self, names: Iterable[Name]) -> list[tuple[int, str]]:
        """Return names with the numbers of their topics; without those whose topic there is not."""
        numbers = self._topics.numbers
        return [(numbers[topic], key) for topic, key in names if topic in numbers]

    def _keys(self, part: Part) -> set[Name]:
        """Return the keys of jobs to be retried by id, of which it is not known who has them."""
        jobs = (part.read.get(id) for id in self._wanted.retried)
        names = {job.name for job in jobs if job is not None and job.name is not None} - self._resolved
        self._resolved |= names
        return names

    def _lanes(self, part: Part) -> list[tuple[int, int, int]]:
        """Return what is to be read of reserved topics whose jobs have priorities: first came the first by due time."""
        wanted, asked = self._wanted.reserved, []
        for name in wanted.keys() & part.lanes_before.keys() - self._laned:
            self._laned.add(name)
            number = self._topics.numbers[name]
            asked += [(number, wanted[name], priority) for priority in (*part.lanes_before[name], 0)]
        return sorted(asked)

    def _load(self, part: Part, answer: Answer) -> None:
        for number, name, paused, lanes in answer.topics:
            self._topics.learn({name: number})
            part.topic(name, bool(paused), lanes)
        for nonce in answer.nonces:
            part.nonce(*nonce)
        for note in answer.notes:
            part.load_note(*note)
        unknown = {
            row[1] for rows in (answer.due, answer.run, answer.finished, answer.looked) for row in rows
        } - self._topics.names.keys()
        if unknown:
            self._topics.learn(self._session.numbers(None))
        names = self._topics.names
        part.load_due(answer.due, names)
        part.load_run(answer.run, names)
        part.load_finished(answer.finished, names)
        part.load_looked(answer.looked, answer.lapsed, names)
        part.leases += answer.leases
        for topic, id, key in answer.running:
            part.running(names[topic], id, key)
        part.locked |= frozenset(answer.delayed) - part.read.keys()
