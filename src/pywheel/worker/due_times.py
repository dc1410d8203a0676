"""When each topic's next job is due, as far as this worker knows, and when this worker asks for it.

Time is cut into slices. For each topic, every slice has an owner among the workers (`jobs.job.slice_of`,
`stores.ownership`). A worker claims a job that is due in its own slice at the due time. It looks for a job of another
worker's slice when its own next slice begins, or when the job is late by LATE. So the owner is first, and any worker
with room follows within a round of the slices: no job waits for a worker that is full, stopped or dead.

A worker keeps nothing about single jobs. A claim says when the next job is due, and a put that is due sooner sends a
hint. The worker looks up all topics in the store now and then, in case a hint was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from ..core import KeyWheel
from ..jobs.job import slice_of
from ..jobs.queries import GetNextDues
from ..stores.contract import Store
from ..stores.notifier import Notifier
from ..stores.ownership import turn
from .topic_state import TopicState

LATE: Final = 1_000
"""ms after its due time at which any worker asks for a job."""
_LOOK: Final = 15_000  # ms between looks at all topics; more with very many topics
_AHEAD: Final = 5_000  # ms beyond the next look for which this worker wants hints
_A_TOPIC: Final = 12  # ms for each topic between looks at all topics, at least
_TOPICS: Final = 500  # topics in one look


class DueTimes:
    """The next due times of all topics, in one wheel. Only the dispatcher uses it."""

    def __init__(self, store: Store, notifier: Notifier, topics: Mapping[str, TopicState]) -> None:
        self._store = store
        self._notifier = notifier
        self._topics = topics
        self._numbers = list(topics.values())  # by the key in the wheel
        self._keys = {topic: key for key, topic in enumerate(self._numbers)}
        self._shards = dict.fromkeys(self._numbers, 0)
        self._between = max(_LOOK, _A_TOPIC * len(self._numbers))
        self.ready: dict[TopicState, None] = {}
        """Topics with due jobs for this worker, as far as it knows."""
        self.reset()

    def reset(self) -> None:
        """Forget everything after a step of the clock, and look it up again."""
        self._now = now = max(self._store.clock.wall(), 0)
        self._wheel = KeyWheel(now)
        self._handles = dict.fromkeys(self._numbers, 0)
        self._due: dict[TopicState, int | None] = dict.fromkeys(self._numbers)
        self.ready.clear()
        self._to_look: dict[TopicState, None] = {}  # topics to look up in the store, in turn
        self._look_all_at = 0

    # ---- ownership --------------------------------------------------------------------------------------------------

    def own(self, topic: TopicState, shards: int) -> None:
        """Own these shards of a topic from now on. `shards`: a bit mask."""
        gained, self._shards[topic] = shards & ~self._shards[topic], shards
        if gained:
            self.look_at(topic)  # no hints for them came here

    # ---- known due times --------------------------------------------------------------------------------------------

    def learn(self, topic: TopicState, due: int | None) -> None:
        """Take in when the next job of a topic is due: None if there is none, a past time if some may be due."""
        self._due[topic] = due
        if due is None:
            self.ready.pop(topic, None)
            self._wheel.cancel(self._handles[topic])
        elif due <= self._now:
            self.ready[topic] = None
        else:
            self.ready.pop(topic, None)
            until = turn(self._shards[topic], due, LATE)
            if not self._wheel.reschedule(self._handles[topic], until):
                self._handles[topic] = self._wheel.schedule(until, self._keys[topic])

    def due(self, topic: TopicState) -> int:
        """Return when the next known job of a topic is or was due, wall clock in ms; 0 if none is known."""
        return self._due[topic] or 0

    def recall(self, topic: TopicState) -> None:
        """Go on with the known due time of a topic, after a claim of certain jobs by their ids."""
        self.learn(topic, self._due[topic])

    # ---- looking ----------------------------------------------------------------------------------------------------

    def look_at(self, topic: TopicState) -> None:
        """Have the next `look` look up a topic in the store."""
        self._to_look[topic] = None

    def look_at_all(self, topics: Iterable[TopicState] | None = None) -> None:
        """Have the next `look` look up all topics in the store, or some."""
        self._to_look.update(dict.fromkeys(self._numbers if topics is None else topics))

    def hear(self) -> bool:
        """Take in the hints of others; return whether topics were paused or resumed, or hints are missing."""
        hints = self._notifier.hints()
        if hints.reload:
            self.look_at_all()
        for due, _, name, priority in hints.due:
            topic = self._topics.get(name)
            if topic is not None:
                topic.hint(due, priority)
                known = self._due[topic]
                if topic not in self.ready and (known is None or due < known):
                    self.learn(topic, due)
        return hints.reload

    def look(self, now: int) -> None:
        """Look up some of the topics that wait for it, in one query."""
        if now >= self._look_all_at:
            self._notifier.publish(now + self._between + _AHEAD)  # before the look: what it misses is hinted
            self._look_all_at = now + self._between
            self.look_at_all()
        if not self._to_look:
            return
        some = list(islice(self._to_look, _TOPICS))
        for topic in some:
            del self._to_look[topic]
        try:
            dues = self._store.ask(GetNextDues([topic.name for topic in some]))
        except BaseException:
            self.look_at_all(some)
            raise
        for topic in some:
            due = dues.get(topic.name)
            if due is not None or topic not in self.ready:
                self.learn(topic, due)

    # ---- time -------------------------------------------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Make topics ready whose time has come. `now` may be a little before the last one."""
        self._now = max(now, self._now)
        for key in self._wheel.advance(self._now):
            topic = self._numbers[key]
            due = self._due[topic]
            if due is not None and self._shards[topic] >> slice_of(due) & 1:
                self.ready[topic] = None
            elif due is not None:  # another worker's slice: mostly that one has claimed the job
                self.look_at(topic)

    def next_deadline(self) -> int | None:
        """Return when the next topic is due or must be looked up, wall clock in ms."""
        if self._to_look:
            return 0
        first = self._wheel.next_deadline()
        return self._look_all_at if first is None else min(first, self._look_all_at)
