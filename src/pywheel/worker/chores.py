"""The chores of a worker: look at the other workers, prune finished jobs, count ends, watch the clock.

Pruning has transactions of its own. No ack waits for it, and it rests for longer than its steps take.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Final

from .._errors import BadOption, StoreError
from ..clock import Clock
from ..jobs.commands import Purge, SetNote
from ..jobs.durations import KEEP_DEAD, Duration, duration
from ..jobs.ends import FIVE, HOUR, Ends, ends_note
from ..jobs.job import State
from ..jobs.queries import Member
from ..stores.contract import Store, intact, notes
from ..stores.notifier import OVERLOOKED, Notifier, Spare, waiters, workers
from ..stores.ownership import owners, shards_of
from ..stores.schedule_notes import TOPIC as PLANNER
from .topic_state import TopicState

_OVERDUE: Final = 250
"""ms after which any worker with room takes the due job of an owner without room."""
_BESIDE: Final = 0.25  # seconds between looks at the other workers, if there are any
_ALONE: Final = 1.0  # the same if there are none
_GONE: Final = 1.25  # times the notifier's `silent`: after such a silence a worker's shards go to the others
_RECOVERY: Final = ""  # the topic whose first shard's owner ends lost leases for all
_PRUNED: Final = 200  # jobs that are pruned in one step, some 2 ms
_SHARE: Final = 4  # times as long as a step took is the pause after it, at least
_PAUSE: Final = 10  # ms of that pause, at least, while there are more jobs to prune
_ROUND: Final = (250, 30_000)  # ms between looks with nothing more to prune: a tenth of `keep`, within these bounds
_OTHERS: Final = 10  # times as long between looks of a worker that is not in charge
_BUSY: Final = 2_000  # ms for which pruning waits while jobs are overdue
_KEEPS: Final = "keep:"
_SAID: Final = 600_000  # ms between two notes of a worker's `keep`
_LOOKED: Final = 1_000  # ms between looks at the notes of the others
_KNOWN: Final = 3_600_000  # ms for which such a note counts, if its worker is killed
_KEPT_EVERY: Final = 30_000  # ms between two notes of a worker's counts of ends
_TOLERANCE: Final = 0.05  # seconds: a smaller step of the wall clock is ignored, as it does no harm


class Membership:
    """The workers of the store, as this one sees them: its own slices of time, and overdue jobs of others."""

    def __init__(self, notifier: Notifier, topics: Collection[str]) -> None:
        self._notifier = notifier
        self._topics = frozenset(topics)
        self.look_at = 0.0
        self.alive = 0.0
        """When this worker last sent a sign of life, or was known to have sent one a moment before."""
        self._members: tuple[Member, ...] = ()
        self.waiters: dict[str, list[str]] = {}
        """By topic, the clients that wait for the ends of its jobs."""
        self._first: int | None = None  # when the first job of topics with room is due, if the last beat has asked
        self._there: dict[str, frozenset[str]] = {}  # by worker that is not gone, also this one: its topics
        self.recovers = False
        """Whether this worker is in charge of ending the leases that are over."""

    def look(self, now: float, behind: int, spare: Spare = tuple) -> bool:
        """Send a sign of life, and read those of the others; return whether workers or topics have changed."""
        self._first = self._notifier.beat(behind, spare)
        self.alive = now
        members = self._notifier.members()
        self._members = tuple(workers(members))
        self.waiters = waiters(members) if len(members) > len(self._members) else {}
        me = self._notifier.worker
        longest = _GONE * self._notifier.silent
        there = {m.worker: m.topics for m in self._members if m.silent <= longest or m.worker == me}
        there[me] = self._topics
        self.look_at = now + (_ALONE if len(there) == 1 and not self.waiters else _BESIDE)
        if there == self._there:
            return False
        # The store's record of this worker itself may be old.
        quiet = {m.worker for m in self._members if m.quiet and m.worker != me}
        self.recovers = owners(_RECOVERY, there.keys() - quiet)[0] == me
        self._there = there
        return True

    def confirm(self, behind: int, spare: Spare) -> bool:
        """Send a sign of life; return whether the store knows this worker, so that a pause waits for it."""
        self._first = self._notifier.beat(behind, spare)
        return any(member.worker == self._notifier.worker for member in self._notifier.members())

    def again(self) -> None:
        """Have the next look return True."""
        self._there = {}

    def shards(self, topic: str) -> int:
        """Return the mask of this worker's shards of a topic."""
        return shards_of(
            self._notifier.worker, topic, [name for name, topics in self._there.items() if topic in topics]
        )

    def some_overdue(self, now: int) -> bool:
        """Whether jobs are overdue that other workers have no room for, or that no worker seems to know."""
        if self._first is not None and self._first <= now - OVERLOOKED:
            return True
        me = self._notifier.worker
        return any(0 < member.behind < now - _OVERDUE for member in self._members if member.worker != me)

    @property
    def missed(self) -> bool:
        """Whether the store does not know this worker any more."""
        return all(member.worker != self._notifier.worker for member in self._members)


def retention(keep: Duration | None) -> dict[State, int]:
    """Return by state for how many ms ended jobs are kept: dead ones for KEEP_DEAD, or `keep` if that is longer."""
    return {} if keep is None else _kept(duration(keep, "keep", error=BadOption))


