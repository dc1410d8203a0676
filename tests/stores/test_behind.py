"""A server that had not heard of all took over: it gives out ids anew that processes still hold."""

import time
from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import pytest

from pywheel import JobQueue, StoreAway
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import GetJob, GetNextDues, ListJobs
from pywheel.stores import Filter, open
from tests.stores import calls
from tests.stores.network import Proxy

DUE = 2 * 10**12


def put(store, count=1, nonce=None, topic="t", **more):
    return calls.put(store, *(NewJob(topic, b"b", DUE, **more) for _ in range(count)), nonce=nonce)


def connect(server, url, **options):
    """Return a connection to the database of a store."""
    place = {"database": urlsplit(url).path[1:]} if url.startswith("mysql") else {}
    return closing(server.connect(**place, **options))


def fall_back(server, url, id):
    """Let the next id that is given out be the one behind this, as on a replica that lags."""
    if url.startswith("mysql"):
        sql, values = "UPDATE pywheel_number SET value = %s WHERE name = 'id'", (id,)
    else:
        sql, values = "SELECT setval(%s, %s)", (f"{parse_qs(urlsplit(url).query)['schema'][0]}.pywheel_id", id)
    with connect(server, url) as connection, connection.cursor() as cursor:
        cursor.execute(sql, values)


@pytest.mark.parametrize("kind", ["one", "many", "key", "replace", "nonce"])
def test_puts_go_on_where_ids_that_a_process_holds_are_given_out_again(sql_server, kind):
    url = sql_server.url()
    with open(url) as before:
        ids = [id for _ in range(300) for id in put(before)]  # so that it holds some hundreds
        fall_back(sql_server, url, ids[-1])
        with open(url) as after:
            for number in range(200):
                ids += put(after, 2)
                more = {"key": {"key": f"k{number}"}, "nonce": {"nonce": f"n{number}"}, "many": {"count": 3}}
                more["replace"] = {**more["key"], "replace": True}  # it is put after a look
                ids += put(before, **more.get(kind, {}))
            assert sorted(ids) == [job.id for job in after.ask(ListJobs(Filter(), 0, 10_000))]
            assert after.verify() == []


def test_keys_that_are_put_at_once_are_all_stored_where_their_ids_are_given_out_again(sql_server):
    url = sql_server.url()
    with open(url) as before, open(url) as after:
        ids = [id for _ in range(300) for id in put(before)]
        fall_back(sql_server, url, ids[-1])
        put(after, 1_000)
        found = before.apply([ops.Put((NewJob("t", b"mine", DUE, key=f"k{n}"),)) for n in range(20)])
        assert [after.ask(GetJob(id)).key for [id] in found] == [f"k{n}" for n in range(20)]
        assert after.verify() == []


@pytest.mark.parametrize("key", [None, "k"])
def test_a_put_in_a_callers_transaction_is_stored_where_its_id_is_given_out_again(sql_server, key):
    url = sql_server.url()
    with open(url) as before, open(url) as after, connect(sql_server, url, autocommit=False) as connection:
        ids = [id for _ in range(300) for id in put(before)]
        fall_back(sql_server, url, ids[-1])
        put(after, 1_000)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            if url.startswith("mysql"):
                cursor.execute("SET SESSION sql_mode = ''")
        [id] = before.apply_within(connection, ops.Put((NewJob("t", b"mine", DUE, key=key),)))
        connection.commit()
        assert after.ask(GetJob(id)).body == b"mine"
        assert after.verify() == []


@pytest.mark.parametrize("ended", [False, True], ids=["delayed", "ended"])
@pytest.mark.parametrize("kind", ["one", "many", "key"])
def test_a_put_that_is_sent_again_is_not_taken_for_another_job_that_has_its_id(sql_server, kind, ended):
    """After a restart on an older state others have the ids that a process held when its connection broke."""
    url = sql_server.url()
    with Proxy(sql_server) as proxy, open(sql_server.again(url, via=proxy)) as before, open(url) as after:
        ids = [id for _ in range(300) for id in put(before)]  # so that it holds some hundreds
        fall_back(sql_server, url, ids[-1])
        ids += put(after, 1_000)
        if ended:
            after.apply([ops.Cancel(id) for id in ids])
        proxy.cut_once()
        more = {"key": "k"} if kind == "key" else {}
        mine = calls.put(before, *(NewJob("t", b"mine", DUE, **more) for _ in range(3 if kind == "many" else 1)))
        assert [after.ask(GetJob(id)).body for id in mine] == [b"mine"] * len(mine)
        assert sorted(ids + mine) == [job.id for job in after.ask(ListJobs(Filter(), 0, 10_000))]
        assert after.verify() == []


