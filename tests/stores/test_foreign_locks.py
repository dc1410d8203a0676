"""A transaction that another program leaves open delays only callers that need its locks."""

import asyncio
import contextlib
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from pywheel import JobExists, JobQueue, Limit, StoreAway, StoreBusy, StoreError
from pywheel.jobs import State
from pywheel.jobs.commands import Ack, Claim, ClaimPolicy, Expire, Purge, SetNote
from pywheel.jobs.limits import limits_of, note_of
from pywheel.jobs.queries import CountJobs
from pywheel.stores import mysql, postgres
from pywheel.stores.relational.lanes import Lane
from pywheel.stores.relational.session import OwnSession
from pywheel.stores.sql.statement import Rows
from tests.jobs.waiting import until, working
from tests.stores.calls import ended
from tests.stores.emptied import emptied

SOME = 5  # jobs of each topic that goes on
CLAIM = Claim("known", (), ClaimPolicy(60_000, 5), "w", 10, limit=10)


@pytest.fixture
def url(sql_server):
    return emptied(sql_server)


def waits(url, seconds):
    """Return the address of a store that waits for so long."""
    return f"{url}{'&' if '?' in url else '?'}timeout={seconds}"


@pytest.fixture
def queue(url):
    with JobQueue(waits(url, 60)) as queue:  # so that what waits does, however slow all else is
        queue.put("known", delay="1h")
        yield queue


@pytest.fixture
def connection(sql_server, queue):
    """Another program's connection, which is in a transaction of its own."""
    options = {"database": queue.store.address.database} if sql_server.program == "mariadbd" else {}
    with contextlib.closing(sql_server.connect(autocommit=False, **options)) as connection:
        yield connection


@pytest.fixture
def theirs(queue, url):
    """Another process's queue, which knows the topic's priorities."""
    with JobQueue(url) as theirs:
        assert theirs.reserve("known") == []
        yield theirs


def everything_else_goes_on(queue, *waiting):
    """Put, move, cancel, claim, renew and ack other jobs, by hand and by a worker, while some wait."""
    for number in range(SOME):
        id = queue.put("known", key=f"another {number}", delay="1h")
        assert queue.reschedule(id, delay="2h")
        assert queue.cancel(id)
        queue.put("known", b"%d" % number)
        queue.put("other", b"%d" % number, key=f"mine {number}")
        for topic in ("known", "other"):
            [job] = queue.reserve(topic, 1)
            assert job.body == b"%d" % number
            assert queue.touch(job)
            assert queue.ack(job)
    queue.handler("worked")(lambda job: None)
    with working(queue):
        for _ in range(SOME):
            queue.put("worked")
        until(lambda: queue.topics.counts()["worked"].done == SOME)
    assert not any(one.done() for one in waiting)


@pytest.fixture
def others(queue):
    """Topics that are known: their first puts take nothing that others hold."""
    for topic in ("other", "worked"):
        queue.cancel(queue.put(topic, delay="1h"))


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_key_that_an_open_transaction_holds_holds_up_only_the_put_of_that_key(pool, queue, connection, end):
    queue.put("known", b"theirs", key="k", connection=connection, delay="1h")
    waiting = [pool.submit(queue.put, "known", b"ours", key="k", delay="1h") for _ in range(20)]
    everything_else_goes_on(queue, *waiting)
    getattr(connection, end)()
    assert sum(isinstance(ended(one), JobExists) for one in waiting) == (20 if end == "commit" else 19)
    assert queue.get(("known", "k")).body == (b"theirs" if end == "commit" else b"ours")


@pytest.mark.usefixtures("others")
def test_the_first_put_of_a_topic_in_an_open_transaction_holds_up_nobody(queue, connection):
    theirs = queue.put("new", b"theirs", connection=connection, delay="1h")
    ours = queue.put("new", b"ours", delay="1h")
    everything_else_goes_on(queue)
    assert [job.id for job in queue.jobs.list("new")] == [ours]
    connection.commit()
    assert {job.id for job in queue.jobs.list("new")} == {ours, theirs}


