"""The owners of shards: all workers have equal parts, and few shards move."""

from secrets import token_hex

import pytest

from pywheel.jobs.job import SHARDS
from pywheel.stores import Member
from pywheel.stores.ownership import owners, shards_of

CREWS = [1, 2, 3, 5, 8, 12, 16, 24, 31, 32, 33, 100]


def crew(size):
    return [f"w@{token_hex(4)}" for _ in range(size)]


@pytest.mark.parametrize("size", CREWS)
def test_every_shard_has_one_owner_and_the_parts_of_a_crew_differ_by_one_shard_at_most(size):
    for _ in range(10):
        workers = crew(size)
        table = owners("t", workers)
        parts = [table.count(worker) for worker in workers]
        assert sum(parts) == SHARDS == len(table)
        assert max(parts) - min(parts) <= 1
    masks = [shards_of(worker, "t", workers) for worker in workers]
    assert masks == [sum((one == worker) << shard for shard, one in enumerate(table)) for worker in workers]


def test_the_order_of_the_workers_does_not_matter():
    workers = crew(7)
    assert owners("t", workers) == owners("t", workers[::-1])


@pytest.mark.parametrize("size", [2, 3, 8, 16, 33])
def test_a_worker_that_goes_moves_few_shards_between_the_others(size):
    moved = 0
    for _ in range(50):
        gone, *others = workers = crew(size)
        pairs = zip(owners("t", workers), owners("t", others), strict=True)
        moved += sum(before not in (gone, after) for before, after in pairs)
    assert moved / 50 <= SHARDS / 8


def test_topics_are_divided_in_different_ways():
    workers = crew(4)
    assert len({owners(f"t{number}", workers) for number in range(20)}) > 4


def test_without_workers_nobody_owns_anything():
    assert owners("t", []) == ()


def member(worker):
    return Member(worker, frozenset(), 0.1, 0)


def test_the_id_of_a_worker_says_where_it_is():
    assert (member("shop-7:4711@3.a1").host, member("shop-7:4711@3.a1").process) == ("shop-7", 4711)
    assert (member("::1:12@7").host, member("::1:12@7").process) == ("::1", 12)
    for plain in ("w", "w@1", "host:x@1", ":"):
        assert (member(plain).host, member(plain).process) == (None, None)
