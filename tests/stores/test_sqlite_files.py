"""Files that cannot be used, or not now: a clear error, nothing half-done, and it goes on when the reason is gone."""

import multiprocessing
import os
import sqlite3
import stat
import threading

import pytest

from pywheel import (
    NotAStore,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
)
from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import Terms
from pywheel.stores import open
from pywheel.stores.sqlite import connection
from pywheel.stores.sqlite.statements import MIGRATIONS

NOW = 1_700_000_000_000
TERMS = Terms(1_000, 3)


def put(store, body=b"b", topic="t"):
    [[id]] = store.apply([ops.Put((NewJob(topic, body, NOW),))])
    return id


def reopened(path, clock=None):
    return open(f"sqlite:///{path}", clock=clock)


# ---- files that are something else ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["", "jobs.db", "sqlite:", "sqlite://", "sqlite:///", "sqlite://host/jobs.db", "redis://localhost", None, 7],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(NotAStore):
        open(url)


def test_an_address_may_quote_characters(tmp_path):
    with open(f"sqlite:///{tmp_path}/a%20b%3F.db"):
        assert (tmp_path / "a b?.db").exists()


def test_a_file_that_is_no_database_is_refused_and_left_alone(path):
    path.write_bytes(b"these are no jobs" * 100)
    with pytest.raises(NotAStore, match="not a SQLite database"):
        reopened(path)
    assert path.read_bytes() == b"these are no jobs" * 100


def test_a_database_of_another_program_is_refused_and_left_alone(path):
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE job (theirs)")
    other.close()
    with pytest.raises(NotAStore, match="another program"):
        reopened(path)
    other = sqlite3.connect(path)
    assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("job",)]
    assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    other.close()


def test_a_file_of_a_newer_version_is_refused(path, store):
    put(store)
    store.close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(StoreTooNew, match="version 99"):
        reopened(path)


def test_a_damaged_file_is_named_so(path, store, clock):
    for _ in range(50):
        put(store, b"x" * 500)
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match="damaged"), reopened(path, clock) as damaged:
        damaged.apply([ops.Reserve("t", 100, TERMS, "w")])


def test_a_missing_folder_and_a_folder_as_file_are_named_so(tmp_path):
    with pytest.raises(NotAStore, match="there is no folder"):
        reopened(tmp_path / "nowhere" / "jobs.db")
    with pytest.raises(NotAStore, match="is a folder"):
        reopened(tmp_path)


def test_a_very_deep_folder_still_has_its_bells(tmp_path):
    folder = tmp_path / ("d" * 100) / ("e" * 100)
    folder.mkdir(parents=True)
    with reopened(folder / "jobs.db") as store:
        listener = store.listen("w")
        listener.wake()
        assert listener.wait(60) is False
        listener.close()


# ---- files that cannot be written ----------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_without_permission_is_named_so(path, store):
    store.close()
    path.chmod(stat.S_IRUSR)
    with pytest.raises(StoreReadOnly):
        reopened(path)


def test_a_read_only_database_refuses_puts_and_keeps_its_jobs(store):
    id = put(store)
    store._connection.execute("PRAGMA query_only = 1")
    with pytest.raises(StoreReadOnly):
        put(store)
    assert store.get(id).state is State.DELAYED
    store._connection.execute("PRAGMA query_only = 0")
    assert put(store) > id


def limit_pages(store, more):
    [pages] = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages + more}")


def test_a_full_disk_refuses_a_put_whole_and_goes_on_when_there_is_room(store):
    id = put(store)
    limit_pages(store, 3)
    with pytest.raises(StoreFull, match="no room"):
        store.apply([ops.Put(tuple(NewJob("t", b"x" * 400, NOW) for _ in range(100)))])
    assert store.counts()["t"].delayed == 1
    assert store.get(id).body == b"b"
    limit_pages(store, 10**6)
    assert put(store) > id


def test_a_full_disk_refuses_a_new_topic_and_still_knows_the_old_ones(store):
    put(store)
    limit_pages(store, 0)
    with pytest.raises(StoreFull):
        put(store, b"x" * 10_000, topic="new")
    limit_pages(store, 10**6)
    id = put(store, topic="new")
    assert store.get(id).topic == "new"
    assert set(store.counts()) == {"t", "new"}