@pytest.mark.usefixtures("others")
def test_the_first_priority_of_a_topic_in_an_open_transaction_holds_up_only_those_who_want_it(pool, queue, connection):
    queue.put("known", b"theirs", priority=5, connection=connection, delay="1h")
    waiting = pool.submit(queue.put, "known", b"ours", priority=5, delay="1h")
    for number in range(SOME):
        queue.put("known", b"%d" % number)
        [job] = queue.reserve("known", 1)
        assert queue.ack(job)
    connection.commit()
    assert isinstance(ended(waiting), int)
    assert sorted(job.body for job in queue.jobs.list("known") if job.priority) == [b"ours", b"theirs"]


@pytest.mark.usefixtures("others")
def test_a_running_job_that_an_open_transaction_looked_at_holds_up_at_most_its_own_ack(pool, queue, connection):
    queue.put("known", key="k")
    [running] = queue.reserve("known", 1)
    with pytest.raises(JobExists):
        queue.put("known", b"next", key="k", connection=connection)
    ack = pool.submit(queue.ack, running)
    everything_else_goes_on(queue)
    connection.commit()
    assert ended(ack) is True


def test_claims_go_on_beside_many_ends_of_which_one_waits_for_a_lock(pool, queue, connection):
    queue.put("known", key="k")
    queue.put_many([queue.job("known") for _ in range(350)])
    running = queue.reserve("known", 300)
    with pytest.raises(JobExists):
        queue.put("known", b"next", key="k", connection=connection)
    step = pool.submit(queue.store.apply, [*[Ack(job.id, job.claims) for job in running], CLAIM])
    until(lambda: queue.store.ask(CountJobs())["known"].running > 300)
    assert not step.done()
    connection.commit()
    *ends, claimed = ended(step)
    assert ends == [True] * 300
    assert len(claimed.jobs) == 10


def test_ends_are_stored_though_the_connection_of_the_claims_beside_them_breaks(queue, monkeypatch):
    queue.put_many([queue.job("known") for _ in range(400)])
    running = queue.reserve("known", 300)
    writing = Lane.writing

    def broken(lane, until):
        if lane is queue.store._claims:
            raise StoreAway("the network is cut")
        return writing(lane, until)

    monkeypatch.setattr(Lane, "writing", broken)
    *ends, claimed = queue.store.apply([*[Ack(job.id, job.claims) for job in running], CLAIM])
    assert ends == [True] * 300
    assert isinstance(claimed, StoreAway)


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("limit", [{"limit": 5}, {"limit": Limit(5, per=":")}, {"rate": "1000/s"}], ids=str)
def test_a_claim_under_a_limit_that_does_not_end_holds_up_only_its_topic(queue, connection, limit):
    """The claim of a process that was stopped in the middle of it."""
    handled = threading.Event()
    queue.handler("limited", **limit)(lambda _: handled.set())
    queue.store.apply([SetNote(note_of("limited"), b"")])
    with connection.cursor() as cursor:
        note = f"{queue.store.dialect.tables}note"
        cursor.execute(f"SELECT value FROM {note} WHERE label = %s FOR UPDATE", [note_of("limited").encode()])
    queue.put("limited", key="group:1")
    everything_else_goes_on(queue)
    assert not handled.is_set()
    connection.rollback()
    with working(queue):
        assert handled.wait(60)


