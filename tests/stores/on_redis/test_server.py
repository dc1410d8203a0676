"""The requirements for a server, its promises, and the messages of its refusals."""

import contextlib
import re
import threading
from functools import partial
from pathlib import Path

import pytest
from redis import ConnectionError as Refused

from pywheel import BadAddress, JobQueue, NotAStore, StoreAway, StoreBusy, StoreFull, StoreReadOnly, StoreTooNew
from pywheel.jobs.commands import Ack, Announce, Purge, Put, Reserve
from pywheel.jobs.job import NewJob, State
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores import open
from pywheel.worker.chores import Pruning, retention
from tests.jobs.waiting import until
from tests.stores.calls import TERMS, listening, settle
from tests.stores.network import Proxy
from tests.stores.refusing import SECRET, refused
from tests.stores.server import store_of
from tests.stores.servers import Redis

JOB = NewJob("t", b"b" * 1000, 0, delay=0)


@contextlib.contextmanager
def server(**settings):
    with Redis(settings={name.replace("_", "-"): value for name, value in settings.items()}) as redis:
        yield redis


def with_user(server, name, *rights, **options):
    """Return the address of an empty store, for a user who has rights."""
    with server.connect() as client:
        client.execute_command("ACL", "SETUSER", name, "reset", "on", f">{SECRET}", *rights)
    return server.url(user=f"{name}:{SECRET}", **options)


@pytest.mark.usefixtures("redis_server")
class TestDurability:
    def test_it_is_what_the_server_is_told_to_do(self):
        settings = [("appendfsync", "always", "fsync"), ("appendfsync", "everysec", "everysec")]
        settings += [("no-appendfsync-on-rewrite", "yes", "memory"), ("no-appendfsync-on-rewrite", "no", "everysec")]
        settings += [("appendfsync", "no", "memory"), ("appendonly", "no", "memory")]
        with server() as redis, redis.connect() as client:
            for name, value, expected in settings:
                client.config_set(name, value)
                with open(redis.url()) as store:
                    assert store.durability == expected, (name, value)

    @pytest.mark.parametrize("stores", [1, 4])
    def test_it_is_learnt_anew_from_a_server_that_was_started_again(self, stores):
        with server() as redis, open(redis.url(stores=stores)) as store:
            assert store.durability == "memory"
            redis.stop()
            redis.fsync = True
            redis.start()
            store.ask(CountJobs())
            assert store.durability == "fsync"

    @pytest.mark.parametrize("stores", [1, 4])
    def test_it_is_learnt_anew_when_somebody_asks_about_the_store(self, stores):
        settings = [("appendfsync", "always", "fsync"), ("appendonly", "no", "memory"), ("appendonly", "yes", "fsync")]
        with server() as redis, redis.connect() as client, open(redis.url(stores=stores)) as store:
            for name, value, expected in settings:
                client.config_set(name, value)
                store.about()
                assert store.durability == expected, (name, value)

    def test_it_is_unknown_to_a_user_who_may_not_ask(self, redis_server):
        with open(with_user(redis_server, "poor", "~*", "&*", "+@all", "-config")) as store:
            assert store.durability == "memory"
            store.apply([Put((JOB,))])


def test_a_server_that_evicts_keys_is_refused_at_each_connection_and_by_verify(store, client, redis_server):
    store.apply([Put((JOB,))])
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        asks, puts = partial(store.ask, CountJobs()), partial(store.apply, [Put((JOB,))])
        for call in (partial(open, redis_server.url()), store.verify, asks, puts):
            refused(NotAStore, "set maxmemory-policy to noeviction", call)
            client.client_kill_filter(_type="normal", skipme=True)
    finally:
        client.config_set("maxmemory-policy", "noeviction")
    assert store.apply([Put((JOB,))]) == [[2]]
    assert store.verify() == []


def test_a_server_with_too_many_clients_is_busy_and_says_what_to_mend(redis_server):
    with server(maxclients=3) as redis, contextlib.ExitStack() as stack:
        url = redis.url()
        open(url).close()
        with contextlib.suppress(Refused):
            while True:
                stack.enter_context(redis.connect())
        for _ in range(50):
            with pytest.raises(StoreBusy, match="raise its maxclients"):
                open(url)


def test_a_replica_is_refused_and_one_that_becomes_it_writes_no_more(redis_server):
    with server() as redis, open(redis.url()) as store, redis.connect() as client:
        store.apply([Put((JOB,))])
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(StoreReadOnly, match="master"):
            store.apply([Put((JOB,))])
        refused(StoreReadOnly, "replica", open, redis.url())
        client.execute_command("REPLICAOF", "NO", "ONE")
        assert store.apply([Put((JOB,))]) == [[2]]


