"""The walk past full groups, asked and told by hand: it asks for no job in vain, and sees each that is due."""

import random
from collections import Counter
from itertools import count

import pytest

from pywheel.jobs.commands import Claim, Claimed, ClaimPolicy
from pywheel.jobs.job import Due
from pywheel.worker.limit_scan import LimitScan

WALL = 1_000_000  # ms
POLICY = ClaimPolicy(60_000, 3)


def look(scan, now):
    """Return the claim of the next look."""
    ids, after, limit, begin = scan.next_look(10, 4, now)
    return Claim("t", ids, POLICY, "w", begin, limit=limit, after=after)


def learn(scan, claim, now, left, full, *, soon=None):
    """Tell an outcome; all of `full` is of one group. Return whether to claim again at once."""
    outcome = Claimed([], 0, left, False, full=tuple((id, "g") for id in full), next=soon)
    wall = WALL + round(1000 * now)
    return scan.learn(claim, outcome, (wall, wall), now, now + 0.1)


def due(id, at=WALL):
    return Due(at, id, "t")


def test_a_held_job_that_is_due_later_by_now_is_asked_for_no_more():
    scan = LimitScan()
    assert not learn(scan, look(scan, 0), 0, [due(1)], [1])
    poll = look(scan, 1)
    assert poll.ids == (1,)
    assert not learn(scan, poll, 1, [due(1, WALL + 60_000)], [])
    assert scan.look_at() > 30
    assert look(scan, 2).ids == ()


def test_a_held_job_that_nobody_takes_though_its_group_has_a_place_is_asked_for_now_and_then():
    scan = LimitScan()
    assert not learn(scan, look(scan, 0), 0, [due(1)], [1])
    assert not learn(scan, look(scan, 1), 1, [due(1)], [])  # a rate holds it back, say
    assert 1 < scan.look_at() < 1.2
    assert look(scan, 1.2).ids == (1,)


def test_a_walk_of_several_pages_is_followed_by_a_look_at_what_became_due_since_its_first():
    scan = LimitScan()
    page = [due(id) for id in range(10)]
    assert learn(scan, look(scan, 0), 0, page, range(10), soon=WALL)
    assert learn(scan, look(scan, 0.01), 0.01, [], [])  # a peek
    assert learn(scan, look(scan, 0.02), 5, [due(10)], [10])
    assert look(scan, 5).after == (None, WALL, -1)
    assert not learn(scan, look(scan, 5), 5, [], [])
    assert look(scan, 5).after == (None, WALL + 5_000, -1)


def test_a_job_that_was_due_before_a_walk_began_and_comes_during_it_has_it_begin_again():
    scan = LimitScan()
    assert learn(scan, look(scan, 3), 3, [due(id) for id in range(10)], range(10), soon=WALL)
    scan.hint(WALL + 2_000)
    learn(scan, look(scan, 5), 5, [due(10)], [10])
    learn(scan, look(scan, 5), 5, [], [])
    assert scan.look_at() < 10


# ---- what nothing limits --------------------------------------------------------------------------------------------


class Line:
    """A dumb store under a limit of `most` jobs of each group, and a worker whose jobs all take some looks."""

    def __init__(self, concurrency, takes, most=1):
        self.scan = LimitScan()
        self._most = most
        self.now = 0.0
        self.waiting, self.started = [], []  # (-priority, due, id, group)
        self.passed = []  # jobs that came first in their group, each with one that began before it
        self._concurrency, self._takes = concurrency, takes
        self._running = []  # (look at which it ends, group)
        self._looks, self._ids = 0, count(1)

    @property
    def _wall(self):
        return WALL + round(1000 * self.now)

    def put(self, group, priority=0):
        one = (-priority, self._wall, next(self._ids), group)
        self.waiting.append(one)
        self.scan.hint(one[1])
        return one

    def step(self):
        """End jobs, and look once; each look takes 5 ms."""
        self._looks += 1
        ended = [group for at, group in self._running if at <= self._looks]
        self._running = [one for one in self._running if one[0] > self._looks]
        for group in filter(None, ended):
            self.scan.free(group)
        free, wall = self._concurrency - len(self._running), self._wall
        if free:
            ids, after, limit, begin = self.scan.next_look(free + 8, free, self.now)
            self.now += 0.005
            claim = Claim("t", ids, POLICY, "w", begin, limit=limit, after=after)
            self.scan.learn(claim, self._apply(claim), (wall, self._wall), self.now, self.now + 0.08)
        else:
            self.now += 0.005

    def _apply(self, claim):
        behind = sorted(one for one in self.waiting if one[2] in claim.ids or (not claim.ids and _behind(one, claim)))
        found, more = (behind, False) if claim.ids else (behind[: claim.limit], len(behind) > claim.limit)
        full, left, busy = [], [], Counter(group for _, group in self._running)
        jobs = []
        for one in found:
            rank, due, id, group = one
            if len(jobs) < claim.begin and not (group and busy[group] >= self._most):
                busy[group] += 1
                jobs.append(Due(due, id, "t", -rank))
                self.waiting.remove(one)
                self.started.append(one)
                self.passed += [(other, one) for other in self.waiting if self._passes(one, other)]
                self._running.append((self._looks + self._takes(), group))
                continue
            left.append(Due(due, id, "t", -rank))
            if len(jobs) < claim.begin:
                full.append((id, group))
        return Claimed(jobs, len(jobs), left, False, full=tuple(full), next=WALL if more else None)

    def _passes(self, one, other):
        """Whether a job passes another one of its group. An urgent one that was just put may not have been seen."""
        first = other < one and other[2] < one[2] and other[3] == one[3] is not None
        return first and (other[0] == one[0] or self._wall > other[1] + 100)


