"""Queues and dicts that a signal's handler interrupts: it raises, or uses them itself."""

import asyncio
import queue
from contextlib import suppress

import pytest

from tests.implementations import CORES, load_package
from tests.interrupts import at_each_place, interrupt, traced
from tests.jobs.waiting import until
from tests.timers.queues import waiting, watched

QUEUE = ("timers/_delay_items.py", "timers/_delay_queue.py")
ASYNC_QUEUE = ("timers/_delay_items.py", "timers/_async_delay_queue.py", "timers/_alarm.py")
DICT = ("timers/_ttl_dict.py",)


@pytest.fixture
def pywheel():
    """One implementation: what is interrupted is Python on both, and nobody interrupts within a wheel or a driver."""
    return load_package(CORES[0])


# ---- it raises -----------------------------------------------------------------------------------------------------


CALLS = {
    "put": lambda q, handle: q.put("now"),
    "put_nowait": lambda q, handle: q.put_nowait("now"),
    "get": lambda q, handle: q.get(),
    "get_nowait": lambda q, handle: q.get_nowait(),
    "remove": lambda q, handle: q.remove(handle),
    "reschedule": lambda q, handle: q.reschedule(handle, 0),
    "task_done": lambda q, handle: q.task_done(),
    "shutdown": lambda q, handle: q.shutdown(immediate=True),
}


@pytest.mark.parametrize("call", ["get", "get_nowait", "remove"])
def test_an_interrupt_at_any_place_leaves_no_producer_without_the_room(pywheel, call):
    for intrusion in at_each_place(QUEUE, interrupt):
        q = watched(pywheel)(1)
        handle = q.put("first")
        crowd = waiting(q, 1, lambda: q.put("second"))  # noqa: B023 - of this turn
        with suppress(KeyboardInterrupt), traced(intrusion):
            CALLS[call](q, handle)
        until(q.full)
        if not crowd.done():
            q.get_nowait()
        crowd.join()


@pytest.mark.parametrize("call", ["get", "get_nowait", "remove", "task_done", "shutdown"])
def test_an_interrupt_at_any_place_leaves_nobody_in_join_who_could_go(pywheel, call):
    for intrusion in at_each_place(QUEUE, interrupt):
        q = watched(pywheel)()
        handle = q.put("item")
        if call == "task_done":
            q.get()
        crowd = waiting_in_join(q)
        with suppress(KeyboardInterrupt), traced(intrusion):
            CALLS[call](q, handle)
        if q.qsize():
            q.remove(handle)
        if q._unfinished:
            q.task_done()
        crowd.join()


def waiting_in_join(q):
    def join():
        with q._lock:
            q.asleep += 1  # as the lock is free again when it sleeps
            q.join()
            q.asleep -= 1

    return waiting(q, 1, join)


@pytest.mark.parametrize("call", ["put", "put_nowait", "reschedule", "get in vain", "shutdown"])
def test_an_interrupt_at_any_place_leaves_no_consumer_without_the_item(pywheel, call):
    def get_in_vain(q, handle):
        with suppress(queue.Empty):
            q.get(timeout=0)

    for intrusion in at_each_place(QUEUE, interrupt):
        q = watched(pywheel)()
        later = q.put("later", 1_000)
        crowd = waiting(q, 2, q.get)
        with suppress(KeyboardInterrupt), traced(intrusion):
            CALLS.get(call, get_in_vain)(q, later)
        until(lambda: not q.ready())  # noqa: B023 - called at once
        while crowd.done() < 2 and not q._is_shut:
            before = crowd.done()
            q.put("another")
            until(lambda: crowd.done() > before)  # noqa: B023 - called at once
        q.shutdown(immediate=True)
        until(lambda: crowd.done() == 2)  # noqa: B023 - called at once