def test_where_no_memory_is_left_nothing_is_put_and_all_else_goes_on(redis_server):
    with server() as redis, open(redis.url()) as store, redis.connect() as client:
        [ids] = store.apply([Put((JOB,) * 100)])
        client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)  # which shrinks as buffers do
        with pytest.raises(StoreFull, match="maxmemory"):
            store.apply([Put((JOB,))])
        with pytest.raises(StoreFull):
            store.apply([Put((JOB._replace(key="k"),)), Reserve("t", 1, TERMS, "w")])
        [jobs] = store.apply([Reserve("t", 50, TERMS, "w")])
        assert [job.id for job in jobs] == ids[:50]
        assert all(store.apply([Ack(job.id, job.claims) for job in jobs]))
        assert sum(store.ask(CountJobs())["t"]) == 100
        client.config_set("maxmemory", 0)
        assert store.apply([Put((JOB,))]) == [[ids[-1] + 1]]


@pytest.fixture
def full(redis_server):
    """A context in which the server has no memory left."""

    @contextlib.contextmanager
    def full():
        with redis_server.connect() as client:
            client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)
            try:
                yield
            finally:
                client.config_set("maxmemory", 0)

    return full


class TestNoMemory:
    """The server has reached its maxmemory."""

    def test_jobs_with_results_end_and_their_worker_claims_on(self, store, full):
        [[first, _, third]] = store.apply([Put((JOB,) * 3)])
        [jobs] = store.apply([Reserve("t", 2, TERMS, "w")])
        with full():
            *acked, [job] = store.apply(
                [*(Ack(job.id, job.claims, b"result") for job in jobs), Reserve("t", 1, TERMS, "w")]
            )
        assert (acked, job.id) == ([True, True], third)
        assert JobQueue(store).result(first).result == b"result"

    def test_a_worker_notes_for_how_long_jobs_are_kept_and_prunes_them(self, store, full, clock):
        [ids] = store.apply([Put((JOB,) * 2)])
        store.apply([Ack(job.id, job.claims) for job in store.apply([Reserve("t", 2, TERMS, "w")])[0]])
        pruning = Pruning(store, "w", retention("1h"))
        clock.advance(7_200)
        with full():
            for _ in range(3):
                pruning.work(clock.wall(), busy=False, in_charge=True)
                clock.advance(400)
        assert store.ask(GetJob(ids[0])) is None

    def test_acks_go_on_beside_puts_of_other_threads(self, store, full, pool):
        store.apply([Put((JOB,) * 100)])
        [jobs] = store.apply([Reserve("t", 100, TERMS, "w")])
        acked, over = [], threading.Event()

        def put():
            while not over.is_set():
                with pytest.raises(StoreFull):
                    store.apply([Put((JOB,))])

        with full():
            puts = [pool.submit(put) for _ in range(4)]
            try:
                for job in jobs:
                    acked += store.apply([Ack(job.id, job.claims)])
            finally:
                over.set()
            for call in puts:
                call.result(60)
        assert acked == [True] * 100

    @pytest.mark.parametrize("stores", [1, 4])
    def test_a_store_is_opened_and_its_finished_jobs_are_purged(self, redis_server, full, stores):
        url = redis_server.url(stores=stores)
        with open(url) as store:
            store.apply([Put((JOB,) * 3)])
        with full(), open(url) as store:
            [jobs] = store.apply([Reserve("t", 3, TERMS, "w")])
            store.apply([Ack(job.id, job.claims) for job in jobs])
            assert store.apply([Purge(State.DONE, 0, None, 100)]) == [3]

    @pytest.mark.parametrize("stores", [1, 4])
    def test_a_server_that_was_started_again_is_met_though_it_has_lost_the_number_of_stores(self, stores):
        with server() as redis, open(redis.url(stores=stores)) as store:
            [ids] = store.apply([Put((JOB,) * 3)])
            with redis.connect() as client:
                client.delete("{p1}:store")
                redis.settings["maxmemory"] = client.info("memory")["used_memory"] // 2
            redis.stop()
            redis.start()
            [jobs] = store.apply([Reserve("t", 9, TERMS, "w")])
            assert sorted(job.id for job in jobs) == ids


