"""Drivers that get an exception from outside: a signal's handler raises, or another thread sets it."""

import asyncio
import threading
from contextlib import suppress
from itertools import count

import pytest

from tests.implementations import CORES, load_package
from tests.interrupts import Intrusion, at_each_place, interrupt, traced
from tests.jobs.waiting import until

AIO = ("timers/_aio.py", "timers/_alarm.py")


@pytest.fixture
def pywheel():
    """One implementation: what is interrupted is Python on both, and nobody interrupts within a wheel or a driver."""
    return load_package(CORES[0])


def run_until_called(loop, calls, times=1):
    """Run the loop until there are so many calls; there must be within a minute."""
    tries = iter(range(60_000))

    def look():
        nonlocal again
        if len(calls) >= times or next(tries, None) is None:
            again = None
            loop.stop()
        else:
            again = loop.call_later(0.001, look)

    again = loop.call_soon(look)
    try:
        while again is not None:  # uvloop keeps a stop() that an interrupt overtook
            loop.run_forever()
    finally:
        if again is not None:
            again.cancel()
    assert len(calls) >= times


def turn(timers, loop, clock, beats):
    run_until_called(loop, beats, 2)


def schedule(timers, loop, clock, beats):
    timers.call_at(timers.time() - 1, beats.append, 1)  # sooner than the beat, however late it is


def stop(timers, loop, clock, beats):
    timers.stop()


def move(timers, loop, clock, beats):
    clock.jump(1)
    run_until_called(loop, beats)


@pytest.mark.parametrize("action", [turn, schedule, stop, move], ids=lambda action: action.__name__)
def test_an_interrupt_at_any_place_leaves_the_driver_stopped_or_awake(pywheel, each_loop, action):
    for intrusion in at_each_place(AIO, interrupt):
        clock = pywheel.ManualClock() if action is move else None
        timers = pywheel.AsyncTimers(each_loop, clock=clock)
        beats, others = [], []
        timers.call_every(1 if clock else 0.001, beats.append, 1)
        with suppress(KeyboardInterrupt), traced(intrusion):
            action(timers, each_loop, clock, beats)
        if timers.stopped:
            continue
        beats.clear()
        timers.call_later(0, others.append, 2)
        if clock:
            clock.jump(1)
        run_until_called(each_loop, beats, 1 if clock else 2)
        run_until_called(each_loop, others)
        timers.stop()


@pytest.mark.usefixtures("no_collector")
def test_an_interrupt_at_any_place_of_the_loops_turn_leaves_the_driver_awake(pywheel):
    def turns(times):
        nonlocal now
        for _ in range(times):
            now += 1
            loop.call_soon(loop.stop)
            loop.run_forever()

    for intrusion in at_each_place(("asyncio/base_events.py", "asyncio/events.py"), interrupt):
        loop, now = asyncio.SelectorEventLoop(), 0
        loop.time = lambda: now  # noqa: B023 - as it is then
        timers, beats = pywheel.AsyncTimers(loop), []
        timers.call_every(1, beats.append, 1)
        with suppress(KeyboardInterrupt), traced(intrusion):
            turns(4)
        beats.clear()
        turns(16)
        assert len(beats) > 10, intrusion.left
        loop.close()


class BeforeTheCall(Intrusion):
    """Intrudes where the loop has taken the handle of an alarm, and has not called it."""

    def concerns(self, code):
        return code is asyncio.Handle._run.__code__

    def meets(self, frame, here):
        handle = frame.f_locals["self"]
        if handle is not None and handle._callback is next:
            super().meets(frame, here)


@pytest.fixture(params=["asyncio", "EventLoop"])
def calling_loop(request, pywheel):
    """A loop that calls its handles in Python."""
    loop = asyncio.SelectorEventLoop() if request.param == "asyncio" else pywheel.EventLoop()
    loop.set_debug(True)
    yield loop
    loop.close()


def test_timers_run_whose_alarm_an_interrupt_took_from_the_loop(pywheel, calling_loop):
    timers, calls = pywheel.AsyncTimers(calling_loop), []
    for _ in range(100):
        timers.call_later(0.001, calls.append, 1)
    with pytest.raises(KeyboardInterrupt), traced(BeforeTheCall(1, (), interrupt)):
        run_until_called(calling_loop, calls)
    assert not calls
    run_until_called(calling_loop, calls, 100)


def test_a_getter_is_woken_whose_alarm_an_interrupt_took_from_the_loop(pywheel, calling_loop):
    async def get():
        got.append(await q.get())

    q, got = pywheel.AsyncDelayQueue(), []
    task = calling_loop.create_task(get())
    calling_loop.call_soon(lambda: q.put_nowait("item", 0.001))
    with pytest.raises(KeyboardInterrupt), traced(BeforeTheCall(1, (), interrupt)):
        run_until_called(calling_loop, got)
    run_until_called(calling_loop, got)
    assert got == ["item"]
    assert task.done()


