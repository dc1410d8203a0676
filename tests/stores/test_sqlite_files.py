"""Files that cannot be used, or not now: a clear error, nothing half-done, and it goes on when the reason is gone."""

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
from pywheel.stores import Filter, open
from pywheel.stores.sqlite import connection
from pywheel.stores.sqlite.statements import MIGRATIONS
from pywheel.stores.sqlite.store import SqliteStore
from pywheel.stores.sqlite.transaction import Transaction
from tests.jobs.waiting import until
from tests.stores.processes import process

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
    [
        "",
        "jobs.db",
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite://[x",
        "sqlite:///a%00b",
        "redis://localhost",
        None,
        7,
    ],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(NotAStore):
        open(url)


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("sqlite:rel.db", "sqlite:///rel.db"),
        ("sqlite://rel.db", "sqlite:///rel.db"),
        ("sqlite:/abs.db", "sqlite:////abs.db"),
        ("sqlite://host/jobs.db", "sqlite:///host/jobs.db"),
    ],
)
def test_an_address_with_too_few_slashes_is_refused_with_the_right_spelling(tmp_path, monkeypatch, url, right):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotAStore, match=f"did you mean '{right}'"):
        open(url)
    assert list(tmp_path.iterdir()) == []


def test_unknown_options_and_fragments_are_refused_by_name(tmp_path):
    with pytest.raises(NotAStore, match=r"no option 'mode', 'x'.*%3F"):
        open(f"sqlite:///{tmp_path}/a.db?mode=ro&x=1")
    with pytest.raises(NotAStore, match="written %23"):
        open(f"sqlite:///{tmp_path}/a#1.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b?.db", "a#1.db", "50%.db", "a%20b.db", "ä\n.db", b"\xff.db"], ids=ascii)
def test_the_url_of_a_store_opens_the_same_file(tmp_path, name):
    with SqliteStore(os.path.join(tmp_path, os.fsdecode(name))) as store:  # noqa: PTH118
        id = put(store)
        with open(store.url) as again:
            assert again.path == store.path
            assert again.get(id).id == id


def test_an_address_may_quote_characters(tmp_path):
    with open(f"sqlite:///{tmp_path}/a%20b%3F.db"):
        assert (tmp_path / "a b?.db").exists()


def test_without_create_a_missing_and_an_empty_file_are_refused(path):
    for _ in range(2):
        with pytest.raises(NotAStore, match="put a job first"):
            open(f"sqlite:///{path}", create=False)
        path.touch()
    assert path.stat().st_size == 0


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


# ---- the files of an open store -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "writers"), [(0o600, 0o600), (0o640, 0o600), (0o660, 0o660), (0o664, 0o660)])
def test_files_beside_it_have_the_databases_mode_whatever_the_umask(path, mode, writers):
    """But `-lock` and `-workers` are for its writers alone: who may read a file can keep others from locking it."""
    path.touch()
    path.chmod(mode)
    before = os.umask(0o077)
    try:
        with reopened(path) as store:
            put(store)
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    ours = {"jobs.db-lock", "jobs.db-workers"}
    assert modes == {
        name: writers if name in ours else mode for name in [*ours, *(f"jobs.db{end}" for end in ("", "-wal", "-shm"))]
    }


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may change users")
def test_a_file_that_root_opened_first_is_still_its_owners(path):
    path.parent.chmod(0o777)
    for folder in path.parents[1:-2]:
        folder.chmod(folder.stat().st_mode | 0o055)
    path.touch()
    os.chown(path, 12_345, 12_346)
    with reopened(path) as store:
        put(store)
        owners = {(file.stat().st_uid, file.stat().st_gid) for file in path.parent.iterdir()}
        assert owners == {(12_345, 12_346)}
        with process(path) as service:
            service.become(12_345, 12_346, 0o022)
            assert service.open() is None
            assert service.put() == 2
        put(store)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may change users")
def test_users_of_one_group_share_a_database_whatever_their_umask(path):
    os.chown(path.parent, -1, 12_346)
    path.parent.chmod(0o2777)
    for folder in path.parents[1:-2]:
        folder.chmod(folder.stat().st_mode | 0o055)
    path.touch()
    os.chown(path, 12_345, 12_346)
    path.chmod(0o660)
    with process(path) as one, process(path) as two:
        one.become(12_347, 12_346, 0o022)
        two.become(12_348, 12_346, 0o077)
        assert one.open() is None
        assert two.open() is None
        assert [one.put(), two.put(), one.put(), two.put()] == [1, 2, 3, 4]


def test_a_link_leads_to_the_same_files(path, store):
    link = path.parent / "folder" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    with reopened(link) as linked:
        assert put(linked) == 1
        assert put(store) == 2
        assert linked.url == store.url
    assert [file.name for file in link.parent.iterdir()] == ["link.db"]


def test_a_database_that_was_replaced_or_deleted_is_named_so(path, store, monkeypatch):
    monkeypatch.setattr("pywheel.stores.sqlite.database._LOOK", 0)
    id = put(store)
    elsewhere = path.with_name("elsewhere.db")
    path.rename(elsewhere)
    for use in (put, lambda store: store.get(id)):
        with pytest.raises(StoreError, match="deleted"):
            use(store)
    path.write_bytes(b"")
    for use in (put, lambda store: store.get(id)):
        with pytest.raises(StoreError, match="replaced"):
            use(store)
    path.unlink()
    elsewhere.rename(path)
    assert put(store) == id + 1