class TestWrongAddresses:
    def test_a_password_that_is_missing_is_asked_for(self, redis_server):
        with server() as redis:
            with redis.connect() as client:
                client.config_set("requirepass", SECRET)
            refused(NotAStore, "password", open, redis.url())
            with open(redis.url(user=f":{SECRET}")) as store:
                assert SECRET not in store.url + repr(store)
                assert SECRET in store.secret_url
                store.apply([Put((JOB,))])
            with redis.connect(password=SECRET) as client:
                client.config_set("requirepass", "")

    def test_rights_that_are_missing_are_named(self, redis_server):
        refused(NotAStore, "fcall", open, with_user(redis_server, "reader", "~*", "&*", "+@all", "-fcall"))

    @pytest.mark.parametrize("stores", [1, 4])
    def test_the_documented_rights_are_enough(self, redis_server, stores):
        text = (Path(__file__).parents[3] / "docs" / "stores-redis.md").read_text()
        [rights] = re.findall(r"ACL SETUSER shop on >secret (.*?)```", text, re.DOTALL)
        with redis_server.connect() as client:
            for key in client.scan_iter(match="{pywheel*"):
                client.delete(key)
        url = with_user(redis_server, "least", *rights.split(), prefix="pywheel", stores=stores)
        with JobQueue(url) as queue:
            assert queue.store.durability == "memory"  # appendfsync no, and it may ask
            notifier = listening(queue.store)
            id = queue.put("t", b"b", key="k")
            notifier.beat(0)
            assert notifier.wait(60)
            assert [due.id for due in notifier.hints().due] == [id]
            notifier.ring(notifier.worker)
            queue.topics.pause("t")
            notifier.quiet()
            queue.topics.resume("t")
            [job] = queue.reserve("t", 1)
            assert queue.jobs.history(id)
            queue.ack(job)
            queue.jobs.delete(id)
            assert queue.jobs.list(topic="t") == []
            notifier.close()

    def test_a_database_that_is_not_there(self, redis_server):
        refused(NotAStore, "number", open, redis_server.url(db=99))

    def test_nobody_there(self, tmp_path):
        for place in (f"redis+unix://:{SECRET}@{tmp_path}/r.sock", f"redis://:{SECRET}@127.0.0.1:1/0"):
            refused(StoreAway, "start the server", open, place)

    @pytest.mark.parametrize("rest", ["?timeout=0", "?timeout=x", "?db=x", "?nothing=1", "#a"])
    def test_options_that_cannot_be(self, redis_server, rest):
        refused(BadAddress, ".", open, f"redis+unix://:{SECRET}@{redis_server.socket}{rest}")

    @pytest.mark.parametrize("place", ["redis://h/x", "redis://a,b/0", "redis+unix://", "redis+unix://host/path"])
    def test_places_that_cannot_be(self, place):
        refused(BadAddress, ".", open, place)

    @pytest.mark.parametrize(("stores", "version", "said"), [(1, "99", "install a newer"), (4, "2 in 4", "upgrade")])
    def test_other_data_and_newer_stores_are_left_alone(self, redis_server, client, stores, version, said):
        client.set("{other}:store", "mine")
        client.hset("{hash}:store", "mine", "1")
        client.set("{newer}:store", f"pywheel {version}")
        for prefix in ("other", "hash"):
            refused(NotAStore, "prefix", open, redis_server.url(prefix=prefix, stores=stores))
        refused(StoreTooNew, said, open, redis_server.url(prefix="newer", stores=stores))

    @pytest.mark.parametrize("stores", [1, 4])
    def test_a_store_that_is_not_to_be_made(self, redis_server, stores):
        url = redis_server.url(stores=stores)
        refused(NotAStore, "put a job first", open, url, create=False)
        open(url).close()
        open(url, create=False).close()


def test_a_server_may_forget_its_functions_all_the_time(redis_server):
    over = threading.Event()

    def forget():
        with redis_server.connect() as client:
            while not over.is_set():
                client.function_flush()

    with open(redis_server.url()) as store:
        thread = threading.Thread(target=forget)
        thread.start()
        try:
            assert len({store.apply([Put((JOB,))])[0][0] for _ in range(200)}) == 200
        finally:
            over.set()
            thread.join()


def test_a_store_whose_data_was_deleted_begins_anew_and_is_found_and_sound_then(store, client):
    store.apply([Put((JOB,) * 3)])
    client.flushall()
    assert store.ask(CountJobs()) == {}
    assert len(store.apply([Put((JOB,))])[0]) == 1
    assert store.ask(CountJobs())["t"].delayed == 1
    assert store.verify() == []
    open(store.url, create=False).close()


