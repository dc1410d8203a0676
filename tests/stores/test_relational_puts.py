"""Puts on a server: their times, and the ids that are taken ahead for them."""

import time

import pytest

from pywheel import StoreAway, StoreBusy
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores import open
from pywheel.stores.relational.lanes import Ids
from tests.stores.calls import TERMS, put, put_many
from tests.stores.files import NOW

NEVER = float("inf")


@pytest.mark.parametrize("count", [1, 2])
def test_a_delay_may_be_negative(sql_server, clock, count):
    with open(sql_server.url(), clock=clock) as store:
        ids = put_many(store, count, delay=-5)
        assert [store.ask(GetJob(id)).due for id in ids] == [NOW - 5] * count
    with open(sql_server.url()) as store:  # the server's clock
        ids = put_many(store, count, delay=-5_000)
        assert [job.created - job.due for job in map(store.ask, map(GetJob, ids))] == [5_000] * count


def test_a_job_that_ended_before_its_put_was_sent_again_does_not_run_again(sql_server, monkeypatch):
    url = sql_server.url()
    with open(url) as store, open(url) as worker:
        put(store)
        own_put = store.own._put

        def lose_the_first(session, insert, *, again):
            found = own_put(session, insert, again=again)
            if not again:
                [jobs] = worker.apply([ops.Reserve("t", 9, TERMS, "w")])
                assert worker.apply([ops.Ack(job.id, job.claims) for job in jobs]) == [True, True]
                raise StoreAway("the answer was lost")
            return found

        monkeypatch.setattr(store.own, "_put", lose_the_first)
        [id] = put(store)
        assert not store.ask(GetJob(id)).state.live
        assert (store.ask(CountJobs())["t"].done, store.verify()) == (2, [])


def test_ids_are_taken_ahead_so_that_most_puts_of_many_are_one_trip():
    numbers, taken = iter(range(1, 2**63)), []

    def draw(count, until):
        taken.append(count)
        return [next(numbers) for _ in range(count)]

    ids = Ids(draw)
    assert [id for _ in range(80) for id in ids.many(1_000, NEVER)] == [*range(1, 80_001)]
    assert len(taken) <= 14
    assert sum(taken) < 90_000


@pytest.mark.parametrize("left", [0, 3])
def test_no_id_is_given_out_again_by_a_server_that_took_over_and_was_behind(left):
    """Else two jobs have it once the first has ended, and the second can never end."""
    number = 100

    def draw(count, until):
        nonlocal number
        number += count
        return range(number - count + 1, number + 1)

    ids = Ids(draw)
    given = [id for _ in range(500 - left) for id in ids.many(1, NEVER)]
    number = 250
    if left == 0:
        ids.forget()
    given += ids.many(200, NEVER)
    given += [id for _ in range(500) for id in ids.many(1, NEVER)]
    assert given == sorted(set(given))
    assert ids.many(3, NEVER)[0] > given[-1]


def test_ids_of_another_database_begin_anew():
    first = 10**9
    ids = Ids(lambda count, until: range(first, first + count))
    ids.many(1, NEVER)
    first = 1
    ids.forget()
    assert ids.many(3, NEVER) == [1, 2, 3]


def test_no_ids_are_drawn_beyond_the_limit_of_the_call():
    """It may have passed while another thread drew some in vain."""
    limits = []

    def draw(count, until):
        limits.append(until)
        return range(1, count + 1)

    ids = Ids(draw)
    with pytest.raises(StoreBusy):
        ids.many(1, time.monotonic())
    assert ids.many(1, NEVER) == [1]
    assert limits == [NEVER]


@pytest.mark.parametrize(("pause", "rows"), [(0, 500), (float("inf"), 1_500)])
def test_counts_are_summed_up_less_often_where_that_takes_long(sql_server, monkeypatch, pause, rows):
    with open(sql_server.url()) as store:
        sums = []
        monkeypatch.setattr(store, "run", sums.append)
        store._fold_at = pause
        for _ in range(rows - 1):
            store.count()
        assert sums == []
        store.count()
        assert [one.text for one in sums] == [store.dialect.fold]