@pytest.mark.usefixtures("no_collector")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_place_leaves_no_task_without_the_item(pywheel):
    async def use():
        q.put_nowait("sooner", 1)
        await q.get()
        await q.put("now")
        q.remove(q.put_nowait("never", 1))

    def turns(are_enough):
        for _ in range(30):
            if not are_enough():
                clock.jump(0.5)
                loop.call_soon(loop.stop)
                loop.run_forever()

    for intrusion in at_each_place(ASYNC_QUEUE, interrupt):
        clock, loop = pywheel.ManualClock(), asyncio.SelectorEventLoop()
        loop.time = clock.time
        q = pywheel.AsyncDelayQueue()
        getters = [loop.create_task(q.get()) for _ in range(3)]
        turns(lambda: clock.time() > 2)  # noqa: B023 - called at once
        with suppress(KeyboardInterrupt), traced(intrusion):
            turns(loop.create_task(use()).done)
        for number in range(5):
            loop.call_soon(q.put_nowait, number, number / 10)
        turns(lambda: all(getter.done() for getter in getters))  # noqa: B023 - called at once
        assert all(getter.done() for getter in getters), intrusion.left
        loop.close()


def test_an_interrupt_at_any_place_of_any_call_leaves_a_sound_dict(pywheel, clock):
    for intrusion in at_each_place(DICT, interrupt):
        d = pywheel.TTLDict(1, maxsize=2, clock=clock)
        with suppress(KeyboardInterrupt), traced(intrusion):
            use(d, clock)
        d.update(c=1, d=2, e=3)
        assert list(d) == ["d", "e"]
        clock.jump(10)
        assert len(d) == len(d._wheel) == 0


def use(d, clock):
    """Call most of its methods; what is dropped meanwhile is not an error."""
    d["a"] = 1
    d.set("b", 2, 3)
    d["a"] = 3
    d["c"] = 4
    d.touch("c")
    clock.jump(1.5)
    d.get("a")
    list(d.items())
    d.ttl("b")
    d.setdefault("d", 5)
    d.touch("d", 2)
    d["e"] = 5
    clock.jump(1)
    d.expire()
    d.pop("d", None)
    with suppress(KeyError):
        d.popitem()
    d["f"] = 6
    d.clear()


# ---- it uses them --------------------------------------------------------------------------------------------------


def test_a_handler_may_use_a_queue_at_any_place(pywheel, clock):
    def use_it():
        clock.jump(0.001)
        q.put_nowait("handler's")
        with suppress(queue.Empty):
            out.append(q.get_nowait())

    for intrusion in at_each_place(QUEUE, lambda: use_it()):
        q, out = pywheel.DelayQueue(clock=clock), []
        with traced(intrusion):
            handle = q.put_nowait("gone")
            q.put("late", 1)
            q.put_nowait("mine")
            q.reschedule(handle, 0.0005)
            out.append(q.get())
            q.remove(handle)
            q.ready()
        clock.jump(1)
        while q.qsize():
            out.append(q.get_nowait())
        gone = ["gone"] * out.count("gone")
        assert sorted(out) == sorted(gone + ["late", "mine"] + ["handler's"] * intrusion.happened)
        for _ in out:
            q.task_done()
        q.join()


@pytest.mark.parametrize(
    ("what", "maxsize"),
    [("set", None), ("others", None), *((what, 2) for what in "set pop clear others expire".split())],
)
def test_a_handler_may_use_a_dict_at_any_place(pywheel, clock, what, maxsize):
    def use_it():
        clock.jump(0.7)
        if what == "set":
            for key in "abcdef":
                d.set(key, 7, 0.5)
        elif what == "pop":
            for key in "abcdef":
                d.pop(key, None)
        elif what == "clear":
            d.clear()
        elif what == "others":
            list(d.items())
            d.touch("b")
            d.setdefault("x", 1)
            d["y"] = 1
        else:
            clock.jump(10)
            d.expire()

    for intrusion in at_each_place(DICT, lambda: use_it()):
        d = pywheel.TTLDict(1, maxsize=maxsize, clock=clock)
        with traced(intrusion):
            use(d, clock)
        d.update(c=1, d=2, e=3)
        assert maxsize is None or len(d) == maxsize
        clock.jump(10)
        assert len(d) == len(d._wheel) == len(d._data) == 0


def test_what_a_handler_sets_anew_while_it_is_dropped_stays(pywheel, clock):
    def use_it():
        d["a"] = "new"

    for intrusion in at_each_place(DICT, lambda: use_it()):
        d = pywheel.TTLDict(1, clock=clock)
        d["a"] = "old"
        clock.jump(1)
        with traced(intrusion):
            d.expire()
        assert d.get("a") == ("new" if intrusion.happened else None)