def test_a_full_disk_at_an_ack_leaves_the_claim_and_the_ack_works_later(store):
    ids = store.apply([ops.Put(tuple(NewJob("t", b"", NOW) for _ in range(500)))])[0]
    [jobs] = store.apply([ops.Reserve("t", 500, TERMS, "w")])
    limit_pages(store, 0)
    with pytest.raises(StoreFull):
        store.apply([ops.Nack(job.id, job.claims, 0, "e" * 900) for job in jobs])
    assert {store.get(id).state for id in ids} == {State.RUNNING}
    limit_pages(store, 10**6)
    assert all(store.apply([ops.Ack(job.id, job.claims) for job in jobs]))


def test_a_lock_of_another_program_is_waited_for_and_then_named(store, path, monkeypatch):
    put(store)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store._connection.execute("PRAGMA busy_timeout = 1")
    with pytest.raises(StoreBusy, match="locked"):
        put(store)
    other.execute("ROLLBACK")
    other.close()
    put(store)


# ---- versions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_an_older_file_is_upgraded_and_keeps_its_jobs(path, clock, version):
    old = sqlite3.connect(path, isolation_level=None)
    old.execute("PRAGMA journal_mode = WAL")
    for number in range(version):
        connection._step(old, number)
    old.execute("INSERT INTO topic (id, name) VALUES (1, 't')")
    old.execute("INSERT INTO job (topic, due, ahead, body) VALUES (1, ?, 5, x'6a')", (NOW,))
    old.close()
    with reopened(path, clock) as store:
        assert store._connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        [[job]] = store.apply([ops.Reserve("t", 9, TERMS, "w")])
        assert (job.body, job.due, job.created) == (b"j", NOW, NOW - 5)


def test_many_who_open_a_new_file_at_once_all_succeed(path):
    errors = []
    barrier = threading.Barrier(6)

    def run():
        barrier.wait()
        try:
            with reopened(path) as store:
                put(store)
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with reopened(path) as store:
        assert store.counts()["t"].delayed == 6


# ---- durability and processes ---------------------------------------------------------------------------------------


def test_every_commit_is_synced(store):
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_log_stays_bounded(store, path):
    for _ in range(30):
        store.apply([ops.Put(tuple(NewJob("t", b"x" * 300, NOW) for _ in range(1_000)))])
    assert path.with_name("jobs.db-wal").stat().st_size < 20_000_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_gets_an_error_and_the_parent_goes_on(store):
    def child(queue):
        try:
            put(store)
        except StoreError as error:
            queue.put(str(error))
        store.close()

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert "before a fork" in queue.get(timeout=60)
    process.join()
    put(store)


def test_a_dead_workers_shards_are_free_at_once(path, clock):
    with reopened(path, clock) as one, reopened(path, clock) as two:
        first, second = one.listen("a"), two.listen("b")
        assert len(one.apply([ops.Hold(first.worker, 60_000)])[0]) == 16
        first._ear.close()  # as when its process is killed: nothing else is tidied up
        assert len(two.apply([ops.Hold(second.worker, 60_000)])[0]) == 16
        second.close()


def test_a_stopped_workers_shards_are_free_once_its_heart_stands_still(path, clock, monkeypatch):
    monkeypatch.setattr("pywheel.stores.sqlite.notifier._LOOK", 0)
    with reopened(path, clock) as one, reopened(path, clock) as two:
        first, second = one.listen("a"), two.listen("b")
        one.apply([ops.Hold(first.worker, 60_000)])
        assert two.apply([ops.Hold(second.worker, 60_000)]) == [{}]
        one._notifier._page[2 + 64 + first._slot] -= 20_000
        assert second.stirred()
        assert len(two.apply([ops.Hold(second.worker, 60_000)])[0]) == 16
        first.close()
        second.close()


def test_hints_that_were_trimmed_make_a_listener_read_again(store, monkeypatch):
    monkeypatch.setattr("pywheel.stores.sqlite.transaction._HINTS_KEPT", 10)
    listener = store.listen("w")
    listener.publish(NOW)
    cursor = store.hints(-1).cursor
    for _ in range(25):
        put(store)
    hints = store.hints(cursor)
    assert hints.reload
    assert len(hints.due) < 25
    assert store._connection.execute("SELECT count(*) FROM hint").fetchone()[0] < 25
    listener.close()


def test_a_horizon_that_moves_during_a_commit_makes_the_listener_read_again(store):
    """The put read the old horizon and wrote no hint; the listener published the new one before the commit."""
    listener = store.listen("w")
    cursor = store.hints(-1).cursor
    put(store)
    horizon = store._notifier.horizon
    moved = iter([-1])
    store._notifier.horizon = lambda: next(moved, None) or horizon()
    listener.publish(NOW)
    put(store)
    store._notifier.horizon = horizon
    assert listener.wait(60)
    assert store.hints(cursor).reload
    listener.close()
