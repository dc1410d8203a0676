"""Both delay queues, the one for threads and the one for asyncio, where nobody waits."""

import gc
import weakref

import pytest

from tests.core.items import Item
from tests.timers import queues
from tests.timers.loops import Told


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


def test_a_clock_that_goes_back_loses_nothing(words, drain):
    clock = Told(10**9)
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


def test_a_handle_of_another_queue_or_a_number_of_no_item_means_nothing(q, make):
    handle = make().put_nowait("theirs")
    q.put_nowait("mine")
    for number in (handle, 0, -1, 2**70):
        assert q.remove(number) is False
        assert q.reschedule(number, 5) is False
    assert q.get_nowait() == "mine"


def test_a_handle_must_be_an_int(q):
    q.put_nowait("a")
    for handle in (None, 1.0, "1", object()):
        with pytest.raises(TypeError, match="handle"):
            q.remove(handle)
        with pytest.raises(TypeError, match="handle"):
            q.reschedule(handle, 1)
    assert q.ready() == 1


# ---- room ------------------------------------------------------------------------------------------------------------


def test_exactly_maxsize_items_fit_due_or_not(make, words, clock):
    q = make(3)
    assert q.maxsize == 3
    q.put_nowait("a")
    q.put_nowait("b", 5)
    assert not q.full()
    handle = q.put_nowait("c", 50)
    assert q.full()
    with pytest.raises(words.Full):
        q.put_nowait("d")
    clock.advance(10)
    with pytest.raises(words.Full):
        q.put_nowait("d", 3)
    assert q.get_nowait() == "a"
    q.put_nowait("d", 3)
    with pytest.raises(words.Full):
        q.put_nowait("e")
    q.remove(handle)
    q.put_nowait("e")
    assert q.qsize() == 3


def test_the_repr_says_what_is_in_it(make, words):
    q = make(5)
    q.put_nowait("a")
    q.shutdown()
    assert repr(q) == f"<{words.Queue.__name__} of 1 items, maxsize 5, shut down>"


# ---- shut down -------------------------------------------------------------------------------------------------------


def test_an_immediate_shutdown_drops_what_there_is(q, clock, words):
    q.put_nowait(item := Item())
    handle = q.put_nowait("later", 5)
    seen = weakref.ref(item)
    del item
    q.shutdown(immediate=True)
    assert seen() is None
    assert q.empty()
    assert q.remove(handle) is False
    for refused in (q.get_nowait, lambda: q.put_nowait("x")):
        with pytest.raises(words.ShutDown):
            refused()
    with pytest.raises(ValueError, match="task_done"):
        q.task_done()


# ---- memory, and what finalisers do ----------------------------------------------------------------------------------


def test_an_item_that_came_out_is_not_kept(q):
    q.put_nowait(Item())
    seen = weakref.ref(q.get_nowait())
    assert seen() is None


@pytest.mark.parametrize("how", ["remove", "shutdown"])
def test_a_finaliser_finds_the_queue_in_order_and_the_lock_free(q, how):
    seen = []

    class Nosy:
        def __del__(self):
            seen.append((q.qsize(), q._lock._is_owned()))

    q.put_nowait("a")
    handle = q.put_nowait(Nosy(), 5)
    if how == "remove":
        q.remove(handle)
    else:
        q.shutdown(immediate=True)
    assert seen == [(1 if how == "remove" else 0, False)]


def test_a_cycle_through_a_queue_is_collected(make):
    q = make()
    q.put_nowait(q, 5)
    seen = weakref.ref(q)
    del q
    gc.collect()
    assert seen() is None


# ---- bad input -------------------------------------------------------------------------------------------------------


def test_a_maxsize_that_is_no_int_and_a_clock_that_is_none_are_refused(words):
    for name, value in (("maxsize", 1.5), ("maxsize", "5"), ("maxsize", None), ("clock", 5)):
        with pytest.raises(TypeError, match=name):
            words.Queue(**{name: value})


# ---- interrupts -------------------------------------------------------------------------------------------


class Interrupted:
    """A wheel on which each schedule is followed by an interrupt."""

    def __init__(self, wheel):
        self._wheel = wheel

    def __getattr__(self, name):
        return getattr(self._wheel, name)

    def __len__(self):
        return len(self._wheel)

    def schedule(self, tick, item):
        self._wheel.schedule(tick, item)
        raise KeyboardInterrupt


def test_an_item_whose_put_was_interrupted_counts_as_one_that_was_put(q, words):
    whole, q._wheel = q._wheel, Interrupted(q._wheel)
    with pytest.raises(KeyboardInterrupt):
        q.put_nowait("interrupted")
    q._wheel = whole
    assert q.get_nowait() == "interrupted"
    q.task_done()
    with pytest.raises(ValueError, match="too many times"):
        q.task_done()
    with pytest.raises(words.Empty):
        q.get_nowait()
