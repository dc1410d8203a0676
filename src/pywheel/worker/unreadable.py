"""Jobs whose bodies this worker cannot read, as it lacks a key: they are left to other workers.

A claimed job that cannot be read is given back, unspent. The worker then looks at it once a minute, without a claim,
and claims it again when it can be read. While there are such jobs, this worker reports that it is behind, so that
workers with the key take them. If many jobs of a topic in a row cannot be read, the topic rests between claims, for
longer each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Final

from .._errors import BadBody, StoreError
from ..events import BodiesSealed, Events
from ..jobs.commands import Claimed
from ..jobs.job import State
from ..jobs.queries import GetJob
from ..stores.contract import Store
from .completer import Completer
from .leases import Lease
from .topic_state import TopicState

_AGAIN: Final = 60.0  # seconds between looks at a job, and between events of a topic
_LOOKS: Final = 20  # jobs of a topic looked at in one step
_PAST: Final = 20_000  # jobs of a topic that a claim looks past
_ROW: Final = 1_000  # jobs in a row after which their topic rests
_RESTS: Final = (0.5, 60.0)  # seconds: first, longest


class Unreadable:
    """The jobs that could not be read lately. Only the dispatcher uses it."""

    def __init__(self, store: Store, completer: Completer, events: Events) -> None:
        self._store = store
        self._completer = completer
        self._events = events
        self._jobs: dict[TopicState, dict[int, float]] = {}  # by job, when to look at it again, soonest first
        self._told: dict[TopicState, float] = {}  # when the next event may be emitted, at the soonest
        self._rows: Counter[TopicState] = Counter()  # jobs in a row that could not be read
        self._rests: dict[TopicState, float] = {}  # seconds of each topic's last rest
        self._since = 0

    def behind(self) -> int:
        """Return since when there are such jobs, wall clock in ms; 0 if there are none."""
        return self._since if self._jobs else 0

    def without(self, topic: TopicState) -> tuple[int, ...]:
        """Return the ids of a topic's jobs that are not to be claimed."""
        return tuple(islice(self._jobs.get(topic, ()), _PAST))

    @property
    def look_at(self) -> float | None:
        """When to look at some of the jobs again; None if there are none."""
        return min((next(iter(ids.values())) for ids in self._jobs.values()), default=None)

    def look(self, now: float) -> list[TopicState]:
        """Look at some of the jobs again; return the topics of those that can be claimed."""
        found: list[TopicState] = []
        for topic, ids in list(self._jobs.items()):
            for id in [id for id, look_at in islice(ids.items(), _LOOKS) if look_at <= now]:
                del ids[id]
                if self._can_be_read(id):
                    found.append(topic)
                else:
                    ids[id] = now + _AGAIN
            if not ids:
                del self._jobs[topic]
        return found

    def _can_be_read(self, id: int) -> bool:
        """Whether a job can be read here by now, or is gone, or is not waiting any more."""
        try:
            job = self._store.ask(GetJob(id))
            if job is not None and job.state is State.DELAYED:
                self._store.opened(job)
        except (BadBody, StoreError):
            return False
        return True

    def leases(self, topic: TopicState, outcome: Claimed, asked: float, slow: float, now: int) -> list[Lease]:
        """Return the claims whose bodies can be read, with plain bodies. The others go back to the store."""
        found: list[Lease] = []
        sealed: list[Lease] = []
        wrong: BadBody | None = None
        opened, begins, answered = self._store.opened, outcome.begun, self._store.clock.time()
        for number, job in enumerate(outcome.jobs):
            try:
                found.append(Lease(opened(job), topic, asked, number < begins, slow, answered))
            except BadBody as error:
                wrong = error
                sealed.append(Lease(job, topic, asked, number < begins, slow, answered))
        if found and self._rows:
            del self._rows[topic]
            self._rests.pop(topic, None)
        if wrong is not None:
            self._give_back(topic, sealed, asked, now)
            if not found:
                self._rest(topic, len(sealed), asked)
            if asked >= self._told.get(topic, 0.0):
                self._told[topic] = asked + _AGAIN
                self._events.emit(BodiesSealed(topic.name, len(sealed), wrong))
        return found

    def _rest(self, topic: TopicState, jobs: int, asked: float) -> None:
        """Let a topic rest if none of its jobs can be read: to try them one after the other would slow all topics."""
        self._rows[topic] += jobs
        if self._rows[topic] >= _ROW:
            first, longest = _RESTS
            self._rests[topic] = min(2 * self._rests.get(topic, first / 2), longest)
            topic.rest(asked + self._rests[topic])

    def _give_back(self, topic: TopicState, leases: Sequence[Lease], asked: float, now: int) -> None:
        if not self._jobs:
            self._since = now
        topic.inside += len(leases)
        ids = self._jobs.setdefault(topic, {})
        for lease in leases:
            ids.pop(lease.job.id, None)
            ids[lease.job.id] = asked + _AGAIN
            lease.handled = False
            self._completer.done(lease)
