"""Connections that are ended while the server is in the middle of a statement, which waits for a lock of the test's."""

import contextlib
import time

import pytest

from pywheel import OutcomeUnknown, StoreAway, StoreBusy, StoreError
from pywheel.jobs import NewJob
from pywheel.jobs.queries import ListJobs
from pywheel.stores import Filter, open
from pywheel.stores.sql.statement import Select
from tests.jobs.waiting import until
from tests.stores.calls import CALLS, put
from tests.stores.network import Proxy
from tests.stores.server import store_of

WAITING = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND wait_event_type = 'Lock'"
TABLES = ["topic", "job", "finished", "attempt", "tally", "nonce", "note", "member"]


def test_a_commit_in_doubt_is_asked_after_until_a_connection_is_free(postgres_server, monkeypatch):
    with open(postgres_server.url()) as store:
        session = store.own(store._steps, time.monotonic() + 60)
        session.send([Select("SELECT 1")])
        session.commit(())
        run, tries = store.run, []

        def busy(*batch, until=None):
            tries.append(batch)
            if len(tries) == 1:
                raise StoreBusy("all connections were busy")
            return run(*batch, until=until)

        monkeypatch.setattr(store, "run", busy)
        assert session._happened(None)
        assert len(tries) == 2


@pytest.mark.parametrize("stored", ["mine", "theirs", "nothing"])
def test_a_put_in_doubt_is_taken_for_stored_after_a_restart_if_its_own_job_has_its_id(
    postgres_server, monkeypatch, stored
):
    """After a restart on an older state another's may have it."""
    url = postgres_server.url()
    with open(url) as store, open(url) as other:
        put(store)
        commit = store.own._commit

        def lose(session, batch):
            monkeypatch.undo()
            if stored == "mine":
                commit(session, batch)
            session.abandon()
            session._born = "before the restart"
            if stored == "theirs":
                store.run(Select(f"SELECT setval('{store.dialect.tables}id', 1)"))
                assert put(other, NewJob("t", b"theirs", 0)) == [2]
            raise StoreAway("the connection broke")

        monkeypatch.setattr(store.own, "_commit", lose)
        said = pytest.raises(OutcomeUnknown) if stored == "theirs" else contextlib.nullcontext()
        with said:
            put(store, NewJob("t", b"mine", 0, headers={"a": "b"}), nonce="n")
        bodies = [job.body for job in store.ask(ListJobs(Filter("t"), 0, 99))]
        assert bodies == [b"x", b"theirs" if stored == "theirs" else b"mine"]


@pytest.mark.parametrize("key", [None, "k"])
def test_a_put_whose_first_try_is_still_under_way_happens_once(postgres_server, pool, key):
    """The connection broke, and the server has not noticed: what is sent again waits for the first, and is that."""
    truth = postgres_server.url()
    with Proxy(postgres_server) as proxy, open(postgres_server.again(truth, via=proxy)) as store:
        put(store)

        def waited():
            seen.update(pid for [pid] in watcher.execute(f"SELECT pid {WAITING}"))
            return len(seen)

        seen = set()
        with postgres_server.connect(autocommit=False) as holder, postgres_server.connect() as watcher:
            holder.execute(f"LOCK TABLE {store_of(truth)}.pywheel_job IN SHARE MODE")
            asked = pool.submit(put, store, NewJob("t", b"once", 0, key))
            until(lambda: waited() == 1)
            proxy.cut_once()
            until(lambda: waited() == 2)
            holder.rollback()
        ids = asked.result(60)
        jobs = [job.id for job in store.ask(ListJobs(Filter("t"), 0, 99)) if job.body == b"once"]
        assert len(jobs) == 1
        assert ids == jobs


def test_a_connection_that_an_administrator_ends_in_the_middle_is_replaced(postgres_server, pool, subtests):
    url = postgres_server.url()
    locked = ", ".join(f"{store_of(url)}.pywheel_{table}" for table in TABLES)
    end = f"SELECT count(pg_terminate_backend(pid)) {WAITING}"
    with open(url) as store, postgres_server.connect() as admin:
        put(store)
        for name, call in CALLS.items():
            with subtests.test(name):
                with postgres_server.connect(autocommit=False) as holder:
                    holder.execute(f"LOCK TABLE {locked} IN ACCESS EXCLUSIVE MODE")
                    asked = pool.submit(call, store)
                    # All that wait are ended once: a call that is ended again has lost two connections, and says so.
                    until(lambda asked=asked: asked.done() or admin.execute(end).fetchone()[0])
                    holder.rollback()
                asked.result(60)
                call(store)


def test_a_session_that_was_given_up_while_it_waits_for_a_lock_ends_before_the_lock(postgres_server):
    """Else each call behind a foreign lock, such as that of VACUUM FULL, would leave one more."""
    truth = postgres_server.url()
    open(truth).close()
    url = postgres_server.again(truth, timeout="1s")  # which has no tables to make
    with open(url) as store, postgres_server.connect() as admin:
        if admin.info.server_version < 140_000:
            pytest.skip("this server does not look whether its client is there")
        put(store)
        with postgres_server.connect(autocommit=False) as holder:
            holder.execute(f"LOCK TABLE {store_of(url)}.pywheel_job IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StoreError):
                put(store)
            with pytest.raises(StoreError):
                store.ask(ListJobs(Filter("t"), 0, 9))
            until(lambda: admin.execute(f"SELECT count(*) = 0 {WAITING}").fetchone()[0], 20)
