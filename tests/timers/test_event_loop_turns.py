"""EventLoop: the work of one turn, and its limits."""

import asyncio
import random
import socket
from contextlib import suppress

import pytest

from tests.implementations import load_package
from tests.interrupts import at_each_place, interrupt, traced
from tests.timers.loops import Impatient, turn


def test_a_timer_that_rearms_itself_without_delay_runs_once_a_turn_and_lets_files_have_theirs(loop):
    def again():
        calls.append("timer")
        loop.call_later(0, again)

    calls = []
    ours, theirs = socket.socketpair()
    loop.add_reader(ours, lambda: calls.append(ours.recv(1)))
    loop.call_later(0, again)
    theirs.send(b"ab")
    for _ in range(3):
        turn(loop)
    assert calls == ["timer", b"a", "timer", b"b", "timer"] or calls == [b"a", "timer", b"b", "timer", "timer"]
    loop.remove_reader(ours)
    ours.close(), theirs.close()


# ---- callbacks that do things ---------------------------------------------------------------------------------------


def test_a_sibling_due_in_the_same_turn_can_be_cancelled(loop, clock):
    calls = []
    handles = []

    def cancel_the_others():
        calls.append("first")
        for handle in handles:
            handle.cancel()

    loop.call_later(1, cancel_the_others)
    handles += [loop.call_later(1, calls.append, number) for number in range(300)]
    soon = loop.call_soon(calls.append, "soon")
    soon.cancel()
    clock.advance(1)
    for _ in range(5):
        turn(loop)
    assert calls == ["first"]
    assert loop._scheduled == []


def test_a_callback_that_cancels_itself_or_schedules_more_harms_nobody(loop, clock):
    def callback():
        handle.cancel()
        assert not handle._scheduled
        calls.append(1)
        loop.call_later(0, calls.append, 3)
        loop.call_later(-1, calls.append, 2)

    calls = []
    clock.advance(5)
    handle = loop.call_later(0, callback)
    turn(loop)
    assert calls == [1]
    turn(loop)
    assert calls == [1, 2, 3]


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError, GeneratorExit, BaseException])
def test_an_exception_goes_to_the_handler_as_in_asyncio_and_the_others_run(pywheel, clock, error):
    def broken(*args):
        raise error(args)

    def run(loop):
        calls, errors = [], []
        loop.set_exception_handler(lambda loop, context: errors.append(context))
        handles = [loop.call_later(0, broken, 1), loop.call_soon(broken), loop.call_later(0, calls.append, 1)]
        handles += [loop.call_later(0, None), loop.call_soon(17)]  # which cannot be called
        turn(loop)
        assert calls == [1]
        assert [error["handle"] for error in errors] == [handles[number] for number in (1, 4, 0, 3)]
        told = [(sorted(error), error["message"], repr(error["exception"])) for error in errors]
        loop.close()
        return told

    assert run(pywheel.EventLoop(clock=clock)) == run(asyncio.SelectorEventLoop())


def test_a_nested_turn_goes_on_where_the_outer_one_is(loop):
    """What some libraries do so that one can wait for a coroutine within another."""
    calls = []

    def nested():
        calls.append("nested")
        loop._run_once()
        calls.append("outer")

    loop.call_soon(nested)
    for number in range(3):
        loop.call_later(0, calls.append, number)
    with pytest.raises(IndexError):  # as in asyncio: the outer turn had counted them
        turn(loop)
    assert calls == ["nested", 0, 1, 2, "outer"]


def test_a_run_method_that_somebody_put_into_asyncios_handles_is_called(loop, monkeypatch):
    def run(handle):
        calls.append(type(handle).__name__)
        original(handle)

    calls, original = [], asyncio.Handle._run
    loop.call_later(0, calls.append, 1)
    monkeypatch.setattr(asyncio.Handle, "_run", run)
    turn(loop)
    assert calls == ["Handle", "TimerHandle", 1]
    monkeypatch.undo()
    loop.call_later(0, calls.append, 2)
    turn(loop)
    assert calls[3:] == [2]


def test_handles_of_other_classes_are_run_by_their_own_method(loop):
    class Mine(asyncio.Handle):
        def _run(self):
            calls.append("mine")
            super()._run()

    calls = []
    loop._ready.append(Mine(calls.append, (1,), loop))
    turn(loop)
    assert calls == ["mine", 1]


# ---- against a model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_random_programs_run_as_a_list_sorted_by_time_would_say(pywheel, seed):
    rng = random.Random(seed)
    clock = pywheel.ManualClock(rng.choice([0, 1e5, 2e7]))
    limit = rng.choice([1, 7, 1_000])
    loop = pywheel.EventLoop(clock=clock, limit=limit)
    pending, ran, number = {}, [], 0
    for _ in range(600):
        what = rng.random()
        if what < 0.6:
            delay = rng.choice([0, 1e-6, 1e-3, 0.3, 1, 60, 3_600, 1e6]) * rng.choice([1, rng.random()])
            pending[number] = loop.call_later(delay, ran.append, number)
            number += 1
        elif what < 0.75 and pending:
            pending.pop(rng.choice(list(pending))).cancel()
        else:
            clock.advance(rng.choice([0, 1e-6, 1e-3, 0.5, 30, 1_000]))
            now = loop.time()
            due = sorted((int(handle.when() * 2**20), key) for key, handle in pending.items() if handle.when() <= now)
            ran.clear()
            while len(ran) < len(due):
                before = len(ran)
                turn(loop)
                assert len(ran) - before == min(limit, len(due) - before)
            turn(loop)
            assert ran == [key for _, key in due]
            for key in ran:
                del pending[key]
        assert len(loop._scheduled) == len(pending)
    loop.close()


@pytest.mark.usefixtures("no_collector")
def test_an_interrupt_at_any_place_of_a_turn_makes_no_due_timer_wait():
    """As by the second SIGINT of a Runner. Nobody interrupts within a turn of the native loop."""
    pywheel = load_package("pure")
    for intrusion in at_each_place(("_pure_loop.py", "_pure.py", "_pure_levels.py"), interrupt):
        selector, calls = Impatient(), []
        loop = pywheel.EventLoop(selector, clock=pywheel.ManualClock(1))
        turn(loop)  # so that the wheel is at that time
        loop.call_later(0, calls.append, 1)
        with suppress(KeyboardInterrupt), traced(intrusion):
            loop._run_once()
        if loop._scheduled or loop._ready:  # otherwise it was called, or the call itself was interrupted
            loop._run_once()
            assert calls == [1]
        assert set(selector.timeouts) == {0}
        loop.close()
