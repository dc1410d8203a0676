"""A server that dies, stops, or is cut off in the middle: its answers are true, and no call waits beyond its time."""

import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count

import pytest

from pywheel import Fixed, JobQueue, OutcomeUnknown, StoreAway, StoreBusy, StoreError, StoreReadOnly
from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob, ListJobs
from pywheel.stores import Filter, open
from tests.jobs.waiting import Stopwatch, finished, until, working
from tests.stores import servers
from tests.stores.calls import CALLS, TERMS, listening, put
from tests.stores.network import Proxy, kept_at_each_message
from tests.stores.server import store_of

LIMIT = 2.0  # seconds, of the impatient store; sent commands may be in doubt for that long
SLACK = 7.0  # with the limit, less than the default limit


@pytest.fixture
def proxy(server):
    with Proxy(server) as proxy:
        yield proxy


@pytest.fixture
def truth(server):
    """The address, straight to the server."""
    return server.url()


@pytest.fixture
def store(server, proxy, truth):
    """A store by way of the proxy."""
    with open(server.again(truth, via=proxy)) as store:
        put(store)
        yield store


@pytest.fixture
def impatient(server, proxy, truth, store):
    """Opens the same with a short time limit."""
    with ExitStack() as stores:

        def impatient():
            store = stores.enter_context(until(partial(opened, server.again(truth, via=proxy, timeout=f"{LIMIT:g}"))))
            until(lambda: counted(store) is not None)
            return store

        yield impatient


def opened(url):
    """Return a store, None if it was not open within its short time limit."""
    with suppress(StoreAway, StoreBusy):
        return open(url)


def counted(store):
    """Return the counts, None if they did not come within the store's short time limit."""
    with suppress(StoreAway):
        return store.ask(CountJobs())


def test_no_answer_is_waited_for_beyond_the_time_limit(impatient, proxy, pool, subtests):
    """All calls wait at once, each on a store of its own."""
    stores = {name: impatient() for name in CALLS}
    proxy.stall()
    watch = Stopwatch()
    waiting = {name: pool.submit(CALLS[name], store) for name, store in stores.items()}
    errors = {name: call.exception() for name, call in waiting.items()}
    assert watch.seconds() < LIMIT + SLACK
    proxy.heal()
    proxy.cut_once()
    for name, store in stores.items():
        with subtests.test(name):
            assert isinstance(errors[name], StoreAway | StoreBusy)
            assert "\n" not in str(errors[name])
            until(lambda store=store: counted(store))


def test_many_threads_that_put_on_a_stopped_server_wait_no_longer_than_one(server, pool):
    limit = 3.0
    with Proxy(server) as proxy, open(server.url(via=proxy, timeout=f"{limit:g}")) as store:
        put(store)

        def late(*jobs):
            watch = Stopwatch()
            with pytest.raises((StoreAway, StoreBusy, OutcomeUnknown)):
                put(store, *jobs)
            return watch.seconds()

        proxy.stall()
        keyed = [(NewJob("t", b"", 0, key=f"k{n}"),) for n in range(3)]
        calls = [pool.submit(late, *jobs) for jobs in [*keyed, *[()] * 6]]
        try:
            assert max(call.result(60) for call in calls) < 2.5 * limit  # a try to connect takes up to that limit more
        finally:
            proxy.heal()


def test_a_server_that_is_away_is_so_in_time_and_the_next_call_after_it_came_back_works(impatient, proxy, subtests):
    for name, call in CALLS.items():
        with subtests.test(name):
            store = impatient()  # which remembers no answer to another call
            proxy.cut()
            watch = Stopwatch()
            with pytest.raises(StoreAway):
                call(store)
            assert watch.seconds() < LIMIT + SLACK
            proxy.heal()
            call(store)


def test_a_connection_that_was_closed_while_idle_is_not_noticed(store, proxy, subtests):
    for name, call in CALLS.items():
        with subtests.test(name):
            for _ in range(2):
                proxy.cut_once()
                call(store)


# ---- in the middle of a commit --------------------------------------------------------------------------------------


def direct(store, n):
    return put(store, NewJob("t", b"%d" % n, 0))


def several(store, n):
    return put(store, NewJob("t", b"%d" % n, 0), NewJob("t", b"%d+" % n, 0, f"k{n}"))


