"""The files of an open store: their users, their places, and what survives."""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from pywheel import StoreError, StoreReadOnly, StoreReplaced
from pywheel.jobs.queries import GetJob
from pywheel.stores.sqlite.presence import Telling
from tests.isolated.child import run_well
from tests.stores.calls import listening, settle
from tests.stores.files import connection_of, put, put_many, reopened
from tests.stores.processes import as_root, let_in, process


@pytest.mark.parametrize(("mode", "writers"), [(0o600, 0o600), (0o640, 0o600), (0o660, 0o660), (0o664, 0o660)])
def test_files_beside_it_have_the_databases_mode_whatever_the_umask(path, mode, writers):
    """But `-workers` is for its writers alone: who may read a file can keep others from locking it."""
    path.touch()
    path.chmod(mode)
    before = os.umask(0o077)
    try:
        with reopened(path) as store:
            put(store)
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    ours = {"jobs.db-workers"}
    assert modes == {
        name: writers if name in ours else mode for name in [*ours, *(f"jobs.db{end}" for end in ("", "-wal", "-shm"))]
    }


@pytest.fixture
def public():
    """The path of a database that all users may get to. (Each run of pytest shuts the folder of all its runs.)"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "public" / "jobs.db"
        path.parent.mkdir()
        let_in(path.parent)
        yield path


@pytest.mark.stress
@as_root
def test_a_file_that_root_opened_first_is_still_its_owners(public):
    public.parent.chmod(0o777)
    public.touch()
    os.chown(public, 12_345, 12_346)
    with reopened(public) as store:
        put(store)
        owners = {(file.stat().st_uid, file.stat().st_gid) for file in public.parent.iterdir()}
        assert owners == {(12_345, 12_346)}
        with process(public) as service:
            service.become(12_345, 12_346, 0o022)
            assert service.open() is None
            assert service.put() == 2
        put(store)


@pytest.mark.stress
@as_root
def test_users_of_one_group_share_a_database_whatever_their_umask(public):
    os.chown(public.parent, -1, 12_346)
    public.parent.chmod(0o2777)
    public.touch()
    os.chown(public, 12_345, 12_346)
    public.chmod(0o660)
    with process(public) as one, process(public) as two:
        one.become(12_347, 12_346, 0o022)
        two.become(12_348, 12_346, 0o077)
        assert one.open() is None
        assert two.open() is None
        assert [one.put(), two.put(), one.put(), two.put()] == [1, 2, 3, 4]
        assert [one.work(), two.work()] == [None, None]


@pytest.mark.stress
@as_root
@pytest.mark.parametrize("opened_before", [True, False])
def test_a_moment_without_permission_locks_its_owner_out_for_that_moment_only(public, opened_before):
    os.chown(public.parent, 12_345, 12_346)
    with process(public) as owner:
        owner.become(12_345, 12_346, 0o022)
        assert owner.open() is None
        assert owner.put() == 1
        if not opened_before:
            owner.close()
        with process(public) as refused:
            refused.become(12_345, 12_346, 0o022)
            public.chmod(0o444)
            assert refused.open()["error"] == "StoreReadOnly"
            public.chmod(0o644)
            assert refused.open() is None
            assert refused.put() == 2


def test_files_beside_a_database_that_nobody_may_write_stay_its_owners(path):
    path.touch()
    path.chmod(0o444)
    with suppress(StoreReadOnly), reopened(path) as store:
        put(store)
    modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.glob("*-[lw]o*")}
    assert modes <= {0o600}


def test_a_link_leads_to_the_same_files(path, store):
    link = path.parent / "folder" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    with reopened(link) as linked:
        assert put(linked) == 1
        assert put(store) == 2
        assert linked.url == store.url
    assert [file.name for file in link.parent.iterdir()] == ["link.db"]


@pytest.fixture
def _looks_always(monkeypatch):
    """Look for the files at every use, not a few times a second."""
    monkeypatch.setattr("pywheel.stores.sqlite.database._LOOK", 0)


def get(store):
    return store.ask(GetJob(1))


def is_replaced(store, said):
    """See that neither a put nor a look does anything, and both say so."""
    for use in (put, get):
        with pytest.raises(StoreReplaced, match=said):
            use(store)


@pytest.mark.usefixtures("_looks_always")
def test_a_database_that_was_replaced_or_deleted_is_named_so(path, store):
    id = put(store)
    elsewhere = path.with_name("elsewhere.db")
    path.rename(elsewhere)
    is_replaced(store, "deleted")
    path.write_bytes(b"")
    is_replaced(store, "replaced")
    path.unlink()
    elsewhere.rename(path)
    assert put(store) == id + 1


@pytest.mark.usefixtures("_looks_always")
def test_a_database_that_was_deleted_with_all_files_beside_it_is_named_so_and_nothing_is_made(path, store):
    put(store)
    for file in path.parent.iterdir():
        file.unlink()
    is_replaced(store, "deleted")
    assert list(path.parent.iterdir()) == []


@pytest.mark.usefixtures("_looks_always")
@pytest.mark.parametrize("end", ["wal", "shm"])
@pytest.mark.parametrize("use", [put, get])
def test_a_log_that_was_deleted_under_a_store_is_named_so_for_good(path, store, end, use):
    put(store)
    path.with_name(f"jobs.db-{end}").unlink()
    for _ in range(2):
        with pytest.raises(StoreReplaced, match=f"jobs.db-{end} was deleted while it was open: .*restart all programs"):
            use(store)
    store._database._discard()
    with pytest.raises(StoreReplaced, match="was deleted while it was open"):
        put(store)


def test_what_a_store_held_whose_log_alone_was_deleted_is_there_when_it_is_closed(path, store):
    id = put(store)
    path.with_name("jobs.db-wal").unlink()
    store.close()
    with reopened(path) as again:
        assert again.ask(GetJob(id)).body == b"b"


def test_closing_a_store_that_was_replaced_leaves_the_log_of_the_new_one(path, store):
    put(store)
    for file in path.parent.iterdir():
        file.unlink()
    with reopened(path) as new:
        id = put(new)
        store.close()
        put(new)
        with reopened(path) as third:
            assert third.ask(GetJob(id)).body == b"b"


@pytest.mark.usefixtures("_looks_always")
def test_a_log_that_was_removed_rightly_is_no_error(path, store):
    """As by this process itself, which closes its connections before a fork."""
    put(store)
    for _ in range(2):
        store.before_fork()
        assert not path.with_name("jobs.db-wal").exists()
        store.after_fork_in_parent()
        assert get(store).id == 1
        put(store)


def test_every_commit_is_synced(store):
    assert connection_of(store).execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection_of(store).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_log_stays_bounded(store, path):
    for _ in range(100):  # which would be 47 MB without checkpoints
        put_many(store, 1_000, 300)
    assert path.with_name("jobs.db-wal").stat().st_size < 20_000_000


def test_nothing_after_a_commit_raises(store, monkeypatch):
    """Such as a list of workers that cannot be read now: then all of them read again."""
    notifier = listening(store)
    tell = Telling.tell

    def broken(*arguments):
        raise StoreError("not now")

    def without_audience(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(store._presence, "audience", broken)
            tell(*arguments)

    monkeypatch.setattr(Telling, "tell", without_audience)
    for count in (1, 2):
        settle(notifier)
        found = put_many(store, count, 0)
        assert all(store.ask(GetJob(id)).id == id for id in found)
        assert notifier.wait(60) is True
        assert notifier.hints().reload
    notifier.close()


TRUNCATED = """
import os, sqlite3, sys, threading
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import GetNextLease, ListWorkers
from pywheel.stores import open
from tests.stores.calls import listening, put, settle

