"""The walk past full groups, asked and told by hand: it asks for no job in vain, and sees each that is due."""

from pywheel.jobs.commands import Claim, Claimed, ClaimPolicy
from pywheel.jobs.job import Due
from pywheel.worker.limit_scan import LimitScan

WALL = 1_000_000  # ms
POLICY = ClaimPolicy(60_000, 3)


def look(scan, now):
    """Return the claim of the next look."""
    ids, after, limit = scan.next_look(10, now)
    return Claim("t", ids, POLICY, "w", 4, limit=limit, after=after)


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
    assert learn(scan, look(scan, 5), 5, [due(10)], [10])
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
