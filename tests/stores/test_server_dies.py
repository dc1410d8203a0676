"""A server that dies, stops, or is cut off in the middle: what was told is true, and nothing waits beyond its time."""

import itertools
import threading
import time

import pytest

from pywheel import Fixed, JobQueue, StoreAway, StoreBusy, StoreError, Worker
from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import Terms
from pywheel.stores import Filter, Span, open
from pywheel.stores.ownership import ALL
from tests.jobs.waiting import finished, until, working
from tests.stores.network import Proxy

TERMS = Terms(60_000, 3)
LIMIT = 1.0  # seconds: of the store
SERIAL = itertools.count()
SLACK = 4.0  # on a machine that is busy; a call that hangs takes for ever


@pytest.fixture
def proxy(server):
    with Proxy(server) as proxy:
        yield proxy


@pytest.fixture
def truth(server):
    """The address, straight to the server."""
    return server.url()


def through(url, proxy, server):
    """Return the same address by way of a proxy."""
    here = server.url()
    there = server.url(via=proxy)
    name = next(part for part in url.replace("?", "&").split("&") if part.startswith(("schema=", "prefix=")))
    mark = next(part for part in there.replace("?", "&").split("&") if part.startswith(("schema=", "prefix=")))
    assert here != there
    return there.replace(mark, name)


def put(store, *jobs, nonce=None):
    [outcome] = store.apply([ops.Put(jobs or (NewJob("t", b"x", 0),), nonce)])
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


CALLS = {
    "put": put,
    "put with a key": lambda store: put(store, NewJob("t", b"x", 0, f"k{next(SERIAL)}")),
    "put of a new topic": lambda store: put(store, NewJob(f"t{next(SERIAL)}", b"x", 0)),
    "cancel": lambda store: store.apply([ops.Cancel(1)]),
    "reserve": lambda store: store.apply([ops.Reserve("t", 1, TERMS, "w")]),
    "get": lambda store: store.get(1),
    "get by key": lambda store: store.get(("t", "k")),
    "jobs": lambda store: store.jobs(Filter("t"), 0, 9),
    "counts": lambda store: store.counts(),
    "topics": lambda store: store.topics(),
    "history": lambda store: store.history(1),
    "windows": lambda store: store.windows([Span("t", ALL, (-1, 0), 9)], 9),
    "first_dues": lambda store: store.first_dues([Span("t", ALL, (-1, 0), 9)]),
    "next_lease": lambda store: store.next_lease(),
    "notifier": lambda store: store.notifier("w"),
    "workers": lambda store: store.workers(),
    "pause": lambda store: store.apply([ops.Pause("t", True)]),
    "quiet": lambda store: store.quiet("t", 1),
}


@pytest.fixture
def lasting(server, proxy, truth):
    """A store by way of the proxy, with a short time limit."""
    with open(through(truth, proxy, server) + f"&timeout={LIMIT:g}") as store:
        put(store)
        yield store


@pytest.mark.parametrize("name", CALLS)
def test_no_answer_is_waited_for_beyond_the_time_limit(lasting, proxy, name):
    proxy.stall()
    began = time.monotonic()
    with pytest.raises((StoreAway, StoreBusy)) as caught:
        CALLS[name](lasting)
    assert time.monotonic() - began < LIMIT + SLACK
    assert "\n" not in str(caught.value)
    proxy.heal()
    proxy.cut_once()
    lasting.counts()


@pytest.mark.parametrize("name", CALLS)
def test_a_server_that_is_away_is_so_at_once_and_the_next_call_after_it_came_back_works(server, lasting, proxy, name):
    proxy.cut()
    began = time.monotonic()
    with pytest.raises(StoreAway):
        CALLS[name](lasting)
    assert time.monotonic() - began < LIMIT + SLACK
    proxy.heal()
    CALLS[name](lasting)


@pytest.mark.parametrize("name", CALLS)
def test_a_connection_that_was_closed_while_idle_is_not_noticed(lasting, proxy, name):
    for _ in range(2):
        proxy.cut_once()
        CALLS[name](lasting)


# ---- in the middle of a commit --------------------------------------------------------------------------------------


def direct(store, n):
    return put(store, NewJob("t", b"%d" % n, 0))


def with_key(store, n):
    return put(store, NewJob("t", b"%d" % n, 0, f"k{n}"))


def several(store, n):
    return put(store, NewJob("t", b"%d" % n, 0), NewJob("t", b"%d+" % n, 0, f"k{n}"))


def once(store, n):
    return put(store, NewJob("t", b"%d" % n, 0), nonce=f"n{n}")


def moved(store, n):
    [id] = put(store, NewJob("t", b"%d" % n, 0))
    return store.apply([ops.Reschedule(id, 10**12 + n)])


def claimed(store, n):
    [id] = put(store, NewJob("t", b"%d" % n, 0))
    [outcome] = store.apply([ops.Claim("t", (id,), TERMS, "w", 1)])
    return [job.id for job in outcome.jobs]