def _behind(one, claim):
    if claim.after is None:
        return True
    priority, *place = claim.after
    return [one[1], one[2]] > place if priority in (None, -one[0]) else -one[0] < priority


@pytest.mark.parametrize(
    ("groups", "concurrency", "takes"), [(1, 2, 4), (4, 8, 4), (20, 32, 4), (20, 32, 1), (300, 8, 4)]
)
def test_a_job_that_nothing_limits_starts_after_a_few_looks_whatever_the_backlog(groups, concurrency, takes):
    draw = random.Random(groups)
    line = Line(concurrency, takes=lambda: draw.randint(1, takes))
    for n in range(4_000):
        line.put(f"g{n % groups}")
    for _ in range(30):
        line.step()
    for _ in range(8):
        urgent = line.put(None, priority=9)
        for _ in range(20):  # two peeks, and the looks that follow them
            line.step()
            line.put(f"g{draw.randrange(groups)}")
        assert urgent in line.started
        assert len(line.waiting) > 500, "the backlog was gone: this showed nothing"


@pytest.mark.parametrize("concurrency", [2, 3])
@pytest.mark.parametrize("takes", [2, 4])
def test_urgent_jobs_that_find_no_free_handler_are_not_forgotten(concurrency, takes):
    draw = random.Random(0)
    line = Line(concurrency, takes=lambda: draw.randint(1, takes))
    for n in range(1_500):
        line.put(f"g{draw.randrange(4) if n >= 40 else 0}")
    for _ in range(60):
        line.step()
    urgent = {line.put(f"g{1 + n % 3}", priority=9) for n in range(20)}
    for _ in range(60):
        line.step()
    assert urgent.issubset(line.started)


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize(("groups", "concurrency"), [(1, 4), (4, 8), (4, 32), (20, 8), (20, 32), (100, 16)])
def test_jobs_of_a_group_start_in_order_where_places_of_many_groups_come_free_at_once(groups, concurrency, most):
    draw = random.Random(groups)
    line = Line(concurrency, takes=lambda: draw.randint(1, 4), most=most)
    for _ in range(1_500):
        line.put(f"g{min(draw.randrange(groups), draw.randrange(groups))}", draw.choice((0, 0, 0, 5)))
    for _ in range(400):
        line.step()
        if draw.random() < 0.3:
            line.put(f"g{draw.randrange(groups)}", draw.choice((0, 0, 0, 5, 9)))
    assert line.passed == []
    assert len(line.started) > 90


def test_a_new_job_that_a_peek_finds_is_asked_for_beside_the_first_of_each_group_with_a_place():
    scan = LimitScan()
    assert not learn(scan, look(scan, 0), 0, [due(1), due(2)], [1, 2])
    scan.free("g")
    peek = look(scan, 1)
    assert (peek.begin, peek.after) == (0, (None, WALL, -1))
    assert learn(scan, peek, 1, [due(9, WALL + 900)], [])
    both = look(scan, 1)
    assert both.ids == (1, 2, 9)
    assert not learn(scan, both, 1, [due(2), due(9, WALL + 900)], [2, 9])
    scan.free("g")
    assert look(scan, 1.01).ids == (2, 9)


def test_a_new_job_that_a_walk_comes_to_is_left_to_it():
    scan = LimitScan()
    assert learn(scan, look(scan, 0), 0, [due(id) for id in range(10)], range(10), soon=WALL)
    peek = look(scan, 1)
    assert learn(scan, peek, 1, [Due(WALL + 900, 20, "t", 9), due(21, WALL + 900)], [], soon=WALL)
    assert look(scan, 1).ids == (20,)


def test_a_new_job_that_finds_no_free_handler_is_found_again():
    scan = LimitScan()
    assert learn(scan, look(scan, 0), 0, [due(id) for id in range(10)], range(10), soon=WALL)
    urgent = Due(WALL + 900, 20, "t", 9)
    for now in range(1, 4):
        peek = look(scan, now)
        assert (peek.begin, peek.after) == (0, (None, WALL if now == 1 else urgent.due, -1))
        assert learn(scan, peek, now, [urgent], [])
        assert learn(scan, look(scan, now), now, [urgent], [])
