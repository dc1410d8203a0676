"""Files that cannot be used, or not now: a clear error, nothing half-done, and work goes on when the reason is gone."""

import os
import stat
import threading

import pytest

from pywheel import NotAStore, StoreBusy, StoreCorrupt, StoreFull, StoreReadOnly, StoreTooNew
from pywheel.jobs import State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob, ListTopics
from tests.jobs.waiting import until
from tests.stores.calls import ended, in_threads
from tests.stores.files import TERMS, connection_of, execute, locked, put, put_many, reopened

# ---- files that are something else ----------------------------------------------------------------------------------


def no_database(path):
    path.write_bytes(b"these are no jobs" * 100)


def of_another_program(path):
    execute(path, "CREATE TABLE job (theirs)")


@pytest.mark.parametrize(
    ("make", "said"), [(no_database, "not a SQLite database"), (of_another_program, "another program")]
)
def test_a_file_of_something_else_is_refused_and_left_alone(path, make, said):
    make(path)
    before = path.read_bytes()
    with pytest.raises(NotAStore, match=said):
        reopened(path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_named_so(path, store, clock):
    for _ in range(50):
        put(store, b"x" * 500)
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match="damaged"), reopened(path, clock) as damaged:
        damaged.apply([ops.Reserve("t", 100, TERMS, "w")])


@pytest.mark.parametrize(
    "damage",
    ["UPDATE topic SET name = CAST(x'ff' AS TEXT)", "UPDATE job SET topic = 77", "UPDATE job SET headers = '{'"],
)
def test_rows_that_make_no_sense_are_damage(path, store, damage):
    put(store)
    connection_of(store).execute(damage)
    with pytest.raises(StoreCorrupt, match="damaged"):
        _ = store.ask(CountJobs()), store.ask(ListTopics()), store.ask(GetJob(1))


def test_a_missing_folder_and_a_folder_as_file_are_named_so(tmp_path):
    with pytest.raises(NotAStore, match="there is no folder"):
        reopened(tmp_path / "nowhere" / "jobs.db")
    with pytest.raises(NotAStore, match="is a folder"):
        reopened(tmp_path)


# ---- files that cannot be written -----------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_without_permission_is_named_so(path, store):
    store.close()
    path.chmod(stat.S_IRUSR)
    with pytest.raises(StoreReadOnly):
        reopened(path)


def test_a_read_only_database_refuses_puts_and_keeps_its_jobs(store):
    id = put(store)
    connection_of(store).execute("PRAGMA query_only = 1")
    with pytest.raises(StoreReadOnly):
        put(store)
    assert store.ask(GetJob(id)).state is State.DELAYED
    connection_of(store).execute("PRAGMA query_only = 0")
    assert put(store) > id


def limit_pages(store, more):
    [pages] = connection_of(store).execute("PRAGMA page_count").fetchone()
    connection_of(store).execute(f"PRAGMA max_page_count = {pages + more}")


def test_a_full_disk_refuses_a_put_whole_and_goes_on_when_there_is_room(store):
    id = put(store)
    limit_pages(store, 3)
    with pytest.raises(StoreFull, match="no room"):
        put_many(store, 100, 400)
    assert store.ask(CountJobs())["t"].delayed == 1
    assert store.ask(GetJob(id)).body == b"b"
    limit_pages(store, 10**6)
    assert put(store) > id


def test_a_lock_of_another_program_is_waited_for_and_then_named(store, path):
    put(store)
    connection_of(store).execute("PRAGMA busy_timeout = 1")
    with locked(path), pytest.raises(StoreBusy, match="locked"):
        put(store)
    put(store)


def test_a_lease_begins_once_the_lock_of_another_program_was_waited_for(store, path, pool, clock):
    put(store)
    waits = threading.Event()
    connection_of(store).set_trace_callback(lambda text: waits.set() if text.startswith("BEGIN") else None)
    with locked(path) as other:
        claimed = pool.submit(store.apply, [ops.Claim("t", (), TERMS._replace(slack=0), "w", 1, limit=1)])
        assert waits.wait(20)
        clock.advance(1.5)
        other.execute("ROLLBACK")
        [job] = claimed.result()[0].jobs
    assert job.lease_until == clock.wall() + TERMS.ttr


# ---- versions -------------------------------------------------------------------------------------------------------


def test_many_who_open_a_new_file_at_once_all_succeed(path):
    barrier = threading.Barrier(6)

    def run():
        barrier.wait()
        with reopened(path) as store:
            put(store)

    in_threads(*[run] * 6)
    with reopened(path) as store:
        assert store.ask(CountJobs())["t"].delayed == 6


def test_an_upgrade_that_took_no_turn_is_noticed_within_a_moment(path, store, pool):
    put(store)
    execute(path, "PRAGMA user_version = 99")
    until(lambda: isinstance(ended(pool.submit(put, store)), StoreTooNew))
    with pytest.raises(StoreTooNew, match="version 99"):
        reopened(path)
