"""Lists for visitors with some topics, part by part."""

import pytest

from pywheel import BadJob
from pywheel.jobs.queries import PAGE_MOST, Filter
from pywheel.server.visible import page


def shop(topic):
    return topic.startswith("shop")


def parts(store, limit, sees=shop, filter=Filter(), **words):  # noqa: B008
    """Return the ids of each part."""
    found, after = [], ""
    while after is not None:
        part = page(store, filter, after, limit, sees, preview=None, **words)
        found.append([job.id for job in part.jobs])
        assert len(part.sizes) == len(part.jobs) <= limit
        assert part.looked <= PAGE_MOST
        after = part.next
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("newest", [False, True])
def test_every_job_that_is_seen_is_listed_once_by_topic(queue, limit, newest):
    topics = ["shop.b", "bank", "shop.a", "shop.\u00e9", "shop.b", "bank", "shop.b"]
    ids = {topic: [queue.put(topic, delay=60) for _ in range(topics.count(topic))] for topic in dict.fromkeys(topics)}
    listed = [id for part in parts(queue.store, limit, newest=newest) for id in part]
    assert listed == [id for topic in sorted(filter(shop, ids)) for id in sorted(ids[topic], reverse=newest)]


def test_a_part_looks_at_a_bounded_number_of_topics(queue):
    for number in range(250):
        queue.put(f"shop.{number:03}", delay=60)
    dead = Filter(state="dead")
    assert parts(queue.store, 10, filter=dead) == [[], [], []]
    assert parts(queue.store, 10, sees=None, filter=dead) == [[]]


def test_a_part_of_a_search_looks_at_no_more_jobs_of_many_topics_than_of_one(queue):
    names = [f"shop.{number}" for number in range(4)]
    queue.put_many([queue.job(name, b"no", delay=60) for name in names for _ in range(PAGE_MOST * 2 // 5)])
    wanted = [queue.put(name, b"yes", delay=60) for name in names]
    found = parts(queue.store, 10, filter=Filter(text="yes"))  # which looks at each part
    assert [id for part in found for id in part] == wanted


def test_a_part_holds_few_bodies_however_many_topics_they_are_of(queue):
    for number in range(9):
        queue.put(f"shop.{number}", b"x" * 1_000_000, delay=60)
    assert [len(part) for part in parts(queue.store, 100)] == [4, 4, 1]


@pytest.mark.parametrize("cursor", ["x", "[]", "[1, 2]", "i1", "[" * 100_000, '["shop", "nonsense"]'])
def test_a_cursor_of_no_such_list_is_refused(queue, cursor):
    queue.put("shop", delay=60)
    with pytest.raises(BadJob):
        page(queue.store, Filter(), cursor, 10, shop, preview=None)


def test_a_topic_that_has_gone_is_passed_over(queue):
    id = queue.put("shop.b", delay=60)
    assert [job.id for job in page(queue.store, Filter(), '["shop.a", "i9"]', 10, shop, preview=None).jobs] == [id]
