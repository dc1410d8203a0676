"""The walk through a backlog under a limit by groups: a worker looks past full groups, page by page, for other jobs.

The worker remembers the first jobs of each full group. When a place of the group is free, it claims them by their ids;
when they run out, it looks for more behind the last known ones, for all groups at once. Walks through a long backlog
take a fifth of the time at most. Between walks, the worker looks only at the jobs that became due since.

The jobs of a group begin in their order. So a look may begin jobs only while no group with a free place has earlier
ones that are known. Else it is a peek: it begins nothing, and the worker asks for the jobs that it finds by their ids,
beside the first jobs of the groups. A group whose first job found no free handler keeps its place for that one.

A walk, or groups whose places come free all the time, may keep the worker from the look at what became due since. Then
it peeks at that now and then. So new jobs do not wait for the backlog.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from itertools import islice, takewhile
from math import inf
from typing import Final

from ..jobs.commands import Claim, Claimed

_PAGE: Final = 500  # jobs looked at in one step, at most
_EACH: Final = 16  # remembered jobs of a group
_POLL: Final = 0.08  # seconds until the first jobs of groups are asked for again, if the store does not say when
_LATER: Final = 100  # ms by which due times may lie ahead that are put off only as somebody has the rows locked
_PAUSE: Final = (0.5, 4)  # after a walk of more than a page: seconds at least, and times as long as it took
_PEEK: Final = (0.05, 4)  # between peeks: seconds at least, and times as long as the last one took
_AGAIN: Final = 60.0  # seconds after which a walk begins in any case: hints on jobs that it passed may be lost

_Order = tuple[int, int, int]
"""The order of due jobs: negated priority, due time, id."""
_Look = tuple[tuple[int, ...], tuple[int | None, int, int] | None, int, int]
"""For a claim: ids, the position behind which to look, the number of jobs, how many of them may begin."""


class LimitScan:
    """A walk through the due jobs of a topic with a limit by groups. Only its topic uses it."""

    def __init__(self) -> None:
        self._freed: Counter[str] = Counter()  # by group: places that came free, or may be free
        self._held: dict[str, list[_Order]] = {}  # by group, the first jobs that it holds back, in order
        self._more: dict[str, _Order] = {}  # groups that hold back unknown jobs: all of these come behind this position
        self._poll_at = 0.0  # when to ask whether other workers have freed a place
        self._peek_at = 0.0  # when the next peek may begin
        self.restart()

    def restart(self) -> None:
        """Walk anew, as soon as possible: the known jobs may have changed."""
        self._held.clear()
        self._more.clear()
        self._freed.clear()
        self._found: list[_Order] = []  # jobs that a peek has found, to be asked for by their ids
        self._from: _Order | None = None  # where the last look began, if it was for groups that know too few jobs
        self._peeked = 0  # peeks have seen all jobs due before this that are not left to the walk, wall clock in ms
        self._floor: float = inf  # the negated priority from which on a peek has left jobs to the walk
        self._walking = True
        self._wanted = False  # whether a walk must begin soon: a due job may not have been seen
        self._after: _Order | None = None  # how far the walk has come
        self._size = 0  # jobs to look at next, at least
        self._began = 0.0  # when the walk began; 0 before its first look
        self._walked = 0  # jobs that the walk has seen
        self._since = 0  # the wall clock in ms at the walk's first page
        self._walk_at = 0.0  # when the next walk may begin
        self._again_at = 0.0  # when the next walk begins in any case
        self._seen = 0  # all jobs due before this have been looked at, wall clock in ms

    def pause(self, now: float) -> None:
        """Forget everything, and ask for nothing until a job is due, or a minute has passed."""
        self.restart()
        self._walking, self._again_at = False, now + _AGAIN

    def hint(self, due: int) -> None:
        """Take in that a job may be due at `due`."""
        self._wanted |= due <= (self._since if self._walking else self._seen)
        self._peeked = min(self._peeked, due)

    def free(self, group: str) -> None:
        """Take in that a job of a group has ended."""
        if group in self._held:
            self._freed[group] += 1

    def look_at(self) -> float:
        """Return when to claim next, apart from jobs that become due; monotonic clock."""
        if self._freed or self._walking or self._found:
            return 0.0
        poll = self._poll_at if self._held else inf
        return min(poll, self._walk_at if self._wanted else self._again_at)

    # ---- asking -----------------------------------------------------------------------------------------------------

    def next_look(self, most: int, begin: int, now: float) -> _Look:
        """Return the next look: certain ids, or `most` jobs, or more than that during a walk.

        `begin`: how many jobs may begin. A peek begins none.
        """
        if (self._freed or self._after) and (not self._found or self._from is None) and now >= self._peek_at:
            self._peek_at = now
            return (), (None, max(self._since if self._after else self._seen, self._peeked), -1), _PAGE, 0
        if not self._freed and not self._walking and self._held and now >= self._poll_at:
            # Ask for the first job of each group: another worker may have freed a place. Many groups take turns.
            for group in list(islice(self._held, _PAGE)):
                self._held[group] = self._held.pop(group)
                self._freed[group] = 0
        # One more than there are places shows whether the group is full then.
        ids = [id for group, count in self._freed.items() for *_, id in self._held[group][: count + 1]]
        first = self._first_unknown()
        if first is not None and not self._found:
            self._from = first
            return (), _place(first), min(max(self._size, 2 * _EACH), _PAGE), 0 if ids else begin
        ids += [id for *_, id in self._found]
        if ids:
            return tuple(dict.fromkeys(ids)), None, 0, begin
        if not self._walking and now >= (self._walk_at if self._wanted else self._again_at):
            self._begin(now)
        if self._walking:
            self._began = self._began or now
            return (), self._after and _place(self._after), min(max(self._size, most), _PAGE), begin
        return (), (None, self._seen, -1), most, begin

    def _first_unknown(self) -> _Order | None:
        """Return the position behind which groups that know too few jobs for their places have others.

        Drop found jobs before which there may be some of these.
        """
        freed, held = self._freed, self._held
        first = min(
            (self._more[one] for one in freed.keys() & self._more if len(held[one]) < (freed[one] or 1)), default=None
        )
        if first is None:
            return None
        first = min(first, self._after or first)  # ahead of the walk, earlier ones may have come since
        if self._from is None:
            self._peeked = min([self._peeked, *(due for rank, due, id in self._found if (rank, due, id) > first)])
            self._found = [one for one in self._found if one <= first]
        elif self._from > first:
            self._found = []
        return first

    def _begin(self, now: float) -> None:
        self._walking, self._wanted, self._after, self._size = True, False, None, 0
        self._began, self._walked = now, 0

    # ---- learning ---------------------------------------------------------------------------------------------------

    def learn(self, claim: Claim, outcome: Claimed, walls: tuple[int, int], now: float, again: float | None) -> bool:
        """Take in an outcome; return whether to claim again at once. `TopicState.learn` explains the arguments."""
        looked = [(-job.priority, job.due, job.id) for job in outcome.jobs]
        looked += [(-due.priority, due.due, due.id) for due in outcome.left]
        looked.sort()
        if not claim.begin and self._from is None:
            self._learn_of_peek(claim, looked, walls[0], now)
            return True
        if not claim.begin and looked:
            self._found = looked
            return True
        full, freed = dict(outcome.full), list(self._freed)
        for group in full.values():
            self._freed.pop(group, None)
        if full and again is not None:
            self._poll_at = again
        if claim.ids:
            # No handler was free, or a rate held back all: then the freed groups keep their places.
            stopped = len(outcome.jobs) >= claim.begin or (again is not None and not full)
            self._learn_of_ids(claim, outcome, freed, walls[1], stopped=stopped)
            if not full:
                self._poll_at = now + _POLL
        if claim.ids or self._from is not None:
            self._learn_of_found(self._found if claim.ids else looked, outcome, full, walls[1])
            return bool(self._freed) or self._walking
        for one in looked:
            if one[2] in full:
                self._hold(full[one[2]], one)
        return self._learn_of_walk(claim, outcome, looked, walls, now)

    def _learn_of_walk(
        self, claim: Claim, outcome: Claimed, looked: list[_Order], walls: tuple[int, int], now: float
    ) -> bool:
        wall, soon = walls[0], outcome.next is not None and outcome.next <= walls[1]
        stopped = len(outcome.left) > len(outcome.full)  # no handler is free, or a rate holds jobs back
        if not self._walked:
            self._since = wall
        if stopped:
            return self._walking
        self._walked += len(looked)
        on = bool(looked) and (soon or len(looked) >= claim.limit)  # there is more
        if on and self._walking:
            if self._after is None:
                self._floor = inf  # the walk comes to the jobs that earlier peeks have left
            self._after = looked[-1]
            self._size = 0 if outcome.jobs else 4 * len(looked)
        elif on:
            self._begin(now)  # more has become due than one look shows
        else:
            self._end(wall, now)
            return self._seen < wall  # to what became due during the walk, maybe of a priority that it had passed
        return on

    def _learn_of_ids(self, claim: Claim, outcome: Claimed, freed: list[str], wall: int, *, stopped: bool) -> None:
        # A job that is due later by now was put off, or has failed: it is found again when it is due.
        left, begun = {due.id for due in outcome.left if due.due <= wall + _LATER}, {job.id for job in outcome.jobs}
        asked = set(claim.ids)
        for group in freed:
            known = self._held[group]
            mine = asked.intersection([id for *_, id in known])
            self._held[group] = kept = [one for one in known if one[2] not in mine or one[2] in left]
            if not kept and group not in self._more:
                del self._held[group], self._freed[group]
            elif mine and group in self._freed:
                count = self._freed.pop(group) - len(mine & begun)
                if count < 0 or (count and (stopped or mine.isdisjoint(left))):
                    self._freed[group] = max(count, 0)  # there may be more places

    def _learn_of_peek(self, claim: Claim, looked: list[_Order], wall: int, now: float) -> None:
        # The walk comes to jobs that are behind it by itself. Before these, there may be unknown jobs of their groups.
        floor = self._floor if self._after is None else min(self._floor, self._after[0])
        if len(looked) >= claim.limit and looked[-1][0] < floor:
            self._floor = floor = looked[-1][0]
            self._wanted = True
        self._found = [one for one in looked if one[0] < floor]
        self._peeked = wall
        least, times = _PEEK
        self._peek_at = now + max(least, times * (now - self._peek_at))

    def _learn_of_found(self, found: list[_Order], outcome: Claimed, full: dict[int, str], wall: int) -> None:
        """Take in what a claim did with the jobs that it, or the peek before it, has found."""
        start, self._from, self._found = self._from, None, []
        # No handler is free, or a rate holds them back.
        left = {due.id for due in outcome.left if due.due <= wall + _LATER}.difference(full)
        if start is None:
            self._found = [one for one in found if one[2] in left]
            self._peeked = min([self._peeked, *(due for _, due, _ in self._found)])  # the next peek finds them as well
        else:
            found, none = list(takewhile(lambda one: one[2] not in left, found)), not found
            if found and self._after is not None and self._after >= start:
                self._after, self._walked = max(self._after, found[-1]), self._walked + len(found)
            for group in [group for group, more in self._more.items() if more >= start]:
                if found:
                    self._more[group] = max(self._more[group], found[-1])
                elif none:
                    del self._more[group]
                    if not self._held[group]:
                        del self._held[group], self._freed[group]
            self._size = 0 if outcome.jobs or none else 4 * max(self._size, _EACH)
        for one in found:
            if one[2] in full:
                self._hold(full[one[2]], one)

    def _hold(self, group: str, one: _Order) -> None:
        if group in self._more and one > self._more[group]:
            return
        known = self._held.setdefault(group, [])
        if one not in known:
            insort(known, one)
        if len(known) > _EACH:
            known.pop()
            self._more[group] = known[-1]

    def _end(self, wall: int, now: float) -> None:
        """Take in that a look has reached the end of the due jobs."""
        self._seen = self._since if self._walking else wall
        if self._walking:
            took = now - self._began
            least, times = _PAUSE
            # After a short walk no pause, however long it took: the store may be slow in general.
            self._walk_at = now if self._walked <= _PAGE else now + max(least, times * took)
            self._again_at = now + max(_AGAIN, times * took)
        self._walking, self._after, self._size = False, None, 0
        self._peeked, self._floor = 0, inf


def _place(one: _Order) -> tuple[int, int, int]:
    """Return a position as a claim takes it."""
    rank, due, id = one
    return -rank, due, id
