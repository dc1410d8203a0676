"""The claims of a step: which topics claim how many jobs, and how the worker takes in the outcomes.

The topics share the claims of a step equally: a topic with one job does not wait for one with a million. If there are
more topics than claims, they take turns. Topics whose suspects wait for probation also take turns: a topic that cannot
use its turn, as a limit holds it back, holds up no other.

With `concurrency=`, the next place goes to the topic that has waited longest, since its first job was due or since it
last got a place. So neither a backlog nor many quick jobs starve another topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp2, inf
from typing import Final

from .._errors import StoreError
from ..clock import Clock
from ..events import BacklogSeen, Events, JobsClaimed
from ..jobs.commands import Claim, Claimed, Release
from ..jobs.limits import Limits
from ..jobs.queries import GetJob, ListClaims
from ..stores.contract import Store
from ..stores.schedule_notes import TOPIC as PLANNER
from .completer import Completer
from .due_times import DueTimes
from .topic_state import Places, TopicState
from .unreadable import Unreadable

ALONE: Final = 1_000
"""Claims in a step of a worker with one topic."""
_TOGETHER: Final = 128  # the same with several topics: a topic that becomes due during a step waits for milliseconds
_SLOW: Final = 0.35  # seconds of a step after which the next one claims less: held jobs must begin soon
_FEWEST: Final = 64  # claims in a step, however slow it is
_SLOWEST: Final = 5.0  # seconds of a slow step that count
_ASLEEP: Final = 10.0  # seconds of a step that was none: the machine slept, or a test moved its clock
_QUICK: Final = 0.05  # seconds of a step that make no difference
_FADES: Final = 2.0  # seconds in which half of them are forgotten
_CONTEST: Final = 100  # topics that compete for the next place
_SOON: Final = 0.001  # seconds before a limit is asked again, at least
_AWAY: Final = 1.0  # seconds before the store is asked again for uncertain claims, while it does not answer
_LATER: Final = (inf, 4.0, 2.0, 1.0, 0.5, 0.25)
"""The same after each answer, the last value first: a commit that was cut off may end after the answer."""


class BatchSizer:
    """The number of jobs that a step may claim.

    A claimed job is held for a second, and must begin before other workers may claim it. A slow step is followed by
    smaller ones. Otherwise its jobs would be lost before they begin, then claimed and lost again by slower workers.
    """

    def __init__(self, topics: int) -> None:
        self.full: Final = ALONE if topics <= 1 else _TOGETHER
        self.claims = self.full
        """How many the next step may claim."""
        self._slow = self._slow_at = 0.0  # seconds of the slowest step of late, as of then

    def slowest(self, now: float) -> float:
        """Return how many seconds the slowest step took of late, 0 if that is no matter: the next may take as long."""
        slow = self._slow * exp2((self._slow_at - now) / _FADES)
        return slow if slow >= _QUICK else 0.0

    def took(self, seconds: float, now: float) -> None:
        """Take in how long a step took: halve the number after a slow step, double it after a quick one."""
        slow = min(seconds, _SLOWEST) if seconds < _ASLEEP else 0.0
        self._slow, self._slow_at = max(slow, self.slowest(now)), now
        if seconds > _SLOW:
            self.claims = max(self.claims // 2, _FEWEST)
        elif seconds < _SLOW / 2:
            self.claims = min(2 * self.claims, self.full)


class Claims:
    """The claims of a worker. Only the dispatcher uses it."""

    def __init__(
        self,
        store: Store,
        worker: str,
        topics: Mapping[str, TopicState],
        due_times: DueTimes,
        completer: Completer,
        events: Events,
        max_bytes: int,
        places: Places | None = None,
    ) -> None:
        self._store = store
        self._worker = worker
        self._topics = topics
        self._due_times = due_times
        self._leases = completer.leases
        self._quarantine = completer.leases.quarantine
        self._unreadable = Unreadable(store, completer, events)
        self.batches = BatchSizer(len(topics.keys() - {PLANNER}))  # the planner of schedules may wait
        self._clock: Clock = store.clock
        self._events = events
        self._max_bytes = max_bytes
        self._places = places
        self._scans = {topic: topic.scan for topic in topics.values() if topic.scan is not None}
        self._slow = 0.0  # as the claims under way were told
        self._turn = 0
        self._suspected: dict[TopicState, None] = {}  # topics with due jobs that wait for probation, in turn
        self._behind: set[TopicState] = set()  # topics with overdue jobs; entries may be stale
        self._fed: set[TopicState] = set()  # topics with jobs in their pools; entries may be stale
        self._later: list[float] = []  # the rest of _LATER since a claim whose answer was lost
        self._ask_at = 0.0  # when to ask for uncertain claims again

    # ---- before the transaction -------------------------------------------------------------------------------------

    def commands(self, now: float) -> list[Claim]:
        """Return the commands that claim due jobs as far as there is room; pass their outcomes to `learn`."""
        ready = self._due_times.ready
        ready.update(dict.fromkeys(self._unreadable.look(now)))
        for topic, scan in self._scans.items():
            if scan.look_at() <= now and topic.begin:
                ready[topic] = None
        self._look_for_touched(now)
        self.count_places(now)
        bytes_left = self._max_bytes - self._leases.bytes
        trial = self._quarantine.room(now) if ready or self._suspected else 0
        suspected = (topic for topic in self._suspected if topic.begin and topic.room(now, bytes_left) > 0)
        tried = next(suspected, None) if trial else None
        topics = list(ready)
        if tried is not None:
            self._suspected[tried] = self._suspected.pop(tried)  # the next turn goes to another topic
            topics += [] if tried in ready else [tried]
        if not topics:
            return []
        if self._places is None:
            self._turn = (self._turn + 1) % len(topics)
            topics = topics[self._turn :] + topics[: self._turn]
        else:
            topics.sort(key=self._waits_since)
        most, claims = self.batches.claims, list[Claim]()
        self._slow = self.batches.slowest(now)
        share = max(bytes_left // min(len(topics), most), 0)
        for place, topic in enumerate(topics):
            turns = len(topics) - place
            room = min(topic.room(now, bytes_left), -(-most // turns))
            if room <= 0:
                self._is_behind(topic)
                continue
            begin = topic.begin
            if topic.places is not None:
                begin = min(begin, -(-topic.places.free // turns))
                room = min(room, begin) if topic.limits is None else room
            suspects = trial if tried is None or tried is topic else 0
            without = self._unreadable.without(topic)
            claim = topic.claim(self._worker, room, begin, suspects, share, without, now, self._slow)
            if topic.places is not None:
                topic.places.free -= claim.begin
            claims.append(claim)
            most -= room
            trial -= suspects
        return claims

    def _look_for_touched(self, now: float) -> None:
        """Take in the leases that their own handlers have prolonged, if the worker has a `concurrency`."""
        over = [] if self._places is None else self._leases.over(now)
        if not over:
            return
        try:
            mine = set(self._store.ask(ListClaims(self._worker)))
            for lease in over:
                job = self._store.ask(GetJob(lease.job.id)) if (lease.job.id, lease.job.claims) in mine else None
                left = 0.0 if job is None or job.lease_until is None else self._clock.until(job.lease_until)
                lease.until = now + left if left > 0 else 0.0  # a lost one is not asked for again
        except StoreError:  # the others keep their places for now
            for lease in self._leases.over(now):
                lease.until = now + _AWAY

    def count_places(self, now: float) -> None:
        """Count the free places, if the worker has a `concurrency`."""
        if self._places is not None:
            self._places.count(self._leases, now)

    def contested(self, now: float) -> list[TopicState]:
        """Return the topics that compete for too few places. Look them up: the longest wait must be known exactly."""
        self.count_places(now)
        wanted = [topic for topic in self._due_times.ready if topic.places is not None and topic.begin]
        if self._places is None or len(wanted) <= self._places.free:
            return []
        return sorted(wanted, key=self._waits_since)[:_CONTEST]

    def _waits_since(self, topic: TopicState) -> tuple[int, int]:
        """Return a sort key: since when a topic waits for a place, wall clock in ms; then when it last got one."""
        return max(self._due_times.due(topic), topic.served_at), topic.served_at

    # ---- after it ---------------------------------------------------------------------------------------------------

    def failed(self, claims: Sequence[Claim]) -> None:
        """Take in that these claims failed, or that their answers were lost."""
        for claim in claims:
            self._topics[claim.topic].forget_looks()
        if len(self._later) < len(_LATER):
            self._ask_at = 0.0
        if claims or self._later:
            self._later = list(_LATER)

    def learn(
        self, claim: Claim, outcome: Claimed | StoreError, asked: float, wall: int, confirmed: float | None = None
    ) -> None:
        """Take in the outcome of a claim, and feed its jobs to the pool.

        `asked`, `wall`: clocks before the claim. `confirmed`: when its topic was found not to be paused, after a slow
        answer.
        """
        topic = self._topics[claim.topic]
        if isinstance(outcome, StoreError):
            self.failed((claim,))
            return
        if outcome.paused:
            self.drop(topic)
            return
        self._learn_next(topic, claim, outcome, wall)
        leases = self._unreadable.leases(topic, outcome, asked, self._slow, wall) if outcome.jobs else []
        if not leases:
            return
        topic.served_at = wall
        topic.late = max(topic.late, wall - min(outcome.jobs[0].due, outcome.jobs[-1].due))
        now = self._clock.time()
        if (ahead := self._clock.until(max([lease.job.due for lease in leases]))) > 0:
            for lease in leases:
                lease.ahead = ahead
        if confirmed is not None:
            for lease in leases:
                lease.confirm(confirmed)
        self._leases.add(leases, now)
        self._events.emit(JobsClaimed(topic.name, len(leases)))
        topic.feed(leases, now)
        self._fed.add(topic)

    def _learn_next(self, topic: TopicState, claim: Claim, outcome: Claimed, wall: int) -> None:
        """Note when to claim the next jobs of a topic."""
        now = self._clock.time()
        again = None if outcome.again is None else now + max(self._clock.until(outcome.again), _SOON)
        more = topic.learn(claim, outcome, (wall, self._clock.wall()), now, again)
        if more is None:
            self._suspected[topic] = None
        elif claim.suspects and not outcome.left:
            self._suspected.pop(topic, None)
        if more:
            self._due_times.ready[topic] = None
        elif claim.ids:
            self._due_times.recall(topic)
        else:
            self._due_times.learn(topic, outcome.next)
        if topic in self._due_times.ready or topic in self._suspected or (topic.scan is not None and outcome.full):
            self._is_behind(topic)
        else:
            topic.note_backlog(None)
        self._events.emit(BacklogSeen(topic.name, max(wall - topic.behind, 0) / 1000 if topic.behind else 0.0))

    def _is_behind(self, topic: TopicState) -> None:
        topic.note_backlog(self._clock.wall())
        self._behind.add(topic)

    def drop(self, topic: TopicState) -> None:
        """Forget the due jobs of a paused topic."""
        self._due_times.learn(topic, None)
        self._suspected.pop(topic, None)
        topic.pause(self._clock.time())
        self._events.emit(BacklogSeen(topic.name, 0.0))

    def limit(self, topic: TopicState, limits: Limits | None) -> None:
        """Claim by these limits from now on. Jobs that wait in the pool begin in half a second, or are given back."""
        topic.limit(limits)
        self._scans.pop(topic, None)
        if topic.scan is not None:
            self._scans[topic] = topic.scan
        self._due_times.look_at(topic)

    # ---- when the answer was lost -----------------------------------------------------------------------------------

    def uncertain(self, now: float) -> list[Release]:
        """Return the commands that give back jobs whose claim was stored, but whose answer was lost.

        Otherwise no worker could have those jobs until their leases are over. This costs one query after a failed step,
        and a few more in the seconds after it.
        """
        if not self._later or now < self._ask_at:
            return []
        try:
            mine = self._store.ask(ListClaims(self._worker))
        except StoreError:
            self._ask_at = now + _AWAY
            return []
        held = {(lease.job.id, lease.job.claims) for lease in self._leases}
        found = [Release(*claim) for claim in mine if claim not in held]
        if not found:
            self._ask_at = now + self._later.pop()
        return found

    # ---- how it stands ----------------------------------------------------------------------------------------------

    def behind(self) -> int:
        """Return since when due jobs are not claimed here. Without such jobs: 0, or -1 if no place is free."""
        late = min((topic.behind for topic in self._behind if topic.behind), default=0) or self._unreadable.behind()
        return late or -(not any(topic.begin for topic in self._topics.values()))

    def fed_still(self) -> set[TopicState]:
        """Return the topics with jobs in their pools."""
        self._fed = {topic for topic in self._fed if topic.inside}
        return self._fed

    @property
    def overdue(self) -> bool:
        """Whether there are due jobs that this worker has no room for."""
        return any(topic.behind for topic in self._behind)

    def due_again(self, now: float) -> list[float]:
        """Return in how many seconds due jobs can be claimed, for each topic that has some."""
        self.count_places(now)
        trial_at = self._quarantine.free_at(now) if self._suspected else 0.0
        topics: list[tuple[TopicState, float]] = [(topic, 0.0) for topic in self._due_times.ready]
        topics += [(topic, trial_at) for topic in self._suspected if topic.begin]
        topics += [(topic, scan.look_at()) for topic, scan in self._scans.items() if topic.begin]
        left = self._max_bytes - self._leases.bytes
        times = [max(topic.retry_at, at) for topic, at in topics if topic.room(topic.retry_at, left) > 0]
        times += [] if self._unreadable.look_at is None else [self._unreadable.look_at]
        return [max(time - now, 0.0) for time in times]
