"""What was told survives the server's death, transactions that wait for each other, and threads that race for keys."""

import contextlib
import threading
import time
from collections import Counter

import pytest

from pywheel import JobExists, StoreAway, StoreError
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import ClaimPolicy
from pywheel.jobs.queries import CountJobs, GetJob, ListJobs
from pywheel.stores import Filter, open
from pywheel.stores.mysql.connection import AlreadyThere, Timed
from pywheel.stores.mysql.session import requested
from pywheel.stores.sql.statement import Do
from tests.jobs.waiting import until
from tests.stores import servers
from tests.stores.network import Proxy

TERMS = ClaimPolicy(60_000, 3)


def put(store, *jobs):
    [outcome] = store.apply([ops.Put(jobs)])
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def in_threads(*works):
    """Run them at once; raise what one of them raised."""
    raised = []

    def run(work):
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in raised:
        raise error


@pytest.fixture(scope="module")
def durable():
    yield from servers.started(lambda: servers.MariaDB(fsync=True))


def test_what_was_told_before_the_server_was_killed_is_there_once(durable):
    url = durable.url(timeout="20s")
    over, told, moved = threading.Event(), [], []

    def write(store, name):
        number = 0
        while not over.is_set():
            number += 1
            body = b"%s-%d" % (name, number)
            with contextlib.suppress(StoreError):
                [id] = put(store, NewJob("t", body, 0, key=body.decode() if number % 2 else None))
                told.append(body)
                if store.apply([ops.Edit(id, 10**12)]) == [ops.Change.MADE]:
                    moved.append(id)

    with open(url) as one, open(url) as other:
        put(one, NewJob("t", b"", 0))
        assert one.durability == "fsync"

        def kill():
            for _ in range(4):
                before = len(told)
                until(lambda before=before: len(told) > before + 20)
                durable.kill()
                durable.start()
            over.set()

        in_threads(kill, *(lambda s=s, n=n: write(s, n) for s, n in ((one, b"a"), (one, b"b"), (other, b"c"))))
        found = {job.id: job for job in one.ask(ListJobs(Filter("t"), 0, 10**6))}
        bodies = Counter(job.body for job in found.values())
        assert set(told) <= set(bodies)
        assert max(bodies.values()) == 1
        assert {found[id].due for id in moved} == {10**12}
        assert one.ask(CountJobs())["t"].delayed == len(found)


def test_transactions_in_opposite_orders_all_happen(mariadb_server):
    """Two processes that name the same jobs in their own orders take their locks in one."""
    url = mariadb_server.url()
    with open(url) as one, open(url) as other:
        ids = put(one, *(NewJob("t", b"", 0, key=f"k{n}") for n in range(40)))

        def move(store, ids, by):
            for n in range(30):
                assert store.apply([ops.Edit(id, 10**12 + by + n) for id in ids]) == [ops.Change.MADE] * len(ids)

        in_threads(lambda: move(one, ids, 0), lambda: move(other, ids[::-1], 1_000))
        last = {job.due for job in one.ask(ListJobs(Filter("t"), 0, 99))}
        assert len(last) == 1


def test_of_many_who_put_the_same_keys_each_has_one(mariadb_server):
    url = mariadb_server.url()
    with open(url) as one, open(url) as other:
        put(one, NewJob("t", b"", 0))
        won = []

        def race(store, names):
            for name in names:
                with contextlib.suppress(JobExists):
                    won.append((name, put(store, NewJob("t", b"", 0, key=name))))

        names = [f"k{n}" for n in range(60)]
        in_threads(*(lambda s=s, o=o: race(s, names[::o]) for s in (one, other) for o in (1, -1)))
        assert Counter(name for name, _ in won) == dict.fromkeys(names, 1)


def test_who_reserve_and_cancel_at_once_share_no_job(mariadb_server):
    url = mariadb_server.url()
    with open(url) as one, open(url) as other:
        ids = put(one, *(NewJob("t", b"", 0) for _ in range(400)))
        cancelled, taken = [], []

        def cancel():
            cancelled.extend(id for id in ids[::-1] if one.apply([ops.Cancel(id)]) == [ops.Change.MADE])

        def reserve():
            while jobs := other.apply([ops.Reserve("t", 7, TERMS, "w")])[0]:
                taken.extend(job.id for job in jobs)

        in_threads(cancel, reserve)
        assert sorted(cancelled + taken) == ids
        counts = one.ask(CountJobs())["t"]
        assert (counts.cancelled, counts.running, counts.delayed) == (len(cancelled), len(taken), 0)


def test_counts_stay_right_when_they_are_summed_up(mariadb_server):
    with open(mariadb_server.url()) as store:
        for n in range(30):
            put(store, NewJob(f"t{n % 3}", b"", 0))
        before = store.ask(CountJobs())
        store.run(Do(store.dialect.fold))
        assert store.ask(CountJobs()) == before
        assert len(store.raw(["SELECT seq FROM pywheel_tally"])[0]) == 3