def test_an_open_store_notices_that_a_newer_version_upgraded_the_file(path, store):
    put(store)
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with process(path) as newer:  # whoever upgrades a file has the turn meanwhile
        newer.take_turn()
        newer.give_turn()
    for _ in range(2):
        with pytest.raises(StoreTooNew, match="version 99"):
            put(store)
    with pytest.raises(StoreTooNew, match="version 99"):
        store.counts()


def test_an_upgrade_that_took_no_turn_is_noticed_within_a_moment(path, store):
    put(store)
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version = 99")
    raw.close()

    def refused():
        try:
            put(store)
        except StoreTooNew:
            return True
        return False

    until(refused)


def test_a_copy_without_a_log_gets_one(path, store):
    put(store)
    copy = path.with_name("copy.db")
    store._connection.execute(f"VACUUM INTO '{copy}'")
    with reopened(copy) as opened:
        assert opened._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert opened.get(1).id == 1


@pytest.mark.parametrize(
    "damage",
    ["UPDATE topic SET name = CAST(x'ff' AS TEXT)", "UPDATE job SET topic = 77", "UPDATE job SET headers = '{'"],
)
def test_rows_that_make_no_sense_are_damage(path, store, damage):
    put(store)
    store._connection.execute(damage)
    with pytest.raises(StoreCorrupt, match="damaged"):
        _ = store.counts(), store.topics(), store.get(1)


def test_nothing_after_a_commit_raises(store, monkeypatch):
    """Such as a list of workers that cannot be read now: then all of them read again."""
    notifier = store.notifier("w")
    store.apply([ops.Announce(notifier.worker, ("t",))])
    notifier.publish(2**60)
    told, missed = Transaction.tell, store._presence.missed

    def broken(*arguments):
        raise StoreError("not now")

    def without_audience(tell):
        def telling(*arguments):
            with monkeypatch.context() as patch:
                patch.setattr(store._presence, "audience", broken)
                tell(*arguments)

        return telling

    monkeypatch.setattr(Transaction, "tell", without_audience(told))
    monkeypatch.setattr(store._presence, "missed", without_audience(missed))
    for commands in ([ops.Put((NewJob("t", b"", NOW),))], [ops.Put((NewJob("t", b"", NOW), NewJob("t", b"", NOW)))]):
        while notifier.wait(0):
            pass
        notifier.hints()
        [found] = store.apply(commands)
        assert all(store.get(id).id == id for id in found)
        assert notifier.wait(60) is True
        assert notifier.hints().reload
    notifier.close()


# ---- looking after it -----------------------------------------------------------------------------------------------


def purge_all(store):
    ids = [job.id for job in store.jobs(Filter("t"), 0, 100_000)]
    store.apply([ops.Cancel(id) for id in ids])
    while store.apply([ops.Purge(State.CANCELLED, 0, None, 1_000)])[0]:
        pass


def test_the_room_of_purged_jobs_is_given_back_in_steps(path, store):
    store.apply([ops.Put(tuple(NewJob("t", b"x" * 1_000, NOW) for _ in range(2_000)))])
    [pages] = store._connection.execute("PRAGMA page_count").fetchone()
    purge_all(store)
    given = [store.vacuum(100)]
    assert 90 < given[0] <= 102  # pages that say where pages are come on top
    while given[-1]:
        given.append(store.vacuum(300))
    assert max(given) <= 304
    assert sum(given) > pages * 0.9
    put(store)
    assert store.check() == []


def test_a_file_made_before_that_gives_back_after_it_was_rewritten(path, clock):
    old = sqlite3.connect(path, isolation_level=None)
    old.execute("PRAGMA journal_mode = WAL")
    for number in range(len(MIGRATIONS)):
        connection._step(old, number)
    old.close()
    with reopened(path, clock) as store:
        store.apply([ops.Put(tuple(NewJob("t", b"x" * 1_000, NOW) for _ in range(200)))])
        purge_all(store)
        assert store.vacuum(1_000) == 0
        store.rewrite()
        store.apply([ops.Put(tuple(NewJob("t", b"x" * 1_000, NOW) for _ in range(200)))])
        purge_all(store)
        assert store.vacuum(1_000) > 10
        assert store.check() == []


def test_a_backup_beside_writers_is_a_store_with_every_job_told_before(path, tmp_path):
    target = tmp_path / "backup.db"
    with reopened(path) as store:
        store.apply([ops.Put(tuple(NewJob("t", b"x" * 1_000, NOW) for _ in range(3_000)))])
        over, told = threading.Event(), []

        def work():
            while not over.is_set():
                told.append(put(store))

        writer = threading.Thread(target=work)
        writer.start()
        until(lambda: len(told) > 10)
        before = list(told)
        store.backup(target)
        over.set()
        writer.join(60)
        with pytest.raises(StoreError, match="exists"):
            store.backup(target)
    assert sorted(file.name for file in tmp_path.iterdir() if "partial" in file.name) == []
    with reopened(target) as copy:
        assert copy._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert all(copy.get(id) for id in before)
        assert copy.check() == []
        assert put(copy) > max(before)


def test_a_backup_into_no_folder_is_refused(store, tmp_path):
    with pytest.raises(NotAStore, match="no folder"):
        store.backup(tmp_path / "nowhere" / "b.db")
