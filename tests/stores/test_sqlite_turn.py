"""The fair turn to write, between stores and between processes: advice, for which nobody waits long."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from pywheel import StoreBusy
from pywheel.stores import open
from pywheel.stores.sqlite import page as module
from pywheel.stores.sqlite.page import LOCKS, Page
from tests.jobs.waiting import until
from tests.stores.calls import in_threads
from tests.stores.files import locked, put
from tests.stores.processes import process

pytestmark = [pytest.mark.stress, pytest.mark.skipif(not LOCKS, reason="no record locks here")]


def opened(path):
    path.touch()
    return Page(str(path), lambda: 0)


@pytest.fixture
def page(path):
    return opened(path)


@pytest.fixture
def theirs(path):
    """The page of another store on the same file."""
    return opened(path)


@pytest.fixture
def other(path, page):
    with process(path) as other:
        yield other


def run(page, action=lambda: None, seconds=60):
    """Do something in a turn; return whether it was one."""
    page.enter(time.monotonic() + seconds)
    try:
        action()
        return page.held
    finally:
        page.leave()


@pytest.fixture
def turn_naps(monkeypatch):
    """The seconds that each wait for the turn was to take at most."""
    naps, sleep = [], module._sleep

    def noted(address, seen, seconds, *bell):
        if not bell:
            naps.append(seconds)
        sleep(address, seen, seconds, *bell)

    monkeypatch.setattr(module, "_sleep", noted)
    return naps


def is_waited_for(page):
    return page.words[module._WAITED_FOR] == 1


# ---- stores of one process ------------------------------------------------------------------------------------------


def test_many_threads_never_meet(path, monkeypatch):
    monkeypatch.setattr(module, "_STALLED", (60, 60))
    inside, met = [], []

    def visit():
        inside.append(1)
        met.append(len(inside))
        inside.pop()

    def work():
        mine = opened(path)
        for _ in range(300):
            assert run(mine, visit)

    in_threads(*[work] * 4)
    assert met == [1] * 1200


@pytest.mark.skipif(module._SYSCALL is None, reason="nobody can be woken here")
def test_one_that_waits_comes_before_the_one_that_had_the_turn(path, page, monkeypatch):
    monkeypatch.setattr(module, "_STALLED", (60, 60))
    for name in ("_YIELD", "_LOOK"):  # however long the waiter takes to wake
        monkeypatch.setattr(module, name, 60)
    order, threads = [], []

    def wait():
        """Return once another waits asleep: one that has not fallen asleep may be passed by."""
        mine = opened(path)
        thread = threading.Thread(target=run, args=(mine, lambda: order.append("waiter")))
        thread.start()
        threads.append(thread)
        word = hex(mine._base + 8 * module._TURNS)
        until(lambda: Path(f"/proc/self/task/{thread.native_id}/syscall").read_text().split()[1:2] == [word])

    for _ in range(20):
        run(page, wait)
        run(page, lambda: order.append("again"))
        threads.pop().join(60)
    assert order == ["waiter", "again"] * 20


def test_a_turn_that_others_keep_between_them_is_given_up_in_time(page, theirs, monkeypatch):
    monkeypatch.setattr(module, "_STALLED", (60, 60))

    def in_vain():
        with pytest.raises(StoreBusy, match="others kept the turn"):
            run(page, seconds=0.2)

    assert run(theirs, in_vain)
    assert run(page)


@pytest.mark.parametrize(
    ("took", "patience"), [([0.01, 9.0, 0.02], 0.1), ([0.0, 0.5, 0.4], 2.0), ([9.0, 0.0, 9.0], 3.0)]
)
def test_where_turns_take_long_a_holder_has_longer_to_go_on_but_not_for_one_that_was_stopped(page, took, patience):
    page._took.extend(took)
    assert page._patience() == pytest.approx(patience)


def test_a_turn_of_ones_own_counts_from_its_beginning_to_its_end(page, theirs, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    page.enter(200.0)
    now[0] += 2.0
    page.leave()
    page.leave()
    assert list(page._took)[-2:] == [0.0, 2.0]


def test_how_long_others_keep_the_turn_is_learned_also_by_one_that_never_has_it(page, theirs):
    for _ in range(3):
        theirs.enter(time.monotonic() + 60)
        assert not run(page)
        theirs.leave()
        theirs.enter(time.monotonic() + 60)
        assert not run(page)
        theirs.leave()
    assert sorted(page._took)[1] >= module._STALLED[0]


def test_it_is_known_whether_another_one_had_the_turn(page, theirs):
    run(page)
    run(page)
    assert page.alone
    assert run(theirs)
    run(page)
    assert not page.alone


@pytest.mark.parametrize("at", range(1, 5))
@pytest.mark.parametrize("waits", [False, True])
def test_an_interrupt_at_any_call_leaves_the_turn_to_others(page, theirs, monkeypatch, at, waits):
    real, calls, turns = module.fcntl.fcntl, [], []

    def interrupted(*arguments):
        real(*arguments)
        calls.append(arguments)
        if len(calls) == at:
            raise KeyboardInterrupt

    page.words[module._WAITED_FOR] = waits
    with monkeypatch.context() as patch:
        patch.setattr(module.fcntl, "fcntl", interrupted)
        for _ in range(2):
            try:
                try:
                    run(page)
                finally:
                    page.leave()
            except KeyboardInterrupt:
                break
    assert run(theirs, lambda: turns.append(run(page)))
    assert turns == [False]
    assert run(page)


# ---- processes ------------------------------------------------------------------------------------------------------


def test_a_stopped_process_in_its_turn_holds_nobody_up(page, other, turn_naps):
    other.take_turn()
    other.stop()
    assert run(page) is False
    before = list(turn_naps)
    assert [run(page) for _ in range(50)] == [False] * 50
    assert turn_naps == before
    other.go_on()
    other.give_turn()
    assert run(page)


def test_a_writer_out_of_turn_that_meets_a_lock_waits_for_its_turn_again(path, other, pool):
    """Else it would lose the lock to those who take turns, until its time is over."""
    with open(f"sqlite:///{path}") as store:
        put(store)
        other.take_turn()
        other.stop()
        with locked(path):
            asked = pool.submit(put, store)
            page = store._presence.page
            until(lambda: page._stalled is not None)
            other.go_on()
            other.give_turn()
            until(lambda: page.held)
        assert asked.result(60)


def test_a_stopped_process_that_waits_holds_nobody_up(page, other):
    def wait():
        other.tell("take_turn")
        until(lambda: is_waited_for(page))
        other.stop()

    run(page, wait)
    assert [run(page) for _ in range(50)] == [True] * 50
    other.go_on()
    assert other.answer() is None
    other.give_turn()


def test_a_killed_process_holds_nobody_up_though_its_child_lives(path, page, other):
    other.open()
    child = other.fork_and_sleep()
    other.take_turn()
    other.kill()
    try:
        assert run(page)
    finally:
        os.kill(child, signal.SIGKILL)


def test_one_who_died_while_waiting_holds_nobody_up(page):
    page.words[module._WAITED_FOR] = 1  # what it leaves behind
    assert run(page)
    assert not is_waited_for(page)


def test_after_the_page_was_deleted_writers_share_one_turn_again(path, monkeypatch):
    monkeypatch.setattr("pywheel.stores.sqlite.presence._LOOK", 0)
    monkeypatch.setattr(module, "_STALLED", (60, 60))
    side = path.with_name("jobs.db-workers")
    with open(f"sqlite:///{path}") as store, process(path) as other:
        put(store)
        store._presence._look_at = 0
        side.unlink()
        put(store)
        assert side.exists()
        other.take_turn()
        with pytest.raises(StoreBusy):
            store._database.write(time.monotonic() + 0.2, lambda connection: None)
        other.give_turn()
        put(store)
