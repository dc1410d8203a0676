"""Signals that come in the middle of the handling of a signal, at each step of it."""

import signal
import sys
from itertools import count

import pytest

from pywheel import Worker


def with_a_call_at_step(number, call, intruder):
    """Run `call`, and `intruder` once within it, before its line `number`. Return whether it has so many lines."""
    left = number

    def trace(frame, event, argument):
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                intruder()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return left <= 0


@pytest.fixture
def program(live_queue):
    @live_queue.handler("t")
    def handle(job):
        pass

    return live_queue


def test_term_signals_that_come_together_leave_a_supervised_worker_its_grace(program):
    for number in count(1):
        worker = Worker(program, grace=30)
        reached = with_a_call_at_step(number, worker.retire, worker.retire)
        assert worker._stopping
        assert worker.grace == 30
        worker.run()
        if not reached:
            break
    assert number > 2


def test_a_signal_at_any_step_of_a_wait_ends_it(program):
    """An Event that a signal handler sets may be locked by the very thread that waits for it."""
    worker = Worker(program)
    before = signal.signal(signal.SIGUSR1, lambda *_: worker._notifier.wake())
    try:
        for number in count(1):
            if not with_a_call_at_step(
                number, lambda: worker._notifier.wait(0.01), lambda: signal.raise_signal(signal.SIGUSR1)
            ):
                break
    finally:
        signal.signal(signal.SIGUSR1, before)
        worker.stop()
        worker.run()
    assert number > 2
