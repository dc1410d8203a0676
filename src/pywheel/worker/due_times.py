"""When each topic's next job is due, as far as this worker knows, and when this worker asks for it.

Time is cut into slices, and of each topic every slice has an owner among the workers (`jobs.job.slice_of`,
`stores.ownership`). What is due in a slice of its own a worker claims at that very time. What is due in another's it
looks for when its own next slice begins, or when it is late by LATE. So the owner is first, and whoever has room
follows within a round of the slices: no job waits for a worker that is full, stopped or dead.

Nothing is kept about single jobs. A claim says when the next one is due, and a put that is due sooner is hinted. A
topic of which nothing was heard for long is looked up in the store, in case a hint was lost.
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

__all__ = ["LATE", "DueTimes"]

LATE: Final = 1_000
"""ms after which a job is asked for by any worker."""
_LOOK: Final = 15_000  # ms between looks at a topic of which nothing is heard; more with very many topics
_AHEAD: Final = 5_000  # ms that are heard of beyond the next look
_A_TOPIC: Final = 12  # ms between looks for each topic
_TOPICS: Final = 500  # topics in one look


class DueTimes:
    """The next due times of all topics, one wheel for all. Only the dispatcher uses it."""

    def __init__(self, store: Store, notifier: Notifier, topics: Mapping[str, TopicState]) -> None:
        self._store = store
        self._notifier = notifier
        self._topics = topics
        self._numbers = list(topics.values())  # by the key in the wheel
        self._keys = {topic: key for key, topic in enumerate(self._numbers)}
        self._shards = dict.fromkeys(self._numbers, 0)
        self._between = max(_LOOK, _A_TOPIC * len(self._numbers))
        self.ready: dict[TopicState, None] = {}
        """Topics that this worker may claim from, for all it knows."""
        self.reset()

    def reset(self) -> None:
        """Forget everything, and look it up again: after a step of the clock."""
        self._now = now = max(self._store.clock.wall(), 0)
        self._wheel = KeyWheel(now)
        self._handles = dict.fromkeys(self._numbers, 0)
        self._due: dict[TopicState, int | None] = dict.fromkeys(self._numbers)
        self.ready.clear()
        self._to_look: dict[TopicState, None] = {}  # in the store, in turn
        self._look_all_at = 0

    # ---- who goes first ---------------------------------------------------------------------------------------------

    def own(self, topic: TopicState, shards: int) -> None:
        """Own these shards of a topic's time from now on."""
        gained, self._shards[topic] = shards & ~self._shards[topic], shards
        if gained:
            self.look_at(topic)  # nobody has told of them here

    # ---- what is known ----------------------------------------------------------------------------------------------

    def learn(self, topic: TopicState, due: int | None) -> None:
        """Take in when the next job of a topic is due: None if there is none, now or before if there may be more."""
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
        """Return since when a job of a topic is due, for all it knows, in ms; 0 if it knows of none."""
        return self._due[topic] or 0

    def recall(self, topic: TopicState) -> None:
        """Go by what is known of a topic: it was asked for some jobs alone."""
        self.learn(topic, self._due[topic])

    # ---- looking ----------------------------------------------------------------------------------------------------

    def look_at(self, topic: TopicState) -> None:
        """Look a topic up in the store, soon."""
        self._to_look[topic] = None

    def look_at_all(self, topics: Iterable[TopicState] | None = None) -> None:
        """Look all topics up in the store, or some, soon."""
        self._to_look.update(dict.fromkeys(self._numbers if topics is None else topics))

    def hear(self) -> bool:
        """Take in what others changed; return whether topics were paused or resumed, or hints are missing."""
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
        """Look up some of the topics that are to be looked up."""
        if now >= self._look_all_at:
            self._look_all_at = now + self._between
            self._notifier.publish(now + self._between + _AHEAD)  # before the look: what it misses is hinted
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
            if due is not None:
                topic.look_before(due)
            if due is not None or topic not in self.ready:
                self.learn(topic, due)

    # ---- time -------------------------------------------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Make ready the topics whose turn has come. The clock may have gone back a little."""
        self._now = max(now, self._now)
        for key in self._wheel.advance(self._now):
            topic = self._numbers[key]
            due = self._due[topic]
            if due is not None and self._shards[topic] >> slice_of(due) & 1:
                self.ready[topic] = None
            elif due is not None:  # another's: mostly that one has claimed it
                self.look_at(topic)

    def next_deadline(self) -> int | None:
        """Return when something is to be asked for or looked up."""
        if self._to_look:
            return 0
        first = self._wheel.next_deadline()
        return self._look_all_at if first is None else min(first, self._look_all_at)