path, size = sys.argv[1], int(sys.argv[2])

def cut():
    os.truncate(f"{path}-workers", size)

def put_within():
    with sqlite3.connect(path) as connection:
        store.apply_within(connection, ops.Put((NewJob("t", b"", 0),)))
    connection.close()
    for thread in threading.enumerate():  # the one that tells of the commit
        if thread is not threading.current_thread():
            thread.join(60)

with open(f"sqlite:///{path}") as store:
    cut()
    ids = {*put(store)}
    worker = listening(store)
    announce = ops.Announce(worker.worker, ("t",))
    for look in (
        lambda: worker.beat(0), worker.hints, worker.members, lambda: worker.wait(0.01), worker.wake, worker.quiet,
        lambda: worker.publish(2**60), lambda: worker.ring("w@0.1"), lambda: store.ask(GetNextLease()),
        lambda: store.ask(ListWorkers()), lambda: store.quiet("t", 0), lambda: store.apply([announce]),
        lambda: store.verify(repair=True), put_within,
        lambda: store.apply([ops.Reserve("t", 1, ops.ClaimPolicy(60_000, 3), "w")]),
    ):
        cut()
        ids.update(put(store))
        cut()
        look()
    worker.beat(0)
    worker.publish(2**60)
    store.apply([announce])
    settle(worker)
    [id] = put(store)
    assert worker.wait(60)
    assert worker.hints() == ([(0, id, "t", 0)], False)
    cut()
    worker.close()
    cut()
print(len(ids))
"""


@pytest.mark.stress
@pytest.mark.parametrize("size", ["0", "4096"])
def test_a_page_that_was_truncated_beside_an_open_store_is_made_whole(path, size):
    """Each look behind its end would be the end of the process, by SIGBUS.

    So the file is cut while no thread of the store is within a look: there is no help at that very moment.
    """
    assert run_well("-c", TRUNCATED, str(path), size) == "16\n"