@pytest.mark.parametrize("way", ["requests", "answers"])
@pytest.mark.parametrize("change", [direct, with_key, several, once], ids=lambda change: change.__name__)
def test_cut_at_any_byte_a_put_that_was_told_is_there_once_and_one_that_was_not_is_not(
    server, proxy, truth, change, way
):
    """Unless the error says that it is not known."""
    with open(through(truth, proxy, server)) as store, open(truth) as other:
        change(store, 0)
        before = proxy.passed[way]
        change(store, 1)
        size = proxy.passed[way] - before
        told, failed = {0: None, 1: None}, {}
        step = max(size // 24, 1)
        for n, cut in enumerate(range(1, size + step, step), 2):
            proxy.cut_after(**{way: cut})
            try:
                told[n] = change(store, n)
            except StoreAway as error:
                failed[n] = str(error)
            proxy.heal()
        found = {}
        for job in other.jobs(Filter("t"), 0, 10_000):
            found.setdefault(job.body.decode(), []).append(job.id)
        assert {body: ids for body, ids in found.items() if len(ids) > 1} == {}
        for n, ids in told.items():
            assert str(n) in found, f"put {n} was told and is not there"
            assert ids is None or found[str(n)][0] == ids[0]
        for n, said in failed.items():
            assert str(n) not in found or "not known" in said, said
        assert all(len(store.get(ids[0]).body) for ids in found.values())


@pytest.mark.parametrize("way", ["requests", "answers"])
@pytest.mark.parametrize("change", [moved, claimed], ids=lambda change: change.__name__)
def test_cut_at_any_byte_a_change_that_was_told_has_happened_and_one_that_was_not_has_not(
    server, proxy, truth, change, way
):
    with open(through(truth, proxy, server)) as store, open(truth) as other:
        change(store, 0)
        before = proxy.passed[way]
        change(store, 1)
        size = proxy.passed[way] - before
        step = max(size // 24, 1)
        for n, cut in enumerate(range(1, size + step, step), 2):
            proxy.cut_after(**{way: cut})
            told = None
            try:
                told = change(store, n)
            except StoreAway as error:
                said = str(error)
            proxy.heal()
            jobs = [job for job in other.jobs(Filter("t"), 0, 10_000) if job.body == b"%d" % n]
            if not jobs:
                assert told is None
                continue
            [job] = jobs
            happened = job.due == 10**12 + n if change is moved else job.state is State.RUNNING
            if told is not None:
                assert happened is bool(told[0]), (n, cut, told)
            else:
                assert not happened or "not known" in said, (n, cut, said)


def test_a_put_whose_first_try_is_still_under_way_happens_once(server, proxy, truth):
    """The connection broke, and the server has not noticed: what is sent again waits for the first, and is that."""
    if server.program != "postgres":
        pytest.skip("needs a lock that a test can take")
    with open(through(truth, proxy, server)) as store:
        put(store)
        schema = truth.partition("schema=")[2].partition("&")[0]
        with server.connect() as watcher:

            def waiting():
                rows = watcher.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
                return rows.fetchone()[0]

            for key in (None, "k"):
                told, body = [], b"with" if key else b"without"
                with server.connect(autocommit=False) as holder:
                    holder.execute(f"LOCK TABLE {schema}.pywheel_due IN SHARE MODE")
                    job = NewJob("t", body, 0, key)
                    thread = threading.Thread(target=lambda job=job, told=told: told.append(put(store, job)))
                    thread.start()
                    until(lambda: waiting() == 1)
                    proxy.cut_once()
                    until(lambda: waiting() == 2)
                    holder.rollback()
                thread.join(30)
                jobs = [job.id for job in store.jobs(Filter("t"), 0, 99) if job.body == body]
                assert told == [jobs]
                assert len(jobs) == 1


# ---- an administrator ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
def test_a_connection_that_an_administrator_ends_in_the_middle_is_replaced(server, truth, name):
    if server.program != "postgres":
        pytest.skip("needs a lock that a test can take")
    end = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND wait_event_type = 'Lock'"
    )
    schema = truth.partition("schema=")[2].partition("&")[0]
    with open(truth) as store:
        put(store)
        told = []

        def call():
            try:
                told.append(CALLS[name](store))
            except StoreError as error:
                told.append(error)

        with server.connect(autocommit=False) as holder, server.connect() as admin:
            for table in ("due", "worker", "topic", "run", "job", "live_key"):
                holder.execute(f"LOCK TABLE {schema}.pywheel_{table} IN ACCESS EXCLUSIVE MODE")
            thread = threading.Thread(target=call)
            thread.start()
            until(lambda: not thread.is_alive() or admin.execute(end).fetchone()[0] == 1)
            holder.rollback()
        thread.join(30)
        [outcome] = told
        assert not isinstance(outcome, StoreError), repr(outcome)
        CALLS[name](store)


# ---- workers --------------------------------------------------------------------------------------------------------


def test_a_worker_keeps_its_acks_while_the_server_is_away_and_goes_on_when_it_is_back(server, proxy, truth):
    with open(through(truth, proxy, server)) as store:
        queue = JobQueue(store)
        go, began = threading.Event(), threading.Event()
        runs = []

        @queue.handler("t", ttr="1m", retry=Fixed(0))
        def handle(job):
            runs.append(job.id)
            began.set()
            assert go.wait(60)

        with working(queue), JobQueue(truth) as other:
            id = other.put("t")
            assert began.wait(60)
            proxy.cut()
            go.set()
            time.sleep(1.5)
            late = other.put("t")
            proxy.heal()
            assert finished(other, id).attempt == 1
            assert finished(other, late).attempt == 1
        assert runs == [id, late]


@pytest.mark.parametrize("how", ["kill", "stop", "pause"])
def test_workers_outlive_their_server(server, truth, how):
    queue = JobQueue(truth)
    runs = []
    queue.handler("t", retry=Fixed(0))(lambda job: runs.append(job.id))
    worker = Worker(queue, grace=60)
    worker.start()
    try:
        finished(queue, queue.put("t"))
        far = queue.put("t", delay=2)
        getattr(server, how)()
        time.sleep(1.5)
        if how == "pause":
            server.resume()
        else:
            server.start()
        assert finished(queue, far).attempt == 1
        assert finished(queue, queue.put("t")).attempt == 1
    finally:
        worker.stop()
        assert worker.join(60)
        queue.close()
    assert len(set(runs)) == len(runs)
