"""Run the due timers of a driver with one allocation failing in that, the first, the second, the third ..."""

import _testcapi
import gc
import sys
from contextvars import copy_context

from tests.implementations import load_package

POLICIES = ("skip", "burst", "delay")


def starved(call, start, stop):
    """Return (result, None) or (None, the kind of error) of a call during which allocations start .. stop - 1 fail.

    The error itself would make a cycle with this frame, and CPython keeps only a few MemoryErrors in stock.
    """
    error = result = None
    _testcapi.set_nomemory(start, stop)
    try:
        result = call()
    except BaseException as raised:
        error = type(raised)
    _testcapi.remove_mem_hooks()
    return result, error


def calls_with_a_failure(pywheel, start):
    """Return how often each timer was called, or its error reported, and whether an allocation failed."""
    clock, calls, reports = pywheel.ManualClock(), [0] * 30, []
    timers = pywheel.Timers(clock, on_error=lambda timer, error: reports.append(timer))
    numbers = {}

    def call(number, *_):
        calls[number] += 1

    for number in range(10):
        numbers[timers.call_later(1 + number / 100, call, number, *range(number))] = number
    for number in range(10, 15):
        numbers[timers.call_later(2, call, number, context=copy_context())] = number
    for number in range(15, 27):
        jitter = 0 if number < 21 else 0.5
        numbers[timers.call_every(1, call, number, missed=POLICIES[number % 3], jitter=jitter)] = number
    clock.jump(4.6)
    floats = [number / 7 for number in range(500)]  # CPython has none in stock then
    _, error = starved(timers.run_due, start, start + 1)
    assert error in (None, MemoryError)
    del floats
    before = calls.copy()
    timers._check()
    timers.run_due()
    timers._check()
    for timer in reports:
        calls[numbers[timer]] += 1
    return calls, bool(reports) or calls != before


def main(implementation):
    gc.disable()
    pywheel = load_package(implementation)
    gc.freeze()  # collections walk what the turns make alone
    expected, _ = calls_with_a_failure(pywheel, 10**6)
    failures = worked = start = 0
    while worked < 20:
        calls, failed = calls_with_a_failure(pywheel, start)
        lost = [number for number, times in enumerate(expected) if calls[number] < times]
        assert not lost, f"allocation {start}: calls of {lost} were lost"
        failures, worked = failures + failed, 0 if failed else worked + 1
        start += 1
    assert failures > 5, "hardly any allocation failed"


if __name__ == "__main__":
    main(*sys.argv[1:])