def rename(server, url, topic, lanes="lanes"):
    """Give the only topic of a store another name, and maybe other priorities."""
    schema = "" if url.startswith("mysql") else f"{parse_qs(urlsplit(url).query)['schema'][0]}."
    with connect(server, url) as connection, connection.cursor() as cursor:
        cursor.execute(f"UPDATE {schema}pywheel_topic SET name = %s, lanes = {lanes}", (topic,))


def know_many(store):
    """Let a store know more names than it looks at when it connects."""
    store._known.learn({f"t{number}": number for number in range(10**6, 10**6 + 1_001)})


@pytest.fixture(params=[False, True], ids=["few", "many"])
def set_back(sql_server, request):
    """A queue whose topic is not there any more, as another one got its number, and a queue that looks."""
    url = sql_server.url()
    with Proxy(sql_server) as proxy, JobQueue(sql_server.again(url, via=proxy)) as queue, JobQueue(url) as after:
        for _ in range(10):  # it has ids left then
            queue.put("mine", priority=3)
        queue.put("mine", key="theirs")
        rename(sql_server, url, "theirs")
        if request.param:
            know_many(queue.store)
        proxy.cut_once()
        yield queue, after


PUTS = {
    "one": lambda queue: [queue.put("mine")],
    "many": lambda queue: queue.put_many([queue.job("mine") for _ in range(3)]),
    "key": lambda queue: [queue.put("mine", key="k")],
    "replace": lambda queue: [queue.put("mine", key="k", replace=True)],
    "nonce": lambda queue: put(queue.store, topic="mine", nonce="n"),
}


@pytest.mark.parametrize("kind", PUTS)
def test_no_put_goes_into_a_topic_that_got_the_number_of_its_own_when_the_server_was_set_back(set_back, kind):
    queue, after = set_back
    ids = PUTS[kind](queue)
    assert [job.id for job in after.jobs.list("mine")] == ids
    assert after.store.verify() == []


def test_no_put_in_a_callers_transaction_goes_into_a_topic_that_got_the_number_of_its_own(set_back, sql_server):
    queue, after = set_back
    with connect(sql_server, after.store.address.url, autocommit=False) as connection:
        id = queue.put("mine", connection=connection)
        connection.commit()
    assert [job.id for job in after.jobs.list("mine")] == [id]


def test_a_priority_that_a_topic_has_no_longer_after_the_server_was_set_back_is_noted_again(set_back, sql_server):
    queue, after = set_back
    rename(sql_server, after.store.address.url, "mine", lanes="0")
    id = queue.put("mine", priority=3)
    assert id in [job.id for job in after.reserve("mine", 20)]


@pytest.mark.parametrize(
    "read",
    [
        lambda queue: queue.reserve("mine"),
        lambda queue: queue.jobs.list("mine"),
        lambda queue: queue.store.ask(GetJob(("mine", "theirs"))),
        lambda queue: queue.topics.counts().get("mine"),
        lambda queue: queue.store.ask(GetNextDues(("mine",))).get("mine"),
    ],
    ids=["reserve", "list", "get", "counts", "dues"],
)
def test_a_topic_that_is_not_there_after_the_server_was_set_back_has_no_jobs_of_another_one(set_back, read):
    queue, _ = set_back
    assert not read(queue)


def test_where_many_names_are_known_a_new_connection_looks_at_none_and_forgets_all(sql_server, monkeypatch):
    with open(sql_server.url()) as store:
        [id] = put(store)
        know_many(store)
        sent, send = [], store.send
        monkeypatch.setattr(store, "send", lambda _, batch, now: sent.append(batch) or send(_, batch, now))
        store.connected(time.monotonic() + 60).end()
        assert (sent, store._known.names) == ([], {})
        assert put(store) > [id]


def test_where_many_names_are_known_a_put_under_way_when_its_connection_broke_is_stored_once(sql_server, monkeypatch):
    """The second try has the ids of the first, though the new connection has forgotten all names."""
    with open(sql_server.url()) as store:
        put(store)
        put(store)  # into a known topic: on another connection
        know_many(store)
        tries, inserted = [], store.own._put

        def lose(session, insert, *, again):
            tries.append([row[0] for row in insert.rows])
            if again:
                return inserted(session, insert, again=again)
            session._lane.writer.end()
            raise StoreAway("the answer is lost")

        monkeypatch.setattr(store.own, "_put", lose)
        ids = put(store, 2)
        assert tries == [ids, ids]
