"""Run the turns of a loop with one allocation failing in them, the first, the second, the third ..."""

import asyncio
import gc
import sys
import weakref

from tests.implementations import load_package
from tests.isolated.timers_nomemory_child import starved
from tests.timers.loops import Impatient, turn

TIMERS = 700
DEQUES_LEAK = sys.version_info[:2] == (3, 14)  # earlier ones have blocks in stock here, later ones release the item


class Callback:
    """Counts its calls."""

    def __init__(self, calls, number):
        self.calls, self.number = calls, number

    def __call__(self):
        self.calls[self.number] += 1


def turns_with_a_failure(pywheel, start):
    """Return the counts of the calls, weak references to the callbacks, and whether an allocation failed."""
    clock = pywheel.ManualClock()
    loop, calls = pywheel.EventLoop(clock=clock), [0] * TIMERS
    reports, callbacks = [], []
    loop.set_exception_handler(lambda loop, context: reports.append(type(context["exception"])))
    for number in range(TIMERS):
        callback = Callback(calls, number)
        callbacks.append(weakref.ref(callback))
        loop.call_at(1 + number / TIMERS, callback)
    del callback
    clock.advance(2)
    loop.call_soon(loop.stop)
    _, error = starved(loop._run_once, start, start + 1)
    assert error in (None, MemoryError)
    for _ in range(4):
        loop.call_soon(loop.stop)
        loop.run_forever()
    loop.close()
    return calls, callbacks, bool(error or reports)


def timeouts_after_a_failure(pywheel, start):
    """Return the timeouts of a turn in which an allocation failed, and the next one, and whether a timer came late."""
    selector, calls = Impatient(), [0]
    loop = pywheel.EventLoop(selector, clock=pywheel.ManualClock(1))
    turn(loop)
    loop.call_later(0, Callback(calls, 0))
    selector.timeouts.clear()
    _, error = starved(loop._run_once, start, start + 1)
    assert error in (None, MemoryError)
    late = calls == [0]
    loop._run_once()
    loop.close()
    return selector.timeouts, late


def main(implementation):
    gc.disable()
    pywheel = load_package(implementation)
    asyncio.set_event_loop(None)
    gc.freeze()  # collections walk what the turns make alone
    failures = worked = start = 0
    while worked < 20:
        calls, callbacks, failed = turns_with_a_failure(pywheel, start)
        lost = calls.count(0)
        assert max(calls) == 1, f"allocation {start}: a callback was called twice"
        assert lost <= 1, f"allocation {start}: {lost} callbacks were lost"
        gc.collect()
        # Some lists and deques of CPython's own leak what they hold, or should take, when they cannot grow.
        leaks = sum(callback() is not None for callback in callbacks)
        assert leaks <= (TIMERS if implementation == "pure" else DEQUES_LEAK), (
            f"allocation {start}: {leaks} handles leak"
        )
        failures, worked = failures + failed, 0 if failed else worked + 1
        start += 1 if start < 300 or implementation == "native" else 29  # the twin's turn makes thousands alike
    assert failures > 5, "hardly any allocation failed"
    late = 0
    for start in range(60):
        timeouts, was_late = timeouts_after_a_failure(pywheel, start)
        assert not was_late or set(timeouts) == {0}, f"allocation {start}: the loop waits though a timer is due"
        late += was_late
    assert late, "no timer came late"


if __name__ == "__main__":
    main(*sys.argv[1:])
