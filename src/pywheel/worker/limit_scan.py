"""The walk through a backlog under a limit by groups: a worker looks past full groups, page by page, for other jobs.

The worker remembers the first jobs of each full group. When a place of the group is free, it claims them by their ids;
when they run out, it looks for the next of the group behind the last known one. Walks through a long backlog take a
fifth of the time at most. Between walks, the worker looks only at the jobs that became due since.

A walk, or groups whose places come free all the time, may keep the worker from that look. Then it peeks now and then:
it looks at what became due since, begins nothing, and asks for these jobs by their ids, beside the first jobs of the
groups. So new jobs do not wait for the backlog, and overtake no group that this worker has freed.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from itertools import islice
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
        self._filling: str | None = None  # the group whose next jobs the last look asked for
        self._poll_at = 0.0  # when to ask whether other workers have freed a place
        self._peek_at = 0.0  # when the next peek may begin
        self.restart()

    def restart(self) -> None:
        """Walk anew, as soon as possible: the known jobs may have changed."""
        self._held.clear()
        self._more.clear()
        self._freed.clear()
        self._filling = None
        self._new: list[_Order] = []  # jobs that a peek has found, to be asked for by their ids
        self._peeked = 0  # peeks have seen all jobs due before this that are not left to the walk, wall clock in ms
        self._floor: float = inf  # the negated priority from which on a peek has left jobs to the walk
        self._walking = True
        self._wanted = False  # whether a walk must begin soon: a due job may not have been seen
        self._after: tuple[int | None, int, int] | None = None  # how far the walk has come
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
        if self._freed or self._walking or self._new:
            return 0.0
        poll = self._poll_at if self._held else inf
        return min(poll, self._walk_at if self._wanted else self._again_at)

    # ---- asking -----------------------------------------------------------------------------------------------------

    def next_look(self, most: int, begin: int, now: float) -> _Look:
        """Return the next look: certain ids, or `most` jobs, or more than that during a walk.

        `begin`: how many jobs may begin. A peek begins none.
        """
        if (self._freed or self._after) and not self._new and now >= self._peek_at:
            self._peek_at = now
            return (), (None, max(self._since if self._after else self._seen, self._peeked), -1), _PAGE, 0
        if not self._freed and not self._walking and self._held and now >= self._poll_at:
            # Ask for the first job of each group: another worker may have freed a place. Many groups take turns.
            for group in list(islice(self._held, _PAGE)):
                self._held[group] = self._held.pop(group)
                self._freed[group] = 0
        ids, lacking = list[int](), dict[str, int]()  # groups of which more jobs must be known for their places
        for group, count in self._freed.items():
            known = self._held.get(group, [])
            if group in self._more and len(known) <= count:
                lacking[group] = count
            ids += [id for *_, id in known[: count + 1]]  # one more shows whether the group is full then
        found, first = self._new, min((self._more[group] for group in lacking), default=None)
        self._new = [one for one in found if first is None or one < first]  # others may belong to a lacking group
        self._peeked = min([self._peeked, *(due for _, due, _ in found[len(self._new) :])])
        if lacking and not self._new:
            return (*self._fill(next(iter(lacking))), begin)
        ids += [id for *_, id in self._new]
        self._freed = Counter(lacking)
        if ids:
            return tuple(dict.fromkeys(ids)), None, 0, begin
        if not self._walking and now >= (self._walk_at if self._wanted else self._again_at):
            self._begin(now)
        if self._walking:
            self._began = self._began or now
            return (), self._after, min(max(self._size, most), _PAGE), begin
        return (), (None, self._seen, -1), most, begin

    def _fill(self, group: str) -> tuple[tuple[int, ...], tuple[int, int, int], int]:
        """Return the look that finds the next jobs of a group, from its first known job on."""
        self._filling = group
        known = self._held[group]
        rank, due, id = known[0] if known else self._more[group]
        return (), (-rank, due, id - bool(known)), min(max(self._size, _EACH + 1), _PAGE)

    def _begin(self, now: float) -> None:
        self._walking, self._wanted, self._after, self._size = True, False, None, 0
        self._began, self._walked = now, 0

    # ---- learning ---------------------------------------------------------------------------------------------------

    def learn(self, claim: Claim, outcome: Claimed, walls: tuple[int, int], now: float, again: float | None) -> bool:
        """Take in an outcome; return whether to claim again at once. `TopicState.learn` explains the arguments."""
        if not claim.begin:
            self._learn_of_peek(claim, outcome, walls[0], now)
            return True
        full = dict(outcome.full)
        if full and again is not None:
            self._poll_at = again
        if claim.ids:
            self._learn_of_ids(claim, outcome, full, walls[1], now)
            self._learn_of_new(outcome, full)
            return bool(self._freed) or self._walking
        stopped = any(due.id not in full for due in outcome.left)  # no handler is free, or a rate holds jobs back
        looked = [(-job.priority, job.due, job.id) for job in outcome.jobs]
        looked += [(-due.priority, due.due, due.id) for due in outcome.left]
        soon = outcome.next is not None and outcome.next <= walls[1]
        on = bool(looked) and not stopped and (soon or len(looked) >= claim.limit)  # there is more
        held = [(full[due.id], (-due.priority, due.due, due.id)) for due in outcome.left if due.id in full]
        if self._filling is not None:
            begun = {job.id for job in outcome.jobs}
            self._filled(held, begun, max(looked, default=None), stopped=stopped, on=on)
            return bool(self._freed) or self._walking
        for group, one in held:
            self._hold(group, one)
        if not self._walked:
            self._since = walls[0]
        if stopped:
            return self._walking
        self._walked += len(looked)
        if on and self._walking:
            rank, due, id = max(looked)
            self._after = (-rank, due, id)
            self._size = 0 if outcome.jobs else 4 * len(looked)
        elif on:
            self._begin(now)  # more has become due than one look shows
        else:
            self._end(walls[0], now)
            return self._seen < walls[0]  # to what became due during the walk, maybe of a priority that it had passed
        return on

    def _learn_of_ids(self, claim: Claim, outcome: Claimed, full: dict[int, str], wall: int, now: float) -> None:
        if not full:
            self._poll_at = now + _POLL
        # A job that is due later by now was put off, or has failed: it is found again when it is due.
        left, asked = {due.id for due in outcome.left if due.due <= wall + _LATER}, set(claim.ids)
        for group, known in list(self._held.items()):
            mine = {id for *_, id in known} & asked
            if mine:
                self._held[group] = kept = [one for one in known if one[2] not in mine or one[2] in left]
                if not kept and group not in self._more:
                    del self._held[group]
                elif mine.isdisjoint(full) and len(kept) < len(known):
                    self._freed[group] += 1  # the group may have more places

    def _learn_of_peek(self, claim: Claim, outcome: Claimed, wall: int, now: float) -> None:
        looked = [(-due.priority, due.due, due.id) for due in outcome.left]
        # The walk comes to jobs that are behind it by itself. Before these, there may be unknown jobs of their groups.
        floor = self._floor if self._after is None else min(self._floor, -(self._after[0] or 0))
        if len(looked) >= claim.limit and looked[-1][0] < floor:
            self._floor = floor = looked[-1][0]
            self._wanted = True
        self._new = [one for one in looked if one[0] < floor]
        self._peeked = wall
        least, times = _PEEK
        self._peek_at = now + max(least, times * (now - self._peek_at))

    def _learn_of_new(self, outcome: Claimed, full: dict[int, str]) -> None:
        new, self._new = self._new, []
        left = {due.id for due in outcome.left}
        for one in new:
            if one[2] in full:
                self._hold(full[one[2]], one)
            elif one[2] in left:  # no handler is free, or a rate holds it back: a later peek finds it again
                self._peeked = min(self._peeked, one[1])

    def _filled(
        self, held: list[tuple[str, _Order]], begun: set[int], last: _Order | None, *, stopped: bool, on: bool
    ) -> None:
        """Take in the outcome of a look for the next jobs of a group."""
        group, self._filling = self._filling, None
        assert group is not None
        self._held[group] = [one for one in self._held[group] if stopped and one[2] not in begun]
        if not stopped:
            del self._more[group]
        for name, one in held:
            if name != group or not stopped:  # if stopped, earlier jobs of this group may not have been seen
                self._hold(name, one)
        if stopped:
            return
        if on and last is not None:
            self._more.setdefault(group, last)
        if self._held[group]:
            self._freed[group] = self._size = 0
        elif group in self._more:
            self._size = 4 * max(self._size, _EACH)
        else:
            del self._held[group], self._freed[group]

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