def once(store, n):
    return put(store, NewJob("t", b"%d" % n, 0), nonce=f"n{n}")


def moved(store, n):
    [id] = put(store, NewJob("t", b"%d" % n, 0))
    return store.apply([ops.Edit(id, 10**12 + n)])


def claimed(store, n):
    [id] = put(store, NewJob("t", b"%d" % n, 0))
    [outcome] = store.apply([ops.Claim("t", (id,), TERMS._replace(ttr=3_600_000), "w", 1)])
    return [job.id for job in outcome.jobs]


def cut_at_each_byte(store, proxy, change, way):
    """Cut the connection ever later within a change; yield its number, what it returned, and what the error said."""
    change(store, 0)
    before = proxy.passed[way]
    change(store, 1)
    size = proxy.passed[way] - before
    step = max(size // 24, 1)
    for n, cut in enumerate(range(1, size + step, step), 2):
        told = said = None
        proxy.cut_after(**{way: cut})
        try:
            told = change(store, n)
        except StoreAway as error:
            said = str(error)
        proxy.heal()
        yield n, told, said


HAPPENED = {
    moved: lambda job: job.due == 10**12 + int(job.body),
    claimed: lambda job: job.state is State.RUNNING,
}


@pytest.mark.parametrize("way", ["requests", "answers"])
@pytest.mark.parametrize("change", [direct, several, once, moved, claimed], ids=lambda change: change.__name__)
def test_cut_at_any_byte_what_was_told_has_happened_once_and_what_was_not_has_not(server, proxy, truth, change, way):
    """Unless the error says that it is not known."""
    with open(server.again(truth, via=proxy)) as store, open(truth) as other:
        answers = list(cut_at_each_byte(store, proxy, change, way))
        found = other.ask(ListJobs(Filter("t"), 0, 10_000))
    jobs = {job.body: job for job in found}
    assert len(jobs) == len(found)
    for n, told, said in answers:
        job = jobs.get(b"%d" % n)
        happened = job is not None and HAPPENED.get(change, bool)(job)
        if told is None:
            assert not happened or "not known" in said, (n, said)
        else:
            # A claim gets nothing if the connection that was cut holds the job locked: it is left as it was.
            assert happened is bool(told and told[0]), (n, told)
            assert change is moved or not told or told[0] == job.id


# ---- killed ---------------------------------------------------------------------------------------------------------


def test_what_was_told_before_the_server_was_killed_is_there_once(durable_server):
    url = durable_server.url(timeout="20s")
    over, told, moved = threading.Event(), [], []

    def write(store, name):
        for number in count():
            if over.is_set():
                return
            body = f"{name}-{number}"
            with suppress(StoreError):
                [id] = put(store, NewJob("t", body.encode(), 0, body if number % 2 else None))
                told.append(body.encode())
                if store.apply([ops.Edit(id, 10**12)]) == [ops.Change.MADE]:
                    moved.append(id)

    with open(url) as one, open(url) as other, ThreadPoolExecutor(3) as threads:
        assert one.durability == "fsync"
        writers = [threads.submit(write, store, name) for store, name in ((one, "a"), (one, "b"), (other, "c"))]
        for _ in range(4):
            before = len(told)
            until(lambda before=before: len(told) > before + 20)
            durable_server.kill()
            durable_server.start()
        over.set()
        for writer in writers:
            writer.result()
        found = {job.id: job for job in one.ask(ListJobs(Filter("t"), 0, 10**6))}
        bodies = Counter(job.body for job in found.values())
        assert set(told) <= set(bodies)
        assert max(bodies.values()) == 1
        assert {found[id].due for id in moved} == {10**12}
        assert one.ask(CountJobs())["t"].delayed == len(found)


@pytest.mark.parametrize("durable_server", ["postgres"], indirect=True)
def test_a_store_declares_no_more_than_the_settings_of_its_server_promise(durable_server, postgres_server):
    with open(postgres_server.url()) as store:
        assert store.durability == "memory"  # it has fsync=off
    for setting, promised in {"on": "fsync", "local": "fsync", "off": "everysec"}.items():
        with open(durable_server.url(options=f"-csynchronous_commit={setting}")) as store:
            assert store.durability == promised


# ---- workers --------------------------------------------------------------------------------------------------------


def test_a_worker_keeps_its_acks_while_the_server_is_away_and_goes_on_when_it_is_back(server, proxy, truth):
    with open(server.again(truth, via=proxy)) as store:
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


@pytest.mark.drawn(4)
@pytest.mark.parametrize("how", ["kill", "stop", "pause"])
def test_workers_outlive_their_server(server, truth, how):
    runs = []
    with JobQueue(truth) as queue:
        queue.handler("t", retry=Fixed(0))(lambda job: runs.append(job.id))
        with working(queue):
            finished(queue, queue.put("t"))
            far = queue.put("t", delay=2)
            getattr(server, how)()
            time.sleep(1.5)
            (server.resume if how == "pause" else server.start)()
            assert finished(queue, far).attempt == 1
            assert finished(queue, queue.put("t")).attempt == 1
    assert len(set(runs)) == len(runs)


@pytest.fixture(params=["postgres", "mariadb"])
def switched(request):
    """A store, the way to it, and its address on another server; and what makes its own a replica that lives on."""
    kind = servers.KINDS[request.param]
    started = contextmanager(servers.started)
    with started(kind) as old, started(kind) as new, Proxy(old) as proxy, ExitStack() as stores:
        user, only_reads = {}, "default_transaction_read_only"
        if request.param == "mariadb":
            user, only_reads = {"user": "shop"}, "read_only"  # the user root may write all the same
            for each in (old, new):
                each.run("CREATE USER shop", "GRANT ALL ON `db%`.* TO shop")
        url = old.url(via=proxy, **user)
        there = next(there for there in iter(new.url, None) if store_of(there) == store_of(url))
        with open(there) as replica:
            put(replica)  # as on a replica, the topic has its number

        def switch():
            old.alter(only_reads, "on")
            proxy.lead_to(new, at_once=False)

        yield stores.enter_context(open(url)), there, switch


def test_a_server_that_only_reads_and_lives_on_is_left_for_the_one_to_which_the_address_leads(switched):
    store, there, switch = switched
    ears = listening(store)
    for jobs in ((), (), (NewJob("t", b"", 0, key="k"),)):  # each lane has its connection
        put(store, *jobs)
    switch()
    with pytest.raises(StoreReadOnly):
        ears.beat(0)
    ears.beat(0)
    for jobs in ((), (NewJob("t", b"", 0, key="k"),)):
        with pytest.raises(StoreReadOnly):
            put(store, *jobs)
        put(store, *jobs)
    with open(there) as other:
        assert other.ask(CountJobs())["t"].delayed == store.ask(CountJobs())["t"].delayed == 3


def test_a_worker_goes_on_there_after_its_server_only_reads(switched):
    store, there, switch = switched
    queue = JobQueue(store)
    queue.handler("t")(lambda job: None)
    with working(queue):
        finished(queue, queue.put("t"))
        switch()
        with JobQueue(there) as other:
            assert finished(other, other.put("t")).attempt == 1


def test_a_claim_that_is_cut_off_before_it_is_whole_keeps_its_job_for_seconds_at_most(server, proxy, truth):
    """The network keeps each of its messages in turn, and the server hears nothing of that worker any more."""
    with open(server.again(truth, via=proxy, timeout="50")) as lost, JobQueue(truth) as queue:
        ids, answers = {}, []

        def begin(topic):
            ids[topic] = queue.put(topic)
            return partial(lost.apply, [ops.Claim(topic, (ids[topic],), TERMS, "lost", 1)])

        for topic, answer in kept_at_each_message(proxy, begin):
            answers.append(answer)
            if not answer.done():  # unless what is kept came after its commit
                id = ids[topic]
                until(lambda topic=topic, id=id: queue.reserve(topic) or queue.get(id).state == State.RUNNING, 20)
        assert {type(answer.exception()) for answer in answers} <= {type(None), StoreAway}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")
def test_an_interrupt_in_the_middle_of_a_put_is_raised_at_once_and_its_connection_is_used_no_more(store, proxy):
    def interrupted(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        proxy.stall(requests=False)  # the server does it, and the answer does not come
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            put(store, NewJob("t", b"interrupted", 0))
    finally:
        signal.signal(signal.SIGALRM, before)
        proxy.heal()
    [id] = put(store, NewJob("t", b"next", 0))
    assert store.ask(GetJob(id)).body == b"next"
    assert len([job for job in store.ask(ListJobs(Filter("t"), 0, 99)) if job.body == b"interrupted"]) <= 1