@pytest.mark.parametrize("stores", [1, 3])
def test_the_first_put_after_a_flushall_finds_a_store_and_gets_no_id_of_before(redis_server, client, stores):
    url = redis_server.url(stores=stores)
    with open(url) as store, open(url) as other:
        [ids] = other.apply([Put((JOB,) * 3)])
        client.flushall()
        [[new]] = store.apply([Put((JOB,))])
        assert new not in ids
        with open(url, create=False) as another:
            assert another.ask(GetJob(new)).state is State.DELAYED
        refused(NotAStore, r"\?stores=", open, f"{url.partition('&stores')[0]}&stores=2")
        [[later]] = other.apply([Put((JOB,))])
        assert later not in {*ids, new}
        assert store.verify() == []


def test_times_beyond_what_a_double_can_hold_are_rounded_and_nothing_breaks(store):
    [[id]] = store.apply([Put((JOB._replace(due=2**61 + 1, delay=None, ttr=2**60 + 1, max_attempts=2**60 + 1),))])
    job = store.ask(GetJob(id))
    assert abs(job.due - 2**61) < 2**10
    assert (job.ttr, job.max_attempts) == (2**60 + 1, 2**60 + 1)


@pytest.mark.parametrize("stores", [1, 4])
def test_a_store_says_where_it_is_and_how_many(redis_server, stores):
    with open(redis_server.url(prefix=f"mine{stores}", stores=stores)) as store:
        about = store.about()
    assert int(about["version"].partition(".")[0]) >= 7
    assert about["memory_bytes"] > 0
    assert (about["prefix"], about.get("stores", 1)) == (f"mine{stores}", stores)


def test_a_master_that_is_demoted_is_left_for_the_one_that_its_name_leads_to_by_now(redis_server):
    """As where a name is given to another server: connections to the old one do not break."""
    with server() as old, server() as new, Proxy(old) as proxy, open(old.url(via=proxy)) as store:
        store.apply([Put((JOB,))])
        another, _ = store.server.take(), store.ask(CountJobs())
        store.server.give(another[0])
        with old.connect() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", "1")
        proxy.lead_to(new, at_once=False)
        with pytest.raises(StoreReadOnly, match="master"):
            store.apply([Put((JOB,))])
        assert store.ask(CountJobs()) == {}
        assert len(store.apply([Put((JOB,) * 3)])[0]) == 3


@pytest.fixture
def switched(redis_server):
    """A store, its address on another server, and what lets its own live on as a replica or cut off from its own."""
    with server() as old, server() as new, Proxy(old) as proxy:
        url = old.url(via=proxy, timeout="100s")
        there = next(there for there in iter(new.url, None) if store_of(there) == store_of(url))

        def switch(how):
            with old.connect() as client:
                client.execute_command(*how)
            proxy.lead_to(new, at_once=False)

        with open(url) as store:
            yield store, there, switch


DEMOTED = "REPLICAOF", "127.0.0.1", "1"
CUT_OFF = "CONFIG", "SET", "min-replicas-to-write", "1"


def test_a_program_that_only_reads_leaves_a_demoted_master_within_seconds(switched):
    store, _, switch = switched
    store.apply([Put((JOB,))])
    assert store.ask(CountJobs())["t"].delayed == 1
    switch(DEMOTED)
    until(lambda: store.ask(CountJobs()) == {}, 20)


def test_a_connection_that_was_in_use_as_another_server_was_met_is_not_kept(switched):
    store, _, switch = switched
    store.apply([Put((JOB,))])
    beside, _ = store.server.take()
    switch(DEMOTED)
    assert store.ask(CountJobs()) == {}
    store.server.give(beside)
    assert store.ask(CountJobs()) == {}


@pytest.mark.parametrize("how", [DEMOTED, CUT_OFF], ids=["demoted", "cut off"])
def test_an_ear_on_a_master_that_takes_no_writes_any_more_moves_at_once(switched, pool, how):
    store, there, switch = switched
    ears = listening(store)
    switch(how)
    with pytest.raises(StoreReadOnly):
        ears.beat(0)
    assert pool.submit(ears.hints).result(20).reload  # it waits for no message from there
    ears.beat(0)
    store.apply([Announce(ears.worker, ("t",))])
    settle(ears)
    ears.publish(2**45)
    with open(there) as other:
        [[id]] = other.apply([Put((JOB,))])
    assert ears.wait(20)
    assert [due.id for due in ears.hints().due] == [id]
    ears.close()


def test_a_server_whose_command_config_is_renamed_serves_and_its_durability_is_unknown(redis_server):
    """As administrators and hosts of servers do."""
    with server(**{"rename-command CONFIG": "hidden"}) as redis, open(redis.url()) as store:
        assert store.durability == "memory"
        assert store.apply([Put((JOB,))]) == [[1]]