@pytest.mark.parametrize("locked", [3, 4, 12, 60])
@pytest.mark.parametrize(
    ("limit", "rate", "starts"),
    [(1, None, 1), (2, None, 2), (Limit(1, per=":"), None, 4), (None, "1/10s", 1), (3, "100/s", 3)],
    ids=str,
)
def test_jobs_that_an_open_transaction_has_locked_hold_up_no_others_under_a_limit(
    queue, connection, limit, rate, starts, locked
):
    ids = queue.put_many([queue.job("known", key=f"{n}:") for n in range(locked + 6)])
    for id in ids[:locked]:
        assert queue.cancel(id, connection=connection)
    policy = ClaimPolicy(60_000, 5, limits=limits_of(limit, rate))
    [claimed] = queue.store.apply([Claim("known", (), policy, "w", 4, limit=12)])
    assert [job.id for job in claimed.jobs] == ids[locked : locked + starts]
    assert not {due.id for due in claimed.left} & {job.id for job in claimed.jobs}


@pytest.mark.parametrize("awaited", [False, True], ids=["a thread", "a task"])
def test_who_waits_for_a_key_in_vain_learns_what_to_do(pool, url, connection, awaited):
    with JobQueue(waits(url, 4)) as queue:

        def put():
            return asyncio.run(queue.aio.put("known", key="k")) if awaited else queue.put("known", key="k")

        queue.put("known", key="k", connection=connection)
        errors = [ended(one) for one in [pool.submit(put) for _ in range(20)]]
        assert {type(error) for error in errors} == {StoreBusy}
        assert {str(error).rpartition(": ")[2] for error in errors} == {"end that transaction, and try again"}
        connection.rollback()
        assert [job for job in queue.jobs.list("known") if job.key] == []
        assert type(put()) is int


@pytest.mark.parametrize("others", [{"key": "k"}, {"priority": 5}])
def test_of_jobs_due_at_one_time_those_that_a_thread_put_first_come_first(queue, others):
    at = datetime.now(UTC) - timedelta(minutes=1)
    for number in range(40):
        words = {**others, "key": f"k{number}"} if "key" in others else others
        queue.put("order", str(number).encode(), at=at, **(words if number % 3 == 0 else {}))
    jobs = queue.reserve("order", 100)
    for some in ([job for job in jobs if job.priority], [job for job in jobs if not job.priority]):
        bodies = [int(job.body) for job in some]
        assert bodies == sorted(bodies)


def test_a_key_in_an_open_transaction_holds_up_no_other_task_of_a_loop(queue, connection):
    queue.put("known", key="k", connection=connection, delay="1h")
    running = queue.put("known", b"running")

    async def run():
        waiting = [asyncio.create_task(queue.aio.put("known", key="k")) for _ in range(20)]
        await asyncio.sleep(0)
        for number in range(20):
            at_once = (
                queue.aio.put("known", delay="1h"),
                queue.aio.put("known", key=f"free {number}"),
                queue.aio.put(f"new {number}"),
            )
            assert all(type(id) is int for id in await asyncio.gather(*at_once))
            if number == 0:
                [job] = await queue.aio.reserve("known")
                assert job.id == running
                assert await queue.aio.ack(job)
        assert not any(one.done() for one in waiting)
        await asyncio.to_thread(connection.commit)
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(one) for one in outcomes} == {JobExists}

    asyncio.run(run())


def test_a_queue_that_is_closed_while_a_task_waits_for_a_key_answers_it(url, connection):
    async def run():
        with JobQueue(waits(url, 2)) as queue:
            queue.put("known", key="k", connection=connection)
            waiting = asyncio.create_task(queue.aio.put("known", key="k"))
            await queue.aio.put("known", delay="1h")
            await asyncio.to_thread(queue.close)
            with pytest.raises(StoreError):
                await waiting

    asyncio.run(run())


class Stopped:
    """A change that stands still before its commit, as in a process that is stopped there."""

    def __init__(self, monkeypatch, pool):
        self._pool = pool
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._thread = None
        self.tries = 0
        commits = OwnSession.commit

        def commit(session, batch, put=None):
            if threading.current_thread() is self._thread:
                session.send(batch)
                self.tries += 1
                self._reached.set()
                self._go_on.wait(60)
                batch = ()
            return commits(session, batch, put)

        monkeypatch.setattr(OwnSession, "commit", commit)
        # However slow all else is, no server ends it meanwhile.
        monkeypatch.setattr(mysql.connection, "_IDLE", 60)
        monkeypatch.setattr(postgres.connection, "_SETTINGS", postgres.connection._SETTINGS.replace("3000", "60000"))

    def begin(self, change, *arguments):
        self._waiting = self._pool.submit(self._run, change, *arguments)
        assert self._reached.wait(60)

    def _run(self, change, *arguments):
        self._thread = threading.current_thread()
        return change(*arguments)

    def ended(self):
        self._go_on.set()
        return ended(self._waiting)


