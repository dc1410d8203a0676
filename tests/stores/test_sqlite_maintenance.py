"""Maintenance of a file beside its writers: its room, its copies."""

import errno
import gc
import os
import sqlite3
import threading
from contextlib import closing, suppress

import pytest

from pywheel import NotAStore, StoreClosed, StoreError, StoreReadOnly
from pywheel.jobs import State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import GetJob, GetNextLease, ListJobs
from pywheel.stores import Filter
from pywheel.stores.sqlite import adopt, checkpoints, maintenance
from tests.jobs.waiting import until
from tests.stores.files import TERMS, connection_of, execute, put, put_many, reopened


def purge_all(store):
    ids = [job.id for job in store.ask(ListJobs(Filter("t"), 0, 100_000))]
    store.apply([ops.Cancel(id) for id in ids])
    while store.apply([ops.Purge(State.CANCELLED, 0, None, 1_000)])[0]:
        pass


def test_the_room_of_purged_jobs_is_given_back_in_steps(path, store):
    put_many(store, 2_000, 1_000)
    [pages] = connection_of(store).execute("PRAGMA page_count").fetchone()
    purge_all(store)
    given = [store.vacuum(100)]
    assert 90 < given[0] <= 102  # pages that say where pages are come on top
    while given[-1]:
        given.append(store.vacuum(300))
    assert max(given) <= 304
    assert sum(given) > pages * 0.9
    put(store)
    assert store.verify() == []


def test_a_file_that_another_program_began_gives_back_after_it_was_rewritten(path, clock):
    execute(path, "CREATE TABLE theirs (id)")
    adopt(path)
    with reopened(path, clock) as store:
        put_many(store, 200, 1_000)
        purge_all(store)
        assert store.vacuum(1_000) == 0
        store.rewrite()
        put_many(store, 200, 1_000)
        purge_all(store)
        assert store.vacuum(1_000) > 10
        assert store.verify() == []


def test_a_backup_beside_writers_is_a_store_with_every_job_told_before(path, tmp_path, pool):
    target = tmp_path / "backup.db"
    with reopened(path) as store:
        put_many(store, 3_000, 1_000)
        over, told = threading.Event(), []

        def work():
            while not over.is_set():
                told.append(put(store))

        writer = pool.submit(work)
        until(lambda: len(told) > 10)
        before = list(told)
        store.backup(target)
        over.set()
        writer.result(60)
        with pytest.raises(StoreError, match="exists"):
            store.backup(target)
    assert sorted(file.name for file in tmp_path.iterdir() if "partial" in file.name) == []
    with reopened(target) as copy:
        assert connection_of(copy).execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert all(copy.ask(GetJob(id)) for id in before)
        assert copy.verify() == []
        assert put(copy) > max(before)


def test_a_lease_of_a_restored_backup_ends_though_the_page_beside_it_knows_of_none(path, clock, tmp_path):
    with reopened(path, clock) as store:
        id = put(store)
        [[job]] = store.apply([ops.Reserve("t", 1, TERMS, "w")])
        store.backup(tmp_path / "backup.db")
        store.apply([ops.Ack(job.id, job.claims)])
        clock.advance(2)
        store.apply([ops.Expire(10)])  # from here on it is known that there is none
        assert store.ask(GetNextLease()) is None
    (tmp_path / "backup.db").replace(path)
    with reopened(path, clock) as store:
        assert [job.id for job in store.apply([ops.Reserve("t", 1, TERMS, "w")])[0]] == [id]


def test_a_backup_into_no_folder_is_refused(store, tmp_path):
    with pytest.raises(NotAStore, match="no folder"):
        store.backup(tmp_path / "nowhere" / "b.db")


def test_a_backup_to_the_file_of_another_that_is_under_way_is_refused_and_leaves_that_alone(path, store, tmp_path):
    put_many(store, 2_000, 1_000)
    target, refused = tmp_path / "backup.db", []

    def copy(look):
        with closing(sqlite3.connect(path, isolation_level=None)) as source:
            maintenance.backup(source, f"{path}", f"{target}", look)

    def begin_another():
        if not refused:
            with pytest.raises(StoreError, match="remove it if no other backup is under way") as caught:
                copy(lambda: None)
            refused.append(caught.value)

    copy(begin_another)
    assert refused
    with reopened(target) as there:
        assert there.verify() == []
    assert list(tmp_path.glob("*-partial*")) == []


def test_a_backup_that_cannot_begin_removes_only_a_file_that_it_made(store, tmp_path, monkeypatch):
    theirs = tmp_path / "theirs.db-partial"
    theirs.write_text("theirs")
    with pytest.raises(StoreError, match="exists"):
        store.backup(tmp_path / "theirs.db")
    assert theirs.read_text() == "theirs"

    def refuse(path, mode):
        raise PermissionError(errno.EPERM, "no", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "chmod", refuse)
        with pytest.raises(StoreReadOnly):
            store.backup(tmp_path / "mine.db")
    assert list(tmp_path.glob("mine*")) == []
    store.backup(tmp_path / "mine.db")


# ---- the log --------------------------------------------------------------------------------------------------------


def writers_back():
    return [thread for thread in threading.enumerate() if thread.name == "pywheel-checkpoints"]


def fill(store):
    for _ in range(3):
        put_many(store, 500, 128)


def test_the_log_is_written_back_while_the_store_is_open(path, store):
    before = path.stat().st_size
    fill(store)
    until(lambda: path.stat().st_size > before + 1_000 * 128)


def test_a_store_that_is_closed_or_forgotten_writes_no_log_back(path, tmp_path):
    others = {*writers_back()}  # of stores that other tests keep
    with reopened(path) as store:
        fill(store)
        assert {*writers_back()} - others
    assert {*writers_back()} <= others
    store = reopened(tmp_path / "another.db")
    fill(store)
    assert {*writers_back()} - others
    del store
    # Not once: the thread keeps the next value to write back for a while.
    until(lambda: gc.collect() >= 0 and {*writers_back()} <= others)


def test_a_store_that_is_closed_where_its_log_is_written_back_is_closed(store, monkeypatch):
    monkeypatch.setattr(checkpoints, "_checkpoint", lambda _: store.close())  # as a finaliser may do it there
    put_many(store, 1_000, 1)
    until(lambda: store._closed)
    with pytest.raises(StoreClosed):
        put(store)


@pytest.mark.stress
def test_the_log_is_written_back_in_a_forked_child_too(path, store):
    fill(store)
    until(writers_back)
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            fill(store)
            os._exit(0 if writers_back() else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
