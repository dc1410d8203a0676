"""The fair turn to write, between threads and between processes."""

import fcntl
import os
import signal
import threading
import time

import pytest

from pywheel import StoreBusy
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.stores import open
from pywheel.stores.sqlite import presence_page
from pywheel.stores.sqlite import write_lock as module
from pywheel.stores.sqlite.write_lock import LOCKS, WriteLock
from tests.jobs.waiting import until
from tests.stores.processes import process

pytestmark = pytest.mark.skipif(not LOCKS, reason="no record locks here")


@pytest.fixture
def lock(path):
    path.touch()
    lock = WriteLock.shared(str(path))
    yield lock
    lock.close()


@pytest.fixture
def other(path, lock):
    with process(path) as other:
        yield other


def soon():
    return time.monotonic() + 0.2


def late():
    return time.monotonic() + 60


def is_waited_for(lock):
    return lock._page[module._WAITED_FOR] == 1


def put(store):
    return store.apply([ops.Put((NewJob("t", b"", 0),))])


# ---- threads --------------------------------------------------------------------------------------------------------


def test_all_users_of_a_process_share_one_descriptor(path, lock):
    path.with_name("link.db").symlink_to(path)
    second = WriteLock.shared(str(path))
    assert second is lock
    second.close()
    assert lock.run(late(), lambda: "still open") == "still open"


def test_many_threads_never_meet(lock):
    inside, met = [], []

    def visit():
        inside.append(1)
        met.append(len(inside))
        inside.pop()

    def work():
        for _ in range(300):
            lock.run(late(), visit)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert met == [1] * 1200


def test_a_thread_that_had_the_turn_comes_after_one_that_waits(lock):
    order, threads = [], []

    def hold():
        thread = threading.Thread(target=lock.run, args=(late(), order.append, "waiter"))
        thread.start()
        threads.append(thread)
        until(lambda: lock._queued)

    for _ in range(20):
        lock.run(late(), hold)
        lock.run(late(), order.append, "again")
        threads.pop().join(60)
    assert order == ["waiter", "again"] * 20


def test_a_thread_that_waits_for_too_long_is_told(lock):
    seen = []

    def impatient():
        try:
            lock.run(soon(), seen.append, "had it")
        except StoreBusy as error:
            seen.append(str(error))

    thread = threading.Thread(target=impatient)

    def hold():
        thread.start()
        thread.join(60)

    lock.run(late(), hold)
    assert "another thread of this process" in seen[0]
    assert lock.run(soon(), lambda: 7) == 7


def test_a_turn_within_a_turn_is_refused(lock):
    with pytest.raises(StoreBusy, match="signal handler"):
        lock.run(late(), lock.run, late(), lambda: None)
    assert lock.run(soon(), lambda: 7) == 7


def test_a_turn_that_was_never_given_back_is_had_again_by_its_thread(lock):
    lock._enter(late())  # as if signals had ended every attempt to leave
    assert lock.run(soon(), lambda: 7) == 7
    assert not lock._inner._is_owned()


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("waits", [False, True])
def test_an_interrupt_at_any_call_leaves_the_turn_to_others(lock, other, monkeypatch, at, waits):
    real, calls = module.fcntl.lockf, []

    def interrupted(*arguments):
        real(*arguments)
        calls.append(arguments)
        if len(calls) == at:
            raise KeyboardInterrupt

    lock._page[module._WAITED_FOR] = waits
    with monkeypatch.context() as patch:
        patch.setattr(module.fcntl, "lockf", interrupted)
        for _ in range(2):
            try:
                lock.run(late(), lambda: None)
            except KeyboardInterrupt:
                break
    assert other.take_turn() is None
    with pytest.raises(StoreBusy):
        lock.run(soon(), lambda: None)
    other.give_turn()
    assert lock.run(late(), lambda: 7) == 7


# ---- processes ------------------------------------------------------------------------------------------------------


