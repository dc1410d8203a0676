"""Drivers that an exception meets from outside: a signal's handler raises, or another thread sets it."""

import threading
from contextlib import suppress
from itertools import count

import pytest

from tests.interrupts import Intrusion, at_each_place, interrupt, traced
from tests.jobs.waiting import until

AIO = ("timers/_aio.py",)


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
