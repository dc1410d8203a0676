"""Confirmed commits survive the server's death, deadlocks of transactions, and threads that race for keys."""

import contextlib
import time
from collections import Counter

import pytest

from pywheel import JobExists, StoreAway
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, ListJobs
from pywheel.stores import Filter, open
from pywheel.stores.mysql.connection import AlreadyThere, Timed
from pywheel.stores.mysql.session import requested
from pywheel.stores.sql.statement import Do
from tests.stores.calls import TERMS, in_threads, listening, put


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


def test_no_transaction_is_left_open_by_a_commit_that_is_told_of(mariadb_server):
    """An open one holds locks on what tables are, for which ALTER TABLE would wait, and all who come behind it."""
    with open(mariadb_server.url()) as store, mariadb_server.connect() as administrator:
        listening(store)
        [id] = put(store, NewJob("t", b"", 0))
        assert store.apply([ops.Edit(id, 10**12)]) == [ops.Change.MADE]
        with administrator.cursor() as cursor:
            writers = [lane.writer.thread_id() for lane in store.lanes if lane.writer is not None]
            assert len(writers) == 2
            for writer in writers:
                text = f"SELECT 1 FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = {writer}"
                assert cursor.execute(text) == 0


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
        with store._use() as connection, pytest.raises(AlreadyThere), store.translated:
            store.send(connection, [requested(client, session._number)], None)


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
