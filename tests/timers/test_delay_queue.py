"""When an item of a delay queue comes out: of the one for threads and the one for asyncio, without waiting."""

from datetime import timedelta

import pytest

from tests.timers import queues


@pytest.fixture(params=["DelayQueue", "AsyncDelayQueue"])
def words(request, pywheel):
    """A class of queues and what it raises."""
    return queues.words(pywheel, request.param)


@pytest.fixture
def make(words, clock):
    """Makes queues on that clock."""

    def make(maxsize=0):
        return words.Queue(maxsize, clock=clock)

    return make


@pytest.fixture
def q(make):
    """A queue without a limit."""
    return make()


@pytest.fixture
def drain(words):
    """Gets all that is due."""

    def drain(q):
        items = []
        try:
            while True:
                items.append(q.get_nowait())
        except words.Empty:
            return items

    return drain


# ---- when an item comes out ------------------------------------------------------------------------------------------


def test_an_item_comes_out_when_it_is_due_and_not_before(q, clock, words):
    q.put_nowait("a", 10)
    clock.advance(9.9999)
    with pytest.raises(words.Empty):
        q.get_nowait()
    assert (q.qsize(), q.ready()) == (1, 0)
    clock.advance(0.0001)
    assert (q.qsize(), q.ready()) == (1, 1)
    assert q.get_nowait() == "a"
    assert q.qsize() == 0


@pytest.mark.parametrize("start", [0, 0.00003, 1e9 + 0.00009])
@pytest.mark.parametrize("delay", [1e-9, 0.00001, 0.0001, 0.00010001, 0.00015])
def test_a_deadline_is_rounded_up(pywheel, words, start, delay):
    clock = pywheel.ManualClock(start)
    q = words.Queue(clock=clock)
    begin = clock.time_ns()
    q.put_nowait("a", delay)
    while not q.ready():
        clock.jump(0.000001)
    late = clock.time_ns() - begin - round(delay * 1e9)
    assert 0 <= late <= 100_000 + 1_000  # a tick, and a step of the clock


@pytest.mark.parametrize("delay", [0, -1, -1e9, timedelta(0), False])
@pytest.mark.parametrize("start", [0, 0.00003, 5.5])
def test_an_item_without_a_delay_is_due_at_once(pywheel, words, delay, start):
    q = words.Queue(clock=pywheel.ManualClock(start))
    q.put_nowait("a", delay)
    q.put_nowait("b")
    assert [q.get_nowait(), q.get_nowait()] == ["a", "b"]


def test_a_delay_may_be_a_timedelta(q, clock, drain):
    q.put_nowait("a", timedelta(minutes=1))
    clock.advance(59)
    assert drain(q) == []
    clock.advance(1)
    assert drain(q) == ["a"]


def test_the_item_due_first_comes_first(q, clock, drain):
    for delay in (5, 1, 4, 2, 3):
        q.put_nowait(delay, delay)
    clock.jump(100)
    assert drain(q) == [1, 2, 3, 4, 5]


def test_items_due_at_one_time_come_in_the_order_they_were_put(q, clock, drain):
    for name in "abc":
        q.put_nowait(name, 1)
    clock.advance(0.5)
    q.put_nowait("d", 0.5)
    clock.advance(1)
    q.put_nowait("e")
    assert drain(q) == ["a", "b", "c", "d", "e"]


def test_items_that_nobody_got_in_time_keep_their_order(q, clock, drain):
    q.put_nowait("b", 2)
    q.put_nowait("a", 1)
    clock.advance(10)
    assert q.ready() == 2
    q.put_nowait("c")
    q.put_nowait("d", 5)
    clock.advance(10)
    assert q.get_nowait() == "a"
    assert drain(q) == ["b", "c", "d"]


def test_a_clock_that_goes_back_loses_nothing(pywheel, words, drain):
    class Shaky(pywheel.Clock):
        now = 10**9

        def time_ns(self):
            return self.now

    clock = Shaky()
    q = words.Queue(clock=clock)
    q.put_nowait("a", 1)
    q.put_nowait("b", 1)
    clock.now += 10**9
    assert q.get_nowait() == "a"
    clock.now = 0
    q.put_nowait("c", 0.5)
    q.put_nowait("d", 10)
    assert drain(q) == ["b", "c"]  # the queue has been there before
    clock.now += 10**10
    assert drain(q) == ["d"]


# ---- handles ---------------------------------------------------------------------------------------------------------


def test_a_removed_item_does_not_come_out(q, clock, drain):
    q.put_nowait("a", 1)
    handle = q.put_nowait("b", 2)
    q.put_nowait("c", 3)
    assert q.remove(handle) is True
    assert q.remove(handle) is False
    assert q.reschedule(handle, 1) is False
    clock.advance(10)
    assert drain(q) == ["a", "c"]


def test_an_item_that_is_due_can_still_be_removed(q, clock, drain):
    handles = [q.put_nowait(name, 1) for name in "abc"]
    clock.advance(1)
    assert q.get_nowait() == "a"
    assert q.remove(handles[1]) is True
    assert q.remove(handles[0]) is False
    assert drain(q) == ["c"]


def test_a_rescheduled_item_comes_at_its_new_time_only(q, clock, drain):
    sooner, later = q.put_nowait("sooner", 10), q.put_nowait("later", 10)
    clock.advance(5)
    assert q.reschedule(sooner, 1) is True
    assert q.reschedule(later, timedelta(seconds=9)) is True
    clock.advance(1)
    assert drain(q) == ["sooner"]
    clock.advance(7)
    assert drain(q) == []
    clock.advance(1)
    assert drain(q) == ["later"]
    assert q.reschedule(later, 1) is False


def test_an_item_that_is_due_can_be_put_off_again_and_again(q, clock, drain):
    handle = q.put_nowait("a")
    for _ in range(5):
        assert q.ready() == 1
        assert q.reschedule(handle, 3) is True
        assert drain(q) == []
        clock.advance(3)
    assert q.reschedule(handle, 0) is True
    assert drain(q) == ["a"]


def test_a_handle_of_another_queue_or_a_number_of_no_item_means_nothing(q, make):
    handle = make().put_nowait("theirs")
    q.put_nowait("mine")
    for number in (handle, 0, -1, 2**70):
        assert q.remove(number) is False
        assert q.reschedule(number, 5) is False
    assert q.get_nowait() == "mine"


@pytest.mark.parametrize("handle", [None, 1.0, "1", object()])
def test_a_handle_must_be_an_int(q, handle):
    q.put_nowait("a")
    with pytest.raises(TypeError, match="handle"):
        q.remove(handle)
    with pytest.raises(TypeError, match="handle"):
        q.reschedule(handle, 1)
    assert q.ready() == 1