@pytest.mark.parametrize("make", ["AsyncTimers", "AsyncDelayQueue"])
def test_a_move_of_the_clock_is_seen_that_an_interrupt_took_from_the_loop(pywheel, clock, calling_loop, make):
    async def get():
        calls.append(await q.get())

    calls = []
    if make == "AsyncTimers":
        pywheel.AsyncTimers(calling_loop, clock=clock).call_later(1, calls.append, 1)
    else:
        q = pywheel.AsyncDelayQueue(clock=clock)
        q.put_nowait("item", 1)
        calling_loop.create_task(get())
        calling_loop.run_until_complete(asyncio.sleep(0))
    clock.advance(2)
    with pytest.raises(KeyboardInterrupt), traced(BeforeTheCall(1, (), interrupt)):
        run_until_called(calling_loop, calls)
    run_until_called(calling_loop, calls)


# ---- threads -------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_reports(monkeypatch):
    """Have nobody told of what ends a thread."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)


@pytest.fixture
def interrupted_thread(pywheel, no_reports):
    """Start timers with a heartbeat and end their thread at a place. Give them, the beats, and whether it happened."""
    started = []

    def start(number):
        intrusion = Intrusion(number, ("timers/_thread.py",), leave)
        timers = pywheel.ThreadTimers()
        started.append(timers)
        beats = []
        with traced(intrusion, others=True):
            timers.call_every(0.001, beats.append, 1)
            until(lambda: intrusion.happened or len(beats) >= 2)
        return timers, beats, intrusion.happened

    yield start
    for timers in started:
        timers.stop()


def leave():
    raise SystemExit


def test_a_thread_that_is_ended_from_outside_hands_over(interrupted_thread):
    for number in count(2):  # at the first, before it has begun, it cannot
        timers, beats, happened = interrupted_thread(number)
        before = len(beats)
        until(lambda: len(beats) >= before + 2)  # noqa: B023 - called at once
        timers.stop()
        if not happened:
            break
    assert number > 20


def test_the_next_timer_sees_a_thread_that_could_not_hand_over(interrupted_thread):
    timers, beats, happened = interrupted_thread(1)
    assert happened
    until(lambda: not timers._thread.is_alive())
    called = threading.Event()
    timers.call_later(0, called.set)
    assert called.wait(60)
    until(lambda: beats)


def test_a_clock_that_moves_sees_a_thread_that_could_not_hand_over(pywheel, no_reports):
    clock = pywheel.ManualClock()
    intrusion = Intrusion(1, ("timers/_thread.py",), leave)
    with pywheel.ThreadTimers(clock=clock) as timers:
        called = []
        with traced(intrusion, others=True):
            timers.call_later(1, called.append, 1)
            until(lambda: not timers._thread.is_alive())
        clock.advance(1)
        assert called == [1]


TWIN = ("timers/_pure_driver.py", "timers/_pure_timer.py", "core/_pure.py", "core/_pure_levels.py")


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_an_interrupt_at_any_place_of_a_turn_of_the_twin_ends_no_periodic_timer(missed):
    twin = load_package("pure")
    for intrusion in at_each_place(TWIN, interrupt):
        clock, calls = twin.ManualClock(), []
        timers = twin.Timers(clock)
        beat, once = timers.call_every(1, calls.append, 1, missed=missed), timers.call_later(1, calls.append, 2)
        clock.jump(3)
        with suppress(KeyboardInterrupt), traced(intrusion):
            timers.run_due()
        assert set(timers.pending()) == {timer for timer in (beat, once) if timer.active()}
        before = calls.count(1)
        clock.jump(1)
        timers.run_due()
        timers._check()
        assert calls.count(1) > before
        assert calls.count(2) <= 1
        assert beat.active()
        assert not once.active()


@pytest.mark.usefixtures("no_collector")
def test_a_timer_of_the_twin_whose_cancel_was_interrupted_says_whether_it_is_there():
    twin = load_package("pure")
    for intrusion in at_each_place(TWIN, interrupt):
        timers = twin.Timers(twin.ManualClock())
        timer = timers.call_later(1, print)
        with suppress(KeyboardInterrupt), traced(intrusion):
            timer.cancel()
        assert timer.active() is timer.reset() is (timer in timers.pending())


@pytest.fixture(params=CORES)
def either(request):
    """Both implementations: a timer is moved by one of them, and its driver is woken in Python."""
    return load_package(request.param)


MOVES = {"reset": lambda timer: timer.reset(1), "reschedule": lambda timer: timer.reschedule(1)}


@pytest.mark.parametrize("move", MOVES)
def test_a_timer_is_not_late_whose_move_was_interrupted(either, move):
    for intrusion in at_each_place((*AIO, "timers/_pure_timer.py"), interrupt):
        loop, now, calls = asyncio.SelectorEventLoop(), 0, []
        loop.time = lambda: now  # noqa: B023 - as it is then
        timers = either.AsyncTimers(loop)
        timer = timers.call_later(1000, calls.append, 1)
        with suppress(KeyboardInterrupt), traced(intrusion):
            MOVES[move](timer)
        assert timer.when() in (1, 1000)
        now = timer.when()
        for _ in range(4):
            loop.call_soon(loop.stop)
            loop.run_forever()
        loop.close()
        assert calls == [1], intrusion.left


def test_a_thread_wakes_for_a_timer_whose_move_was_interrupted(either):
    for intrusion in at_each_place(("timers/_thread.py",), interrupt):
        with either.ThreadTimers() as timers:
            called = threading.Event()
            timer = timers.call_later(1000, called.set)
            until(lambda: timers._wake_before < 2**62)
            with suppress(KeyboardInterrupt), traced(intrusion):
                timer.reset(0)
            assert called.wait(30)
