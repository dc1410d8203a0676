"""Several stores under one prefix: their number is noted, and they move as one."""

from itertools import pairwise

import pytest

from pywheel import BadAddress, JobQueue, NotAStore
from pywheel.client.copier import Copier
from pywheel.jobs import NewJob
from pywheel.jobs.commands import Delete, Put
from pywheel.jobs.queries import ListJobs
from pywheel.stores import Filter, open
from tests.isolated.child import run_well
from tests.stores.calls import listening
from tests.stores.refusing import refused
from tests.stores.test_vectors import ON_SERVERS, replay

JOB = NewJob("t", b"", 0)


def with_stores(url, number):
    return f"{url.partition('&stores')[0]}&stores={number}"


class TestTheNumber:
    @pytest.mark.parametrize(("there", "asked"), [(4, 3), (4, 1), (1, 4)])
    def test_another_number_than_that_noted_is_refused(self, redis_server, there, asked):
        url = redis_server.url(stores=there)
        open(url).close()
        refused(NotAStore, rf"\?stores={there}", open, with_stores(url, asked))
        open(url).close()

    @pytest.mark.parametrize("number", ["0", "33", "-1", "x", ""])
    def test_a_number_that_is_none_is_refused(self, redis_server, number):
        refused(BadAddress, "from 1 to 32", open, redis_server.url(stores=number))


class TestAsOne:
    def test_vectors_whose_jobs_are_put_into_one_turn_give_the_expected_results(self, redis_server):
        replay(redis_server.url(stores=4), ON_SERVERS[0], reopen=25)  # all begin with the same store

    def test_a_copy_goes_there_and_on(self, redis_server, tmp_path):
        places = [f"sqlite:///{tmp_path}/jobs.db", redis_server.url(stores=4), redis_server.url(stores=3)]
        with JobQueue(places[0]) as queue:
            queue.put_many([queue.job("t", n, delay=3600, key=f"k{n}") for n in range(60)])
            queue.put_many([queue.job("t", n, delay=3600) for n in range(60)])
        for source, target in pairwise(places):
            with open(source) as old, open(target) as new:
                Copier(old, new).switch(60)
                assert new.verify() == old.verify() == []
        with JobQueue(places[-1]) as queue:
            jobs = queue.jobs.list("t", limit=200)
            assert sorted(job.json() for job in jobs) == sorted([*range(60)] * 2)
            assert {job.key: job.json() for job in jobs if job.key} == {f"k{n}": n for n in range(60)}

    def test_copies_that_somebody_deleted_there_are_made_again(self, redis_server, tmp_path):
        with open(f"sqlite:///{tmp_path}/jobs.db") as old, open(redis_server.url(stores=4)) as new:
            old.apply([Put(tuple(JOB._replace(key=f"k{n}", delay=10**9) for n in range(40)))])
            for _ in range(3):
                Copier(old, new).carry()
                new.apply([Delete(job.id) for job in new.ask(ListJobs(Filter("t"), 0, 100))])
            assert Copier(old, new).switch(10).jobs == 40
            assert {job.key for job in new.ask(ListJobs(Filter("t"), 0, 100))} == {f"k{n}" for n in range(40)}

    def test_what_the_server_may_have_lost_is_left_out_in_every_store(self, redis_server, client):
        url = redis_server.url(stores=4)
        with open(url) as store:
            for inner in store.stores:
                client.hset(inner.server.prefix + b":run", "id", "another")
        with open(url) as store:
            ids = [inner.apply([Put((JOB,))])[0][0] for inner in store.stores]
            assert min(ids) > 2**24

    def test_a_store_that_has_lost_a_worker_is_told_of_it_again(self, redis_server, client):
        with open(redis_server.url(stores=4)) as store:
            notifier = listening(store)
            lost = store.stores[2]
            for name in (b":m", b":h", b":a:t", b":b", b":hmax"):
                client.delete(lost.server.prefix + name)
            store.stores[2].presence.renewed()  # as it is when the store is found on another server
            notifier.beat(0)
            notifier.hints()
            [[id]] = lost.apply([Put((JOB,))])
            assert [due.id for due in notifier.hints().due] == [store.ids.outer(2, id)]
            notifier.close()


def test_a_nonce_tells_the_ids_of_a_put_into_several_stores_from_the_first_job_on(redis_server):
    with open(redis_server.url(stores=2)) as store:
        keys = {store.ids.of_key("t", key): key for key in "abcdefgh"}
        jobs = tuple(JOB._replace(key=keys[place]) for place in (0, 1))
        [ids] = store.apply([Put(jobs, "n")])
        assert 1 in ids
        assert store.apply([Put((), "n"), Put((JOB, JOB), "n")]) == [ids, ids]


FORKED = """
import os, sys
from pywheel.stores import open
store = open(sys.argv[1])
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
print(store.stores[0].presence.clock is store.clock)
"""


def test_a_forked_child_judges_the_silence_of_workers_by_the_clock_of_the_server_that_has_them(redis_server):
    """The host's own clock may be hours off, and nothing was heard of another store's server yet."""
    assert run_well("-c", FORKED, redis_server.url(stores=4)) == "True\n"


def test_a_nonce_whose_put_is_taken_back_is_forgotten(redis_server):
    with open(redis_server.url(stores=2)) as store:
        inner = store.stores[0]
        inner.apply([Put((JOB,), "n"), Put((JOB,), "other")])
        inner.forget("n")
        assert (inner.nonce("n"), inner.nonce("other")) == (None, [2])
        inner.forget("n")