@pytest.fixture
def stopped(monkeypatch, pool):
    return Stopped(monkeypatch, pool)


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("look", [Expire(10), Purge(State.DEAD, 0, None, 10), Purge(State.DONE, 0, None, 10)])
def test_a_process_stopped_as_it_looks_for_what_is_over_holds_up_no_job_that_runs(queue, theirs, stopped, look):
    queue.put_many([queue.job("known", b"%d" % number) for number in range(10)])
    [lost] = queue.reserve("known", 1, ttr=0.001)
    running = queue.reserve("known", 9)
    queue.ack(running.pop())
    time.sleep(0.1)  # the first lease is over
    stopped.begin(theirs.store.apply, [look])
    assert all(queue.ack(job) for job in running)
    assert queue.topics.pause("other")
    [outcome] = stopped.ended()
    assert not isinstance(outcome, StoreError)
    assert stopped.tries == 1  # nobody waited until the server rolled it back
    assert queue.get(lost.id).state is State.DELAYED


@pytest.mark.usefixtures("others")
def test_a_process_stopped_as_it_claims_what_is_due_holds_up_no_job_that_is_due_later(queue, theirs, stopped):
    later = queue.put("known", delay=600)
    due = queue.put("known")
    stopped.begin(theirs.store.apply, [CLAIM])
    assert queue.reschedule(later, delay=1200)
    [claimed] = stopped.ended()
    assert [job.id for job in claimed.jobs] == [due]
    assert stopped.tries == 1


def test_no_claim_is_dated_before_its_job_was_due(queue, theirs, monkeypatch):
    queue.put("known", priority=1, delay="1h")
    theirs.reserve("known")  # so that it knows that priority
    sends = OwnSession.send

    def slowly(session, batch):
        time.sleep(0.1)
        return sends(session, batch)

    for delay in (0.05, 0.15, 0.25):  # due before, between and after the trips of a claim
        id = queue.put("known", delay=delay)
        with monkeypatch.context() as slow:
            slow.setattr(OwnSession, "send", slowly)
            while not (jobs := theirs.reserve("known")):
                pass
        assert [job.id for job in jobs] == [id]
        assert queue.jobs.history(id)[0].started >= jobs[0].due


def test_what_a_claim_takes_as_its_topic_is_resumed_is_told(queue, theirs, monkeypatch):
    sends = OwnSession.send

    def torn(session, batch):
        if len(batch) == 3 and isinstance(batch[2], Rows) and "looked" in batch[2].columns:
            [paused] = sends(session, batch[:1])
            queue.topics.resume("known")
            return [paused, *sends(session, batch[1:])]
        return sends(session, batch)

    id = queue.put("known")
    queue.topics.pause("known")
    monkeypatch.setattr(OwnSession, "send", torn)
    [claimed] = theirs.store.apply([CLAIM])
    assert [job.id for job in claimed.jobs] == [id]
    assert not claimed.paused


def test_due_jobs_behind_many_that_a_transaction_holds_are_claimed(queue, theirs, connection):
    held = queue.put_many([queue.job("known") for _ in range(100)])
    free = queue.put_many([queue.job("known") for _ in range(20)])
    for id in held:
        queue.jobs.edit(id, headers={"by": "them"}, connection=connection)
    claims = [theirs.store.apply([CLAIM])[0] for _ in range(2)]
    assert [job.id for claimed in claims for job in claimed.jobs] == free
