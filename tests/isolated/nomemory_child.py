"""Run one operation again and again, with memory out from its first, second, third ... allocation on."""

import faulthandler
import gc
import signal
import sys
import traceback
from functools import partial
from pathlib import Path

import numpy as np

from tests.core.model import MAX_TICK
from tests.implementations import load
from tests.isolated.timers_nomemory_child import starved

FAR = 2**50
ENOUGH = 8  # successes in a row after which no allocation is left to fail
PATIENCE = 120  # seconds for one operation: without memory, a loop may find no way out
THREADS = Path("/proc/self/task")


def few(wheel):
    return [wheel.schedule(10 + number % 7, number) for number in range(20)]


def some_everywhere(wheel):
    """Timers on several levels, past, and held back."""
    handles = few(wheel)
    handles += [wheel.schedule(500 * number, 100 + number) for number in range(30)]
    assert len(wheel.advance(14, 4)) == 4
    return handles + [wheel.schedule(3, 300 + number) for number in range(10)]


def nearly_a_hundred(wheel):
    """Just before the tables for more timers are made, on a build which makes them at a hundred."""
    return [wheel.schedule(10 + number // 50, number) for number in range(95)]


def up_to_a_full_pool(wheel):
    """As many as the first block of the pool takes."""
    return [wheel.schedule(10, number) for number in range(63)]


def nothing(wheel):
    return []


def few_of_all_indices(wheel):
    """A pool that has given out its last index, and has had twenty back."""
    handles = [wheel.schedule(10 + number % 7, number) for number in range(50)]
    assert all(wheel.cancel(handle) for handle in handles[30:])
    return handles[:30]


BUILDS = {
    "nothing": nothing,
    "few": few,
    "everywhere": some_everywhere,
    "full": up_to_a_full_pool,
    "hundred": nearly_a_hundred,
}
BUILDS_OF_A_TINY_POOL = {"nothing": nothing, "few": few, "used": few_of_all_indices}

OPERATIONS = {
    "schedule": lambda wheel, handles: wheel.schedule(wheel.now + 2, 77),
    "schedule_far": lambda wheel, handles: wheel.schedule(FAR, 77),
    "schedule_crowd": lambda wheel, handles: [wheel.schedule(FAR, number) for number in range(12)],
    "reschedule_far": lambda wheel, handles: wheel.reschedule(handles[7], FAR),
    "reschedule_near": lambda wheel, handles: wheel.reschedule(handles[-1], wheel.now),
    "cancel": lambda wheel, handles: wheel.cancel(handles[7]),
    "advance": lambda wheel, handles: wheel.advance(10_000),
    "advance_to_the_end": lambda wheel, handles: wheel.advance(MAX_TICK),
    "advance_limited": lambda wheel, handles: wheel.advance(10_000, 30),
    "advance_nothing_due": lambda wheel, handles: wheel.advance(wheel.now, 0),
    "reserve": lambda wheel, handles: wheel.reserve(5_000),
    "clear": lambda wheel, handles: wheel.clear(),
    "init": lambda wheel, handles: wheel.__init__(5),
    "iterate": lambda wheel, handles: sorted(wheel),
    "next_deadline": lambda wheel, handles: wheel.next_deadline(),
    "look_up": lambda wheel, handles: [(wheel.deadline(handle), wheel.get(handle)) for handle in handles],
}
ARRAYS = {"ticks": np.arange(100) * 37 % 4001, "keys": np.arange(1000, 1100), "far": np.full(20, FAR)}
BULK = {
    "schedule_some": lambda wheel, handles: wheel.schedule_many(ARRAYS["ticks"][:20], ARRAYS["keys"][:20]),
    "schedule_many": lambda wheel, handles: wheel.schedule_many(ARRAYS["ticks"], ARRAYS["keys"]),
    "reschedule_many": lambda wheel, handles: wheel.reschedule_many(np.array(handles[:20]), ARRAYS["far"]),
    "cancel_many": lambda wheel, handles: wheel.cancel_many(np.array(handles)),
    "advance_many": lambda wheel, handles: wheel.advance_many(10_000),
    "advance_many_limited": lambda wheel, handles: wheel.advance_many(10_000, 30),
}
BULK_OF_ITEMS = {
    "schedule_some": lambda wheel, handles: wheel.schedule_many(range(20), range(100, 120)),
    "schedule_many": lambda wheel, handles: wheel.schedule_many(ARRAYS["ticks"].tolist(), range(100)),
    "cancel_many": lambda wheel, handles: wheel.cancel_many(handles),
}
MORE_THAN_A_TINY_POOL = ("reserve", "schedule_many")


def comparable(result, operation):
    """Return a result without what differs from one wheel to the next."""
    if operation.startswith("schedule") or operation == "iterate":
        return None
    return result.tolist() if isinstance(result, np.ndarray) else result


def contents(wheel, handles):
    return [(wheel.deadline(handle), wheel.get(handle)) for handle in handles], len(wheel), wheel.now


def check_failed(wheel, handles, before, name, call, reference):
    """After MemoryError all timers are there, and the same call now does what it would have done."""
    wheel._check()
    after = contents(wheel, handles)
    if name.startswith("advance"):  # the clock may have moved, and nothing else
        assert after[:2] == before[:2], "an advance without memory lost a timer"
        assert after[2] in (before[2], reference[1][2])
    elif name == "schedule_crowd":  # some of its schedules went well
        assert after[0] == before[0]
        return
    elif name in ("look_up", "iterate", "next_deadline"):
        assert after == before
    elif name in ("clear", "init") and after[1] == 0:
        return
    else:
        assert after == before, "a call without memory changed something"
    result = call()
    assert comparable(result, name) == reference[0], "the second try did something else"
    assert wheel.advance(MAX_TICK) == reference[2]


def check_worked(wheel, handles, result, name, reference):
    wheel._check()
    assert comparable(result, name) == reference[0], "it went on without memory, and did something else"
    assert contents(wheel, handles) == reference[1]
    assert wheel.advance(MAX_TICK) == reference[2]


def prepared(wheel_class, build, operation):
    wheel = wheel_class()
    handles = build(wheel)
    return wheel, handles, partial(operation, wheel, handles)


def expected(wheel_class, build, name, operation):
    """Return the outcome with enough memory: the result, the contents, and the timers that are left to expire."""
    wheel, handles, call = prepared(wheel_class, build, operation)
    result = comparable(call(), name)
    return result, contents(wheel, handles), wheel.advance(MAX_TICK)


def run(wheel_class, build, name, operation, width):
    """`width` allocations fail, 0 for all from some point on. Return how many failures were survived."""
    reference = expected(wheel_class, build, name, operation)
    successes = failures = start = 0
    while successes < ENOUGH:
        wheel, handles, call = prepared(wheel_class, build, operation)
        before = contents(wheel, handles)
        result, error = starved(call, start, start + width if width else 0)
        if error is None:
            check_worked(wheel, handles, result, name, reference)
            successes += 1
        else:
            expected_errors = (MemoryError, SystemError) if name in BULK else (MemoryError,)  # NumPy may forget which
            assert error in expected_errors, f"{error.__name__} instead of MemoryError"
            check_failed(wheel, handles, before, name, call, reference)
            successes, failures = 0, failures + 1
        start += 1 if start < 200 else 97  # the twin's iteration makes two thousand alike
    return failures


def watch():
    """Have a signal end the process, and say where it stood, when an operation takes too long.

    No thread may do that: `_testcapi` replaces the allocator's functions and what they are called with one after the
    other, and a thread that frees something in between, as each one does when it starts, crashes.
    """
    if hasattr(signal, "SIGALRM"):  # elsewhere the test loses its patience
        faulthandler.register(signal.SIGALRM, chain=True)
        signal.alarm(PATIENCE)
    if THREADS.exists():
        assert len(list(THREADS.iterdir())) == 1, "a second thread may crash as the allocators change"


def makes_sense(build, name):
    if build is nothing:
        return not name.startswith(("reschedule", "cancel"))
    return build in (few, some_everywhere, few_of_all_indices) or name.startswith("schedule")


def main(implementation, class_name):
    gc.disable()
    wheel_class = getattr(load(implementation), class_name)
    builds, operations = BUILDS, OPERATIONS | (BULK if class_name == "KeyWheel" else BULK_OF_ITEMS)
    if implementation == "tiny-pool":
        builds = BUILDS_OF_A_TINY_POOL
        operations = {name: operations[name] for name in operations if name not in MORE_THAN_A_TINY_POOL}
    failures, broken = 0, 0
    for build_name, build in builds.items():
        for name, operation in operations.items():
            if not makes_sense(build, name):
                continue
            for width in (0, 1):
                watch()
                try:
                    failures += run(wheel_class, build, name, operation, width)
                except BaseException:
                    broken += 1
                    print(f"--- {name} on {build_name}, width {width}")
                    traceback.print_exc(file=sys.stdout)
    assert failures > 100, "hardly any allocation failed: memory comes from elsewhere"
    sys.exit(broken != 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