def test_a_put_that_may_have_happened_is_not_said_not_to_have(mariadb_server):
    truth = mariadb_server.url()
    with Proxy(mariadb_server) as proxy, open(truth) as other, open(mariadb_server.again(truth, via=proxy)) as store:
        for _ in range(2):  # an id is left then
            put(store, NewJob("t", b"", 0))
        raised = []

        def lose():
            try:
                put(store, NewJob("t", b"", 0))
            except StoreAway as error:
                raised.append(str(error))

        proxy.stall(requests=False)
        thread = threading.Thread(target=lose)
        thread.start()
        until(lambda: other.ask(CountJobs())["t"].delayed == 3)
        proxy.cut()
        thread.join()
        assert "not known" in raised[0]


def test_no_transaction_is_left_open_by_a_commit_that_is_told_of(mariadb_server):
    """An open one holds locks on what tables are, for which ALTER TABLE would wait, and all who come behind it."""
    with open(mariadb_server.url()) as store, mariadb_server.connect() as administrator:
        notifier = store.notifier("w")
        store.apply([ops.Announce(notifier.worker, ("t",))])
        notifier.publish(10**15)
        [id] = put(store, NewJob("t", b"", 0))
        assert store.apply([ops.Edit(id, 10**12)]) == [ops.Change.MADE]
        with administrator.cursor() as cursor:
            writers = [lane.writer.thread_id() for lane in store.lanes if lane.writer is not None]
            assert len(writers) == 2
            for writer in writers:
                text = f"SELECT 1 FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = {writer}"
                assert cursor.execute(text) == 0
        notifier.close()


def test_a_transaction_that_was_asked_after_and_never_happened_is_not_taken_for_one_that_did(mariadb_server):
    """The question bars it from happening. If the answer is lost and it is asked again, it finds its own bar."""
    with open(mariadb_server.url()) as store:
        session = store.own(store._steps, time.monotonic() + 5)
        client, session._number = store._steps.client, next(store._steps.requests)
        ask, lost = Timed.ask, []

        def lose_the_first(connection, statements):
            results = ask(connection, statements)
            if not lost:
                lost.append(statements)
                raise StoreAway("the answer was lost")
            return results

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Timed, "ask", lose_the_first)
            assert not session._happened(None)
        assert lost
        with store._use() as connection, pytest.raises(AlreadyThere), store.translated():
            store.send(connection, [requested(client, session._number)], None)


def test_the_connection_that_writes_is_kept(mariadb_server):
    """Also by a change that a worker near by is told of, whose row is read after the commit."""
    with open(mariadb_server.url()) as store:
        ears = store.notifier("w")
        store.apply([ops.Announce(ears.worker, ("t",))])
        ears.publish(2**60)
        [id] = put(store, NewJob("t", b"", 0, key="k"))
        put(store, NewJob("t", b"", 0))
        writers = [lane.writer for lane in store.lanes]
        for n in range(3):
            assert store.apply([ops.Edit(id, 10**12 + n)]) == [ops.Change.MADE]
            assert store.apply([ops.Cancel(("nowhere", "k"))]) == [ops.Change.NOT_FOUND]
            assert isinstance(store.apply([ops.Put((NewJob("t", b"", 0, key="k"),))])[0], JobExists)
            put(store, NewJob(f"t{n}", b"", 0))
            put(store, NewJob("t", b"", 0))
        assert [lane.writer for lane in store.lanes] == writers
        assert [writer is not None and writer.open for writer in writers] == [True, True, False, True, False]


def test_many_that_are_acknowledged_wait_for_no_other_row(mariadb_server):
    """Of a small table a server reads all rows, rather than many by their keys, if it may choose."""
    with open(mariadb_server.url(timeout="5s")) as store:
        put(store, *(NewJob("t", b"", 0, key=f"k{n}") for n in range(300)))
        [jobs] = store.apply([ops.Reserve("t", 300, TERMS, "w")])
        *mine, other = jobs
        store.raw(["ANALYZE TABLE pywheel_job, pywheel_finished"])
        database = store.address.database
        with contextlib.closing(mariadb_server.connect(database=database)) as holder, holder.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute("BEGIN")
            cursor.execute(f"SELECT 1 FROM pywheel_job WHERE id = {other.id:d} FOR UPDATE")
            assert store.apply([ops.Ack(job.id, job.claims) for job in mine]) == [True] * len(mine)


def test_an_interrupt_between_a_put_and_its_answer_leaves_no_answer_to_the_next(mariadb_server, monkeypatch):
    class Interrupt(BaseException):
        pass

    given = Timed._read_query_result
    left = [True]

    def interrupted(self, *arguments, **words):
        if left and self is store._puts.writer:
            left.clear()
            raise Interrupt
        return given(self, *arguments, **words)

    with open(mariadb_server.url()) as store:
        put(store, NewJob("t", b"", 0))
        put(store, NewJob("t", b"", 0))
        monkeypatch.setattr(Timed, "_read_query_result", interrupted)
        with pytest.raises(Interrupt):
            put(store, NewJob("t", bytes(60_000), 0))
        assert not left
        for number in range(10):
            [id] = put(store, NewJob("t", b"", 10**15))
            assert store.ask(GetJob(id)).topic == "t", number
            [jobs] = store.apply([ops.Reserve("t", 1, TERMS, "w")])
            assert all(store.apply([ops.Ack(job.id, job.claims) for job in jobs]))
