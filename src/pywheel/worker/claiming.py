"""What a step claims, and what becomes of what it got and of what was left.

Of what one step claims each topic gets an equal part: a topic with one job does not wait for one with a million. With
more topics than that, each is first in its turn. So is each topic whose suspects wait for their trial: one that cannot
use its turn, as a limit holds it back, holds up no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from .._errors import StoreError
from ..clock import Clock
from ..events import BacklogSeen, Events, JobsClaimed
from ..jobs.commands import Claim, Claimed, Release
from ..jobs.lifecycle import LOST_BEGUN
from ..jobs.queries import ListClaims
from ..stores.contract import Store
from .due_times import DueTimes
from .leases import Leases
from .pace import Pace
from .sealed import Sealed
from .suspects import Suspects
from .topics import Topic

__all__ = ["Claiming"]

_SOON: Final = 0.001  # seconds before a limit is asked again, at least
_AWAY: Final = 1.0  # seconds before a store is asked again for what it has claimed, while it does not answer
_LATER: Final = (0.25, 0.5, 1.0, 2.0, 4.0)  # the same after each answer: a commit that was cut off may end after it


class Claiming:
    """The claims of a worker. Only the dispatcher uses it."""

    def __init__(
        self,
        store: Store,
        topics: Mapping[str, Topic],
        due_times: DueTimes,
        leases: Leases,
        suspects: Suspects,
        sealed: Sealed,
        pace: Pace,
        events: Events,
        *,
        worker: str,
        max_bytes: int,
    ) -> None:
        self._store = store
        self._topics = topics
        self._due_times = due_times
        self._leases = leases
        self._suspects = suspects
        self._sealed = sealed
        self._pace = pace
        self._clock: Clock = store.clock
        self._events = events
        self._worker = worker
        self._max_bytes = max_bytes
        self._scans = [(topic, topic.scan) for topic in topics.values() if topic.scan is not None]
        self._turn = 0
        self._trials = 0
        self._suspected: dict[Topic, None] = {}  # with due jobs that wait for their trial
        self._late: set[Topic] = set()  # that are behind, and perhaps some that are not
        self._fed: set[Topic] = set()  # with jobs in their pools
        self._unheard = False  # whether jobs may have been claimed: the answer did not come
        self._ask_at = 0.0  # when to ask for those again
        self._asked = 0  # how often it was answered since

    # ---- before the transaction -------------------------------------------------------------------------------------

    def commands(self, now: float) -> list[Claim]:
        """Return the commands that claim what is due and has room; their outcomes go to `learn`."""
        ready = self._due_times.ready
        for topic in self._sealed.look(now):
            ready[topic] = None
        for topic, scan in self._scans:
            if scan.look_at() <= now and topic.begin:
                ready[topic] = None
        bytes_left = self._max_bytes - self._leases.bytes
        trial = self._suspects.room(now) if ready or self._suspected else 0
        tried = self._on_trial(now, bytes_left) if trial and self._suspected else None
        topics = list(ready)
        if tried is not None and tried not in ready:
            topics.append(tried)
        if not topics:
            return []
        self._turn = (self._turn + 1) % len(topics)
        topics = topics[self._turn :] + topics[: self._turn]
        most, claims = self._pace.claims, list[Claim]()
        share = max(bytes_left // min(len(topics), most), 0)
        for place, topic in enumerate(topics):
            room = min(topic.room(now, bytes_left), -(-most // (len(topics) - place)))
            if room <= 0:
                self._is_behind(topic)
                continue
            suspects = trial if tried is None or tried is topic else 0
            claim = topic.claim(self._worker, room, suspects, share, self._sealed.without(topic), now)
            claims.append(claim)
            most -= room
            trial -= suspects
        return claims

    def _on_trial(self, now: float, bytes_left: int) -> Topic | None:
        """Return the topic whose turn it is to have a suspect tried; None if none can."""
        waiting = [topic for topic in self._suspected if topic.begin and topic.room(now, bytes_left) > 0]
        if not waiting:
            return None
        self._trials += 1
        chosen = min(waiting, key=lambda topic: topic.trial)
        chosen.trial = self._trials
        return chosen

    # ---- after it ---------------------------------------------------------------------------------------------------

    def failed(self, claims: Sequence[Claim]) -> None:
        """Take in that the store has done none of it, as far as is known."""
        for claim in claims:
            self._unheard = True
            scan = self._topics[claim.topic].scan
            if scan is not None:
                scan.restart()
        self._ask_at, self._asked = (0.0, 0) if self._asked else (self._ask_at, 0)

    def learn(self, claim: Claim, outcome: Claimed | StoreError, asked: float, wall: int) -> None:
        """Take in what a claim came to, with the clocks before it: jobs go to their pool."""
        topic = self._topics[claim.topic]
        if isinstance(outcome, StoreError):
            self.failed((claim,))
            return
        if outcome.paused:
            self.drop(topic)
            return
        self._learn_next(topic, claim, outcome, wall)
        leases = self._sealed.leases(topic, outcome, asked, wall) if outcome.jobs else []
        if not leases:
            return
        self._leases.add(leases)
        for lease in leases:
            job = lease.job
            if job.lost == LOST_BEGUN:
                self._suspects.tried((job.id, job.claims), asked, job.attempt, lease.ttr / 1000)
        if self._events.listeners:
            self._events.tell(JobsClaimed(topic.name, len(leases)))
        topic.feed(leases, self._clock.time())
        self._fed.add(topic)

    def _learn_next(self, topic: Topic, claim: Claim, outcome: Claimed, wall: int) -> None:
        """Note when to claim next."""
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
            topic.behind = 0
        if self._events.listeners:
            late = (wall - topic.behind) / 1000 if topic.behind else 0.0
            self._events.tell(BacklogSeen(topic.name, max(late, 0.0)))

    def _is_behind(self, topic: Topic) -> None:
        topic.behind = topic.behind or self._clock.wall()
        self._late.add(topic)

    def drop(self, topic: Topic) -> None:
        """Forget what is due of a topic: it is paused."""
        self._due_times.learn(topic, None)
        self._suspected.pop(topic, None)
        topic.behind = 0
        if topic.scan is not None:
            topic.scan.pause(self._clock.time())

    # ---- when the answer was lost -----------------------------------------------------------------------------------

    def unheard(self, now: float) -> list[Release]:
        """Return the commands that give back what the store has claimed for this worker without its hearing of it.

        Else nobody would have those jobs until their leases are over. One query after a step that failed, and a few
        more in the seconds after it.
        """
        if not self._unheard or now < self._ask_at:
            return []
        try:
            mine = self._store.ask(ListClaims(self._worker))
        except StoreError:
            self._ask_at = now + _AWAY
            return []
        held = {(lease.job.id, lease.job.claims) for lease in self._leases}
        found = [Release(*claim) for claim in mine if claim not in held]
        if not found and self._asked == len(_LATER):
            self._unheard = False
        elif not found:
            self._ask_at = now + _LATER[self._asked]
            self._asked += 1
        return found

    # ---- how it stands ----------------------------------------------------------------------------------------------

    def behind(self) -> int:
        """Return since when jobs are due here that are not claimed; -1 if no more could be; else 0."""
        self._late = {topic for topic in self._late if topic.behind}
        late = min((topic.behind for topic in self._late), default=0) or self._sealed.behind()
        return late or -(not any(topic.begin for topic in self._topics.values()))

    def fed_still(self) -> set[Topic]:
        """Return the topics with jobs in their pools."""
        self._fed = {topic for topic in self._fed if topic.inside}
        return self._fed

    def due_again(self, now: float) -> list[float]:
        """Return in how many seconds jobs that are due can be claimed."""
        left = self._max_bytes - self._leases.bytes

        def able(topic: Topic) -> bool:
            return topic.room(topic.retry_at, left) > 0

        times = [topic.retry_at for topic in self._due_times.ready if able(topic)]
        if self._suspected:
            trial_at = self._suspects.free_at(now)
            times += [max(topic.retry_at, trial_at) for topic in self._suspected if topic.begin and able(topic)]
        times += [max(topic.retry_at, scan.look_at()) for topic, scan in self._scans if topic.begin and able(topic)]
        look_at = self._sealed.look_at
        if look_at is not None:
            times.append(look_at)
        return [max(time - now, 0.0) for time in times]
