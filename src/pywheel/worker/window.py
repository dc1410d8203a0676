"""What a worker knows of one topic's jobs with one priority: those of the near future, and those that are due."""

from __future__ import annotations

from collections import deque
from typing import Final

from ..jobs.job import Due
from ..stores.contract import Span

__all__ = ["PAGE", "Window"]

PAGE: Final = 500  # jobs in one read: what is due meanwhile waits for some milliseconds at most
_START: Final = (-1, 0)
_LAST_ID: Final = 2**63 - 1


class Window:
    """What is known of one topic's jobs with one priority. `room` is how many jobs it may know."""

    __slots__ = (
        "_cursor",
        "aside",
        "forgotten",
        "full",
        "groups",
        "known",
        "lanes",
        "main",
        "on_trial",
        "priority",
        "queued",
        "read_at",
        "ready",
        "rescan_at",
        "room",
        "shards",
        "suspects",
        "topic",
    )

    def __init__(self, topic: str, room: int, main: Window | None = None, priority: int = 0) -> None:
        self.topic = topic
        self.room = room
        self.priority = priority
        self.main = main or self  # the topic's own
        self.lanes: list[Window] = [self]  # of the topic's own: all of them, the highest priority first
        self.aside: list[tuple[int, int, int]] = []  # due, but a limit of their group holds them: in order, ids last
        self.groups: dict[int, str] = {}  # of those that were set aside: the groups that were full
        self.forgotten: set[str | None] = set()  # groups of jobs that were set aside and are not known any more
        self.suspects: deque[int] = deque()  # those that wait for their trial; of all lanes, like what is aside
        self.on_trial: tuple[int, ...] = ()  # those of them that were taken last
        self.shards = 0
        self.known: dict[int, int] = {}  # id: handle in the wheel, or 0 once it is due
        self.ready: deque[int] = deque()  # ids that are due and not claimed, in order, and perhaps some that are not
        self.full = False  # the store has more than was read
        self.read_at = 0
        self.rescan_at = 0
        self.queued = False
        self._cursor = _START

    def again(self) -> None:
        """Read from the beginning at the next turn."""
        self._cursor = _START
        self.full = True
        self.rescan_at = 0

    @property
    def hungry(self) -> bool:
        """Whether there is more to be read, and room for it."""
        return self.full and 2 * len(self.known) < self.room

    def span(self, until: int) -> Span:
        """Return what is to be read next."""
        return Span(self.topic, self.shards, self._cursor, until, self.priority)

    def has_read(self, last: Due | None, until: int) -> None:
        """Note how far it was read: up to a job, after which there may be more, or all."""
        self.full = last is not None
        self._cursor = (until, _LAST_ID) if last is None else (last.due, last.id)

    def has_none_before(self, due: int) -> None:
        """Note that nothing more is due before that."""
        self._cursor = (due - 1, _LAST_ID)

    def covers(self, job: Due) -> bool:
        """Whether a job lies in what was read; otherwise it will be read."""
        return (job.due, job.id) <= self._cursor

    @property
    def waiting(self) -> int:
        """How many are ready in all lanes, or wait for their trial."""
        return self.at_hand + len(self.suspects)

    @property
    def due(self) -> int:
        """How many are due, in all lanes: also those that are set aside."""
        return self.waiting + len(self.aside)

    @property
    def at_hand(self) -> int:
        """How many are ready in all lanes."""
        return sum(len(lane.ready) for lane in self.lanes) if len(self.lanes) > 1 else len(self.ready)

    @property
    def more(self) -> bool:
        """Whether the store has more than was read, in any lane."""
        return self.full or any(lane.full for lane in self.lanes)

    def take(self, most: int, suspects: int) -> tuple[int, ...]:
        """Return ids that are due, no longer ready; they stay known until `settled` or `put_back`.

        Up to so many of them are suspects, which come first: they have waited for their turn.
        """
        ids: list[int] = []
        while self.suspects and len(ids) < min(suspects, most):
            id = self.suspects.popleft()
            if self.lane_of(id).known.get(id) == 0:
                ids.append(id)
        self.on_trial = tuple(ids)
        for lane in self.lanes:
            ready, known = lane.ready, lane.known
            while ready and len(ids) < most:
                id = ready.popleft()
                if known.get(id) == 0:  # not claimed, cancelled or moved meanwhile
                    ids.append(id)
        return tuple(ids)

    def lane_of(self, id: int) -> Window:
        """Return the lane that knows a job; the topic's own if none does."""
        if len(self.lanes) > 1:
            for lane in self.lanes:
                if id in lane.known:
                    return lane
        return self

    def settled(self, id: int) -> None:
        """Forget a job: it has been claimed, or is no longer to be had."""
        self.known.pop(id, None)

    def clear(self) -> None:
        """Know nothing."""
        self.known.clear()
        self.ready.clear()
        self.aside.clear()
        self.groups.clear()
        self.forgotten.clear()
        self.suspects.clear()