def _kept(keep: int) -> dict[State, int]:
    return {State.DONE: keep, State.CANCELLED: keep, State.DEAD: max(keep, duration(KEEP_DEAD, "keep"))}


class Pruning:
    """The pruning of finished jobs, some rows at a time.

    If the workers of a store differ, the longest `keep` counts: each worker leaves a note of its own until it drains.
    """

    def __init__(self, store: Store, worker: str, kept: dict[State, int]) -> None:
        self._store = store
        self._note = _KEEPS + worker[-100:]
        self._own = kept
        self._kept: dict[State, int] = {}  # as all notes say; prunes nothing before they are read
        self._rounds = {state: min(max(keep // 10, _ROUND[0]), _ROUND[1]) for state, keep in kept.items()}
        self._busy_since: int | None = None
        self._at: dict[State, int] = {}
        self._say_at = self._look_at = 0
        self.again()

    @property
    def due_at(self) -> int:
        """Return when to call `work`, wall clock in ms."""
        return min([self._say_at, *self._at.values()])

    def work(self, now: int, *, busy: bool, in_charge: bool) -> None:
        """Prune some jobs, if it is time to. While jobs are overdue, pruning waits, but not for ever. StoreError."""
        due = [state for state, at in self._at.items() if now >= at]
        if now >= self._say_at:
            intact(self._store.apply([self.begin()]))
            self.begun(now)
        if not busy:
            self._busy_since = None
        elif due:
            self._busy_since = now if self._busy_since is None else self._busy_since
            if now - self._busy_since < _BUSY:
                self._at.update(dict.fromkeys(due, now + _ROUND[0]))
                return
        if not due:
            return
        if now >= self._look_at:
            self._look(now)
        state = min(due, key=self._at.__getitem__)
        if state not in self._kept:  # a worker keeps them for ever
            self._at[state] = now + self._rounds[state]
            return
        self._at[state] = now + self._rounds[state] * (1 if in_charge else _OTHERS)
        began = self._store.clock.time()
        [pruned] = self._store.apply([Purge(state, self._kept[state], None, _PRUNED)])
        took = self._store.clock.time() - began
        more = isinstance(pruned, StoreError) or pruned >= _PRUNED
        self._at[state] = max(now + _PAUSE if more else self._at[state], now + round(_SHARE * took * 1000))

    def _look(self, now: int) -> None:
        """Read the notes of all workers."""
        keeps = [value for _, value in notes(self._store, _KEEPS)]
        self._kept = {} if not keeps or b"" in keeps else _kept(max(map(int, keeps)))
        self._look_at = now + _LOOKED

    def begin(self) -> SetNote:
        """Return the command that notes this worker's `keep` for an hour."""
        return SetNote(self._note, b"%d" % self._own[State.DONE] if self._own else b"", _KNOWN)

    def begun(self, now: int) -> None:
        """Take in that the store has applied `begin`."""
        self._say_at = now + _SAID

    def end(self) -> SetNote:
        """Return the command that deletes this worker's note."""
        return SetNote(self._note, None)

    def again(self) -> None:
        """Look anew at a random time of a round: many workers may begin together, or see the same step of the clock."""
        now = self._store.clock.wall()
        self._say_at = self._look_at = now
        self._at = {state: now + round(random.random() * between) for state, between in self._rounds.items()}


class EndsKept:
    """The counts of ends of this worker's jobs, for charts: a small note in the store now and then."""

    def __init__(self, store: Store, worker: str, topics: Mapping[str, TopicState]) -> None:
        self._store = store
        self._worker = worker
        self._topics = [topic for name, topic in topics.items() if name != PLANNER]
        self._hour = 0
        self._slots: dict[str, dict[int, Ends]] = {}  # of the hour: counts by topic and five minutes
        self._changed = False  # whether the store does not have all of these
        self._at: int | None = None

    def work(self, now: int, *, last: bool = False) -> None:
        """Store new counts, if it is time to, or at the end. Counts that the store refuses go with the next ones."""
        if self._at is None:  # not right after the first claim
            self._at = now + _KEPT_EVERY
        if not last and 0 <= self._at - now <= _KEPT_EVERY:
            return
        self._at = now + _KEPT_EVERY
        if now // HOUR != self._hour:
            self._hour, self._slots, self._changed = now // HOUR, {}, False
        news = [(topic.name, topic.take()) for topic in self._topics]
        for name, ends in news:
            if any(ends):
                slots, slot = self._slots.setdefault(name, {}), now - now % FIVE
                slots[slot] = slots.get(slot, Ends()).plus(ends)
                self._changed = True
        if self._changed:
            self._store.apply([ends_note(self._worker, now, self._slots)])
            self._changed = False


class ClockSteps:
    """The steps of the wall clock between two looks, measured by the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = self._read()

    def look(self) -> float:
        """Return the seconds of a step since the last look; 0 if there was none."""
        low, high = self._offset
        self._offset = self._read()
        step = max(self._offset[0] - high, 0.0) - max(low - self._offset[1], 0.0)
        return step if abs(step) > _TOLERANCE else 0.0

    def _read(self) -> tuple[float, float]:
        """Return bounds of wall clock minus monotonic clock, in seconds, true also after a pause between readings."""
        before = self._clock.time()
        wall = self._clock.wall()
        after = self._clock.time()
        return wall / 1000 - after, (wall + 1) / 1000 - before
