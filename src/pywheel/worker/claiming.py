"""What a step claims, and what becomes of what it got and of what was left.

Of what one step claims each topic gets an equal part, and what others leave of theirs: a topic with one job does not
wait for one with a million. With more topics than that, each is first in its turn. So is each topic whose suspects wait
for their trial: one that cannot use its turn, as a limit holds it back, holds up no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from .._errors import StoreError
from ..clock import Clock
from ..events import BacklogSeen, Events, JobsClaimed
from ..jobs.commands import Claim, Claimed, Release
from ..jobs.lifecycle import LOST_BEGUN
from ..stores.contract import Store
from .held_back import HeldBack
from .leases import Leases
from .pace import Pace
from .sealed import Sealed
from .suspects import Suspects
from .topics import Topic
from .window import PAGE, Window
from .windows import Windows

__all__ = ["Claiming"]

_SOON: Final = 0.001  # seconds before a limit is asked again, at least
_FIRST: Final = 64  # jobs of no known group that are asked for again when a place is free
_MORE: Final = 1  # jobs of a group that are asked for beyond its free places: whether it is full then
_AGAIN: Final = 0.01  # seconds before jobs are claimed again that could not be claimed
_AWAY: Final = 1.0  # seconds before a store is asked again for what it has claimed, while it does not answer
_LATER: Final = (0.25, 0.5, 1.0, 2.0, 4.0)  # the same after each answer: a commit that was cut off may end after it


class Claiming:
    """The claims of a worker. Only the dispatcher uses it."""

    def __init__(
        self,
        store: Store,
        topics: Mapping[str, Topic],
        windows: Windows,
        leases: Leases,
        suspects: Suspects,
        sealed: Sealed,
        pace: Pace,
        clock: Clock,
        events: Events,
        *,
        worker: str,
        max_bytes: int,
    ) -> None:
        self._store = store
        self._topics = topics
        self._windows = windows
        self._leases = leases
        self._suspects = suspects
        self._sealed = sealed
        self._pace = pace
        self._clock = clock
        self._events = events
        self._worker = worker
        self._max_bytes = max_bytes
        self._held_back = HeldBack(windows, clock)
        self._turn = 0
        self._trials = 0
        self._late: set[Topic] = set()  # that are behind, and perhaps some that are not
        self._fed: set[Topic] = set()  # with jobs in their pools
        self._unheard: set[int] = set()  # jobs that may have been claimed: the answer did not come
        self._ask_at = 0.0  # when to ask for those again
        self._asked = 0  # how often it was answered since

    # ---- before the transaction -------------------------------------------------------------------------------------

    def commands(self, now: float) -> list[Claim]:
        """Return the commands that claim what is due and has room; their outcomes go to `learn`."""
        windows = list(self._windows.ready)
        if not windows:
            return []
        self._turn = (self._turn + 1) % len(windows)
        claims: list[Claim] = []
        most, trial = self._pace.claims, self._suspects.room(now)
        bytes_left = self._max_bytes - self._leases.bytes
        share = max(bytes_left // min(len(windows), most), 0)
        windows = windows[self._turn :] + windows[: self._turn]
        if len(windows) <= most:
            windows.sort(key=_waiting)
        tried = self._on_trial(windows, now, bytes_left) if trial else None
        for place, window in enumerate(windows):
            topic = self._topics[window.topic]
            room = min(topic.room(now, bytes_left), -(-most // (len(windows) - place)))
            if window.aside and room > 0:
                self._restore(topic, now)
            suspects = trial if tried is None or tried is window else 0
            ids = self._sealed.claimable(topic, window.take(room, suspects), now) if room > 0 else ()
            if ids:
                claims.append(Claim(topic.name, ids, topic.terms, self._worker, topic.begin, suspects, share))
                most -= len(ids)
                trial -= suspects
            elif room > 0 and window.waiting and not window.at_hand:
                topic.retry_at = now + _AGAIN  # others are on trial
            self._backlog(topic, ids)
        return claims

    def _restore(self, topic: Topic, now: float) -> None:
        """Make ready again, of what was set aside, what may begin now; and now and then what others may have freed."""
        if now >= topic.poll_at:
            self._windows.restore(topic.window)
        if topic.freed:
            places = {group: count + _MORE for group, count in topic.freed.items()}
            topic.freed.clear()
            self._windows.restore(topic.window, {**places, None: _FIRST})

    def _on_trial(self, windows: Sequence[Window], now: float, bytes_left: int) -> Window | None:
        """Return the topic whose turn it is to have a suspect tried; None if none is known to have any."""
        waiting = [window for window in windows if window.suspects]
        waiting = [window for window in waiting if self._topics[window.topic].room(now, bytes_left) > 0]
        if not waiting:
            return None
        self._trials += 1
        chosen = min(waiting, key=lambda window: self._topics[window.topic].trial)
        self._topics[chosen.topic].trial = self._trials
        return chosen

    def _backlog(self, topic: Topic, asked: Sequence[int]) -> None:
        """Note since when jobs are due that are not claimed. A limit may hold back those that are asked for now."""
        window = topic.window
        waiting = window.due
        if not waiting:
            del self._windows.ready[window]
        if waiting or window.more:
            topic.behind = topic.behind or self._clock.wall()
            self._late.add(topic)
        elif topic.limits is None or not asked:
            topic.behind = 0
        if self._events.listeners:
            self._events.tell(BacklogSeen(topic.name, waiting))

    # ---- after it ---------------------------------------------------------------------------------------------------

    def failed(self, claims: Sequence[Claim]) -> None:
        """Take in that the store has done none of it, as far as is known."""
        for claim in claims:
            self._windows.return_ids(self._topics[claim.topic].window, claim.ids)
            self._unheard.update(claim.ids)
        if self._asked:
            self._ask_at, self._asked = 0.0, 0

    def learn(self, claim: Claim, outcome: Claimed | StoreError, asked: float) -> None:
        """Take in what a claim came to: jobs go to their pool."""
        topic = self._topics[claim.topic]
        if isinstance(outcome, StoreError):
            self.failed((claim,))
            return
        if outcome.paused:
            self._windows.drop(topic.window)
            return
        if topic.limits is not None:
            topic.has_reached(outcome, self._clock.wall())
        self._note(topic, claim, outcome)
        leases = self._sealed.leases(topic, outcome, asked, self._clock.wall()) if outcome.jobs else []
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

    def _note(self, topic: Topic, claim: Claim, outcome: Claimed) -> None:
        """Note in the window what is no longer to be had, and what is to be asked for again."""
        if topic.limits is not None:
            topic.asked(claim, outcome, self._clock.time())
        self._windows.claimed(topic.window, claim.ids, outcome.left)
        if topic.window.on_trial:
            self._judge(topic.window, outcome)
        if outcome.left:
            self._left(topic, claim, outcome)

    def _judge(self, window: Window, outcome: Claimed) -> None:
        """See whether what was on trial is suspect: what others held locked as they looked at it is left, too."""
        suspect = {job.id for job in outcome.jobs if job.lost == LOST_BEGUN} | {due.id for due in outcome.left}
        if not suspect.issuperset(window.on_trial):
            self._windows.acquit(window)

    def _left(self, topic: Topic, claim: Claim, outcome: Claimed) -> None:
        """Wait again for jobs that were not claimed."""
        limited = outcome.again is not None or bool(outcome.jobs)  # else no limit holds them
        if topic.limits is not None and limited:
            self._hold_back(topic, claim, outcome)
        elif outcome.jobs or not claim.begin:
            self._windows.put_back(topic.window, outcome.left)
            topic.waits = topic.waits or not outcome.jobs
            topic.retry_at = topic.retry_at if outcome.jobs else self._clock.time() + _AGAIN
        else:
            self._leave(topic, outcome)

    def _leave(self, topic: Topic, outcome: Claimed) -> None:
        """Wait again for jobs none of which was claimed, though each could begin: too soon by an estimate, or suspects.

        Those behind them, in whatever lane, do not wait for their trials.
        """
        window, now = topic.window, self._clock.wall()
        self._windows.put_back(window, [due for due in outcome.left if due.due > now])
        self._windows.suspect(window, [due.id for due in outcome.left if due.due <= now])
        if not window.at_hand:
            topic.waits = True
            topic.retry_at = self._clock.time() + _AGAIN

    def _hold_back(self, topic: Topic, claim: Claim, outcome: Claimed) -> None:
        """Wait for a place under a limit: one that a job of this worker frees is taken in the step that settles it.

        Behind what the limit of its group holds back others may be that can begin.
        """
        window, now = topic.window, self._clock.wall()
        self._windows.put_back(window, [due for due in outcome.left if due.due > now])
        held, full = [due for due in outcome.left if due.due <= now], dict(outcome.full)
        more = len(outcome.jobs) < claim.begin and topic.limits is not None and topic.limits.per is not None
        self._windows.return_ids(window, [due.id for due in held if not more and due.id not in full])
        self._windows.set_aside(window, [due for due in held if more or due.id in full], full)
        topic.look = min(4 * len(claim.ids), PAGE) if more else 0
        moment = self._clock.time()
        again = moment if outcome.again is None else moment + max(self._clock.until(outcome.again), _SOON)
        if topic.poll_at <= moment:
            topic.poll_at = again
        on = more and (window.waiting or topic.freed or self._held_back.all_of(window))
        if outcome.again is not None and not on:
            topic.retry_at = again

    # ---- when the answer was lost -----------------------------------------------------------------------------------

    def unheard(self, now: float) -> list[Release]:
        """Return the commands that give back what the store has claimed for this worker without its hearing of it.

        Else nobody would have those jobs until their leases are over. One query after a step that failed, and a few
        more in the seconds after it.
        """
        if not self._unheard or now < self._ask_at:
            return []
        ids = sorted(self._unheard)
        try:
            histories = self._store.histories(ids)
        except StoreError:
            self._ask_at = now + _AWAY
            return []
        held = {(lease.job.id, lease.job.claims) for lease in self._leases}
        last = {id: history[-1] for id, history in zip(ids, histories, strict=True) if history}
        mine = {id: one.claim for id, one in last.items() if one.ended is None and one.worker == self._worker}
        found = [Release(*claim) for claim in mine.items() if claim not in held]
        if not found and self._asked == len(_LATER):
            self._unheard.clear()
        elif not found:
            self._ask_at = now + _LATER[self._asked]
            self._asked += 1
        return found

    def heard(self, commands: Sequence[Release], outcomes: Iterator[Any]) -> None:
        """Take in which of them the store has given back."""
        for command, outcome in zip(commands, outcomes, strict=False):
            if not isinstance(outcome, StoreError):
                self._unheard.discard(command.id)

    # ---- how it stands ----------------------------------------------------------------------------------------------

    def behind(self) -> int:
        """Return since when jobs are due here that are not claimed; -1 if no more could be; else 0."""
        for topic in list(self._late):
            if not topic.window.due and not topic.window.more:
                topic.behind = 0
            if not topic.behind:
                self._late.discard(topic)
        late = min((topic.behind for topic in self._late), default=0) or self._sealed.behind(self._clock.time())
        return late or -(not any(topic.begin for topic in self._topics.values()))

    def fed_still(self) -> set[Topic]:
        """Return the topics with jobs in their pools."""
        self._fed = {topic for topic in self._fed if topic.inside}
        return self._fed

    def due_again(self, now: float) -> list[float]:
        """Return in how many seconds jobs that are ready can be claimed."""
        left = self._max_bytes - self._leases.bytes
        topics = [self._topics[window.topic] for window in self._windows.ready]
        return [max(topic.again_at - now, 0.0) for topic in topics if topic.room(topic.retry_at, left) > 0]


def _waiting(window: Window) -> int:
    return window.waiting
