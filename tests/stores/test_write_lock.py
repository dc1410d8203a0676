"""The fair turn between processes. Two turnstiles on one path are as far apart as two processes."""

import threading
from contextlib import suppress

import pytest

from pywheel import StoreError
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.stores import open
from pywheel.stores.sqlite import write_lock as module
from pywheel.stores.sqlite.write_lock import LOCKS, WriteLock
from tests.jobs.waiting import until

pytestmark = pytest.mark.skipif(not LOCKS, reason="no flock here")


@pytest.fixture
def write_locks(tmp_path):
    made = [WriteLock(str(tmp_path / "jobs.db")) for _ in range(3)]
    yield made
    for turnstile in made:
        turnstile.close()


def is_waited_for(turnstile):
    return turnstile._page[0] == 1


def enter_in_a_thread(turnstile, name, order):
    def visit():
        turnstile.enter()
        order.append(name)
        turnstile.leave()

    thread = threading.Thread(target=visit)
    thread.start()
    return thread


def test_one_has_the_turn_at_a_time(write_locks):
    first, second, _ = write_locks
    order = []
    first.enter()
    thread = enter_in_a_thread(second, "second", order)
    until(lambda: is_waited_for(first))
    assert order == []
    first.leave()
    thread.join(60)
    assert order == ["second"]
    assert not is_waited_for(first)


def test_who_had_the_turn_comes_after_the_one_who_waits(write_locks):
    first, second, _ = write_locks
    order = []
    for _ in range(50):
        first.enter()
        thread = enter_in_a_thread(second, "waiter", order)
        until(lambda: is_waited_for(first))
        first.leave()
        first.enter()
        order.append("again")
        first.leave()
        thread.join(60)
    assert order == ["waiter", "again"] * 50


def test_one_who_dies_while_waiting_holds_nobody_up(write_locks):
    first, second, _ = write_locks
    first._page[0] = 1  # what it leaves behind
    first.enter()
    assert not is_waited_for(first)
    first.leave()
    second.enter()
    second.leave()


def test_many_never_meet(write_locks):
    inside, met = [], []

    def visit(turnstile):
        for _ in range(300):
            turnstile.enter()
            inside.append(turnstile)
            met.append(len(inside))
            inside.pop()
            turnstile.leave()

    threads = [threading.Thread(target=visit, args=(turnstile,)) for turnstile in write_locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert met == [1] * 900


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("at", range(1, 6))
def test_an_interrupted_put_leaves_the_turn_to_others(tmp_path, monkeypatch, at, waits):
    url, flock, calls = f"sqlite:///{tmp_path}/jobs.db", module.fcntl.flock, []

    def interrupted(file, operation):
        flock(file, operation)
        calls.append(operation)
        if len(calls) == at:
            raise KeyboardInterrupt

    with open(url) as one, open(url) as other:
        one._write_lock._page[0] = waits
        with monkeypatch.context() as patch:
            patch.setattr(module.fcntl, "flock", interrupted)
            with suppress(KeyboardInterrupt, StoreError):
                one.apply([ops.Put((NewJob("t", b"", 0),))])
        for file in other._write_lock._files:
            flock(file, module.fcntl.LOCK_EX | module.fcntl.LOCK_NB)
            flock(file, module.fcntl.LOCK_UN)
        assert other.apply([ops.Put((NewJob("t", b"", 0),))])
