"""Stores in a cluster of three masters: failover, slots that move, and wake-ups from any node."""

import re

import pytest

from pywheel import JobQueue
from pywheel._errors import NotAStore, StoreAway, StoreError
from pywheel.jobs import NewJob, State
from pywheel.jobs.commands import Put
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores import open
from pywheel.testing import StoreSuite
from tests.jobs.waiting import until, working
from tests.ports import reserved_ports
from tests.stores.calls import listening
from tests.stores.cluster import Cluster, replicated
from tests.stores.on_redis.keys import faults
from tests.stores.on_redis.test_contract import by_store
from tests.stores.servers import Redis, started

JOB = NewJob("t", b"b", 0, delay=3_600_000)


@pytest.fixture(scope="module")
def cluster():
    yield from started(Cluster)


class TestStoresOfACluster(StoreSuite):
    @pytest.fixture(autouse=True)
    def _cluster(self, cluster):
        pass

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _of_class(cls, cluster):
        cls.cluster = cluster

    def make_store(self, clock):
        return open(self.cluster.url(stores=4), clock=clock)

    def together(self, ids):
        return by_store(self.store, ids)


def prefixes(store):
    return [one.server.place.prefix for one in getattr(store, "stores", [store])]


def test_stores_lie_on_more_than_one_node_and_ids_say_where(cluster):
    with open(cluster.url(stores=8)) as store:
        ids = [id for _ in range(8) for id in store.apply([Put((JOB,) * 64)])[0]]
        assert len(set(ids)) == 512
        assert {store.ids.store(id) for id in ids} == set(range(8))
        assert len({cluster.master(prefix) for prefix in prefixes(store)}) > 1
        for prefix in prefixes(store):
            with cluster.master(prefix).connect() as client:
                assert faults(client, prefix) == []


def test_a_worker_is_woken_from_every_node(cluster):
    url = cluster.url(stores=8)
    with open(url) as store, open(url) as other:
        notifier = listening(store)
        for inner in other.stores:
            [[id]] = inner.apply([Put((JOB,))])
            assert notifier.wait(60)
            [due] = notifier.hints().due
            assert other.ids.inner(due.id) == id
        notifier.close()


def test_a_slot_that_moves_takes_its_store_along(cluster, monkeypatch):
    url = cluster.url(prefix="moves")
    with JobQueue(url) as queue, JobQueue(url) as asking:
        monkeypatch.setattr(asking.store, "_limit", 0.5)  # for which a put is sent again
        ids = queue.put_many([queue.job("t", b"", key=f"k{number}") for number in range(600)])
        [prefix] = prefixes(queue.store)
        before = cluster.master(prefix)
        to = next(node for node in cluster.nodes if node is not before)
        with cluster.moving(prefix, to):
            for attempt in (lambda: asking.put("t", b""), asking.topics.counts, lambda: open(url)):
                with pytest.raises(StoreAway, match="moving"):
                    attempt()
        assert cluster.master(prefix) is to
        assert [job.id for job in queue.jobs.list()] == ids[:100]
        done = []
        queue.handler("t", concurrency=10)(lambda job: done.append(job.id))
        with working(queue):
            until(lambda: len(done) == len(ids))
            ids.append(queue.put("t", b""))
            until(lambda: len(done) == len(ids))
        assert sorted(done) == ids
        assert queue.store.verify() == []


def test_addresses_that_lead_elsewhere(cluster, redis_server):
    node = cluster.nodes[0].settings["port"]
    elsewhere = next(name for name in "abcdefgh" if cluster.master(name) is not cluster.nodes[0])
    with pytest.raises(NotAStore, match=re.escape("redis+cluster://")):
        open(f"redis://127.0.0.1:{node}/0?prefix={elsewhere}")
    with pytest.raises(NotAStore, match="database 0"):
        open(f"redis+cluster://127.0.0.1:{node}/3")
    with pytest.raises(StoreAway):
        open("redis+cluster://127.0.0.1:1,127.0.0.1:2/")


@pytest.fixture
def replicated_cluster():
    """With a replica of each master, to be broken."""
    yield from started(Cluster, replicas=1)


def test_what_was_replicated_survives_a_master_and_work_goes_on(replicated_cluster):
    cluster = replicated_cluster
    with JobQueue(cluster.url(stores=4)) as queue:
        store, done = queue.store, []
        ids = [id for _ in range(8) for id in queue.put_many([queue.job("t", b"", delay=3600)] * 64)]
        queue.handler("t", concurrency=10)(lambda job: done.append(job.id))
        with working(queue):
            master = cluster.master(prefixes(store)[0])
            replicated(master)
            taking_over = cluster.replica_of(master)
            master.kill()
            until(lambda: cluster.master(prefixes(store)[0]) is taking_over)
            until(lambda: answers(store))
            assert all(store.ask(GetJob(id)).state is State.DELAYED for id in ids)
            for id in ids:
                assert queue.reschedule(id, delay=0)
            until(lambda: set(done) >= set(ids))
            assert sorted(done) == sorted(ids)
            master.start()  # it is a replica now
            ids.append(queue.put("t", b""))
            until(lambda: len(done) == len(ids))
        assert store.verify() == []


def answers(store):
    try:
        store.ask(CountJobs())
    except StoreError:
        return False
    return True


@pytest.fixture
def lone_node():
    """A cluster of one node, which has all slots."""
    port, bus = reserved_ports(2)
    with Redis(settings={"port": port, "bind": "127.0.0.1", "cluster-enabled": "yes", "cluster-port": bus}) as node:
        with node.connect() as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
            until(lambda: client.cluster("INFO")["cluster_state"] == "ok")
        yield node


def test_a_query_of_a_cluster_that_is_down_says_so_and_is_not_asked_for_ever(lone_node, pool):
    with open(f"redis+cluster://127.0.0.1:{lone_node.settings['port']}/") as store, lone_node.connect() as client:
        [[id]] = store.apply([Put((JOB,))])
        client.execute_command("CLUSTER", "DELSLOTS", 0)  # of no store; but all slots must be served
        until(lambda: client.cluster("INFO")["cluster_state"] == "fail")
        try:
            assert isinstance(pool.submit(store.ask, GetJob(id)).exception(60), StoreAway)
        finally:
            client.execute_command("CLUSTER", "ADDSLOTS", 0)
        until(lambda: client.cluster("INFO")["cluster_state"] == "ok")
        assert store.ask(GetJob(id)).id == id
