"""What a limit by groups holds back: a worker looks past it, page by page through the backlog, for what can begin.

The first jobs of each group that is full stay known. When a place of their group is free, they are asked for by their
ids; where they run out, the next of their group are looked for behind the last that was known. A walk through a long
backlog takes a fifth of the time at most. Between walks, what has become due since is looked at alone.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from itertools import islice
from math import inf
from typing import Final

from ..jobs.commands import Claim, Claimed

__all__ = ["LimitScan"]

_PAGE: Final = 500  # jobs that are looked at in one step at most
_EACH: Final = 16  # jobs of a group that stay known
_PAUSE: Final = (0.5, 4)  # after a walk of more than a page: seconds at least, and times as long as it took
_AGAIN: Final = 60.0  # seconds after which a walk begins in any case: what is due behind it may not have been told

_Order = tuple[int, int, int]
"""What due jobs are ordered by: priority, negated, due time and id."""
_Look = tuple[tuple[int, ...], tuple[int | None, int, int] | None, int]
"""Ids, position and number for a claim."""


class LimitScan:
    """A walk through the due jobs of a topic with a limit by groups. Only its topic uses it."""

    def __init__(self) -> None:
        self._freed: Counter[str] = Counter()  # by group: places that came free, or may be free
        self._held: dict[str, list[_Order]] = {}  # by group, the first that it holds back, in order
        self._more: dict[str, _Order] = {}  # groups that hold back more than are known: all of those come behind this
        self._filling: str | None = None  # the group whose next jobs were asked for
        self._poll_at = 0.0  # when to ask whether others have freed a place
        self.restart()

    def restart(self) -> None:
        """Walk anew, as soon as may be: what was known may not hold any more."""
        self._held.clear()
        self._more.clear()
        self._freed.clear()
        self._filling = None
        self._walking = True
        self._wanted = False  # whether a walk is to begin: something may be due that was not seen
        self._after: tuple[int | None, int, int] | None = None  # how far the walk has come
        self._size = 0  # jobs to look at next, at least
        self._began = 0.0  # when it began; 0 until it has
        self._walked = 0  # jobs that it has seen
        self._walk_at = 0.0  # when the next walk may begin
        self._again_at = 0.0  # and when it does in any case
        self._seen = 0  # all that was due before this has been looked at, ms

    def pause(self, now: float) -> None:
        """Forget everything, and ask for nothing until something is due."""
        self.restart()
        self._walking, self._again_at = False, now + _AGAIN

    def hint(self, due: int) -> None:
        """Take in that a job may be due then."""
        self._wanted |= due <= self._seen

    def free(self, group: str) -> None:
        """Take in that a job of a group has ended."""
        if group in self._held:
            self._freed[group] += 1

    def look_at(self) -> float:
        """Return when there is something to be asked for, besides what becomes due."""
        if self._freed or self._walking:
            return 0.0
        poll = self._poll_at if self._held else inf
        return min(poll, self._walk_at if self._wanted else self._again_at)

    # ---- asking -----------------------------------------------------------------------------------------------------

    def next_look(self, most: int, now: float) -> _Look:
        """Return what to ask for next, at least so many."""
        if not self._freed and not self._walking and self._held and now >= self._poll_at:
            # The first of each group: another worker may have freed a place. Of many groups, in turn.
            for group in list(islice(self._held, _PAGE)):
                self._held[group] = self._held.pop(group)
                self._freed[group] = 0
        ids: list[int] = []
        for group, count in self._freed.items():
            known = self._held.get(group, [])
            if group in self._more and len(known) <= count:
                return self._fill(group)
            ids += [id for *_, id in known[: count + 1]]  # one more says whether it is full then
        self._freed.clear()
        if ids:
            return tuple(ids), None, 0
        if not self._walking and now >= (self._walk_at if self._wanted else self._again_at):
            self._begin(now)
        if self._walking:
            self._began = self._began or now
            return (), self._after, min(max(self._size, most), _PAGE)
        return (), (None, self._seen, -1), most

    def _fill(self, group: str) -> _Look:
        """Return what to ask for to know the next jobs of a group: with those that are known, which come first."""
        self._filling = group
        known = self._held[group]
        rank, due, id = known[0] if known else self._more[group]
        return (), (-rank, due, id - bool(known)), min(max(self._size, _EACH + 1), _PAGE)

    def _begin(self, now: float) -> None:
        self._walking, self._wanted, self._after, self._size = True, False, None, 0
        self._began, self._walked = now, 0

    # ---- learning ---------------------------------------------------------------------------------------------------

    def learn(self, claim: Claim, outcome: Claimed, walls: tuple[int, int], now: float, again: float | None) -> bool:
        """Take in an outcome; return whether to ask at once. `Topic.learn` says what the rest is."""
        full = dict(outcome.full)
        if full and again is not None:
            self._poll_at = again
        if claim.ids:
            self._learn_of_ids(claim, outcome, full)
            return bool(self._freed) or self._walking
        stopped = any(due.id not in full for due in outcome.left)  # no handler is free, or a rate holds them
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
        return on

    def _learn_of_ids(self, claim: Claim, outcome: Claimed, full: dict[int, str]) -> None:
        left, asked = {due.id for due in outcome.left}, set(claim.ids)
        for group, known in list(self._held.items()):
            mine = {id for *_, id in known} & asked
            if mine:
                self._held[group] = [one for one in known if one[2] not in mine or one[2] in left]
                if not self._held[group] and group not in self._more:
                    del self._held[group]
                elif mine.isdisjoint(full):
                    self._freed[group] += 1  # it may have more places

    def _filled(
        self, held: list[tuple[str, _Order]], begun: set[int], last: _Order | None, *, stopped: bool, on: bool
    ) -> None:
        """Take in a look for the next jobs of a group."""
        group, self._filling = self._filling, None
        assert group is not None
        self._held[group] = [one for one in self._held[group] if stopped and one[2] not in begun]
        if not stopped:
            del self._more[group]
        for name, one in held:
            if name != group or not stopped:  # then some of the others may be of this group, before it
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
        """Take in that a look has come to the end of what is due."""
        self._seen = wall
        if self._walking:
            took = now - self._began
            least, times = _PAUSE
            # However long it took: a slow store may have been slow at anything.
            self._walk_at = now if self._walked <= _PAGE else now + max(least, times * took)
            self._again_at = now + max(_AGAIN, times * took)
        self._walking, self._after, self._size = False, None, 0