def test_a_process_that_had_the_turn_comes_after_one_that_waits(lock, other):
    for _ in range(20):
        order = []

        def hold():
            other.tell("take_turn")
            until(lambda: is_waited_for(lock))

        lock.run(late(), hold)
        thread = threading.Thread(target=lock.run, args=(late(), order.append, "again"))
        thread.start()
        assert other.answer() is None
        assert order == []
        assert other.give_turn() is None
        thread.join(60)
        assert order == ["again"]


def test_a_stopped_process_in_its_turn_makes_others_busy_within_their_limit(lock, other):
    other.take_turn()
    other.stop()
    with pytest.raises(StoreBusy, match=f"process {other.running.pid} kept the turn"):
        lock.run(soon(), lambda: None)
    other.go_on()
    other.give_turn()
    assert lock.run(late(), lambda: 7) == 7


def test_a_stopped_process_in_the_gate_holds_nobody_up(lock, other):
    def hold():
        other.tell("take_turn")
        until(lambda: is_waited_for(lock))
        other.stop()

    lock.run(late(), hold)
    assert [lock.run(soon(), lambda: 7) for _ in range(50)] == [7] * 50
    other.go_on()
    assert other.answer() is None
    other.give_turn()


def test_a_killed_process_holds_nobody_up_though_its_child_lives(lock, other):
    child = other.fork_and_sleep()
    other.take_turn()
    grandchild = other.fork_and_sleep()
    other.kill()
    try:
        assert lock.run(late(), lambda: 7) == 7
    finally:
        os.kill(child, signal.SIGKILL)
        os.kill(grandchild, signal.SIGKILL)


def test_one_who_died_while_waiting_holds_nobody_up(lock):
    lock._page[module._WAITED_FOR] = 1  # what it leaves behind
    assert lock.run(soon(), lambda: 7) == 7
    assert not is_waited_for(lock)


def test_who_may_only_read_the_side_files_blocks_no_writer(path, store):
    """A descriptor that only reads can lock with flock, and not with a record lock for writing.

    With one for reading it could keep writers off: so nobody else gets such a descriptor, see the modes of these files.
    """
    files = {side: os.open(f"{path}-{side}", os.O_RDONLY) for side in ("lock", "workers")}
    for side, file in files.items():
        if side == "lock" or presence_page._OPEN_FILE_LOCKS:
            fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="Bad file descriptor"):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with process(path) as other:
        assert other.open() is None
        assert other.put() == 1
        assert other.work() is None
    store.notifier("w").close()
    for file in files.values():
        os.close(file)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may change users")
def test_who_may_only_read_the_database_cannot_open_the_side_files(path):
    for folder in path.parents[:-2]:
        folder.chmod(folder.stat().st_mode | 0o055)
    path.touch()
    path.chmod(0o644)
    with open(f"sqlite:///{path}") as store, process(path) as reader:
        put(store)
        reader.become(12_345, 12_346, 0o022)
        assert reader.may_read(path) is True
        assert reader.may_read(f"{path}-lock") is False
        assert reader.may_read(f"{path}-workers") is False


def test_a_put_beside_a_stopped_writer_says_busy_and_works_later(path):
    with open(f"sqlite:///{path}") as store, process(path) as other:
        put(store)
        other.take_turn()
        other.stop()
        with pytest.raises(StoreBusy, match="kept the turn"):
            put(store)
        other.kill()
        put(store)


def test_a_lock_file_that_was_deleted_is_made_anew_and_shared_again(path, monkeypatch):
    monkeypatch.setattr("pywheel.stores.sqlite.database._LOOK", 0)
    side = path.with_name("jobs.db-lock")
    with open(f"sqlite:///{path}") as store, process(path) as other:
        put(store)
        side.unlink()
        put(store)
        assert side.exists()
        other.take_turn()
        store._database._lock._hurried_until = 0
        with pytest.raises(StoreBusy):
            store._database.write(soon(), lambda connection: None)
        other.give_turn()
        put(store)
