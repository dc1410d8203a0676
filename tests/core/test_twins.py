"""Random operations on the native wheel and on its twin: both must give the same. PYWHEEL_FUZZ says how many."""

import os
import random

import numpy as np
import pytest

from tests.core.model import MAX_TICK
from tests.implementations import PURE_ONLY, SMALL, load

pytestmark = pytest.mark.skipif(PURE_ONLY, reason="PYWHEEL_PURE=1: there is nothing to compare with")

OPERATIONS = int(os.environ.get("PYWHEEL_FUZZ", "60000"))
ROUND = 5_000  # operations on one pair of wheels
CHECK_EVERY = 1_000
MOST = 3_000  # timers that may be pending after a check
CROWD = 40_000  # enough for sixteen lists a slot


class Twins:
    """A native wheel and a pure one, that get the same calls; their handles differ."""

    def __init__(self, native, class_name, seed):
        self.seed, self.drawn = seed, random.Random(seed)
        self.has_arrays = class_name == "KeyWheel"
        start = self.drawn.choice([0, 1, 255, 2**40, 2**62, self.drawn.randrange(2**63)])
        self.wheels = [getattr(load(name), class_name)(start) for name in (native, "pure")]
        self.handles = []
        self.items = 0

    def both(self, method, *arguments):
        """Return what both wheels return, which is the same; a list of two as an argument has one for each."""
        results = [
            getattr(wheel, method)(*(each[i] if isinstance(each, list) else each for each in arguments))
            for i, wheel in enumerate(self.wheels)
        ]
        results = [each.tolist() if isinstance(each, np.ndarray) else each for each in results]
        assert results[0] == results[1], (self.seed, method, arguments)
        return results[0]

    def deadline(self, reaches=(1, 4, 300, 1_000, 2**17, 2**20, 2**33, 2**62)):
        """Return a tick before, at, soon after or long after the present one."""
        reach = self.drawn.choice(reaches)
        return min(max(0, self.wheels[0].now + self.drawn.randrange(-3, reach)), MAX_TICK)

    def some(self):
        """Return a timer's handles, mostly of a late one; it may have ended."""
        late = self.drawn.random() < 0.8
        return list(self.handles[-self.drawn.randrange(1, 200) :][0] if late else self.drawn.choice(self.handles))

    def batch(self):
        """Return the handles of some timers, for each wheel."""
        return [list(each) for each in zip(*(self.some() for _ in range(self.drawn.randrange(1, 30))), strict=True)]

    def schedule(self):
        deadline, self.items = self.deadline(), self.items + 1
        self.handles.append([wheel.schedule(deadline, self.items) for wheel in self.wheels])

    def schedule_many(self, count=None):
        few = [self.deadline() for _ in range(self.drawn.randrange(1, 6))]
        count = self.drawn.randrange(30) if count is None else count
        deadlines = [few[i * i % len(few)] for i in range(count)]
        items = range(self.items + 1, self.items + 1 + count)
        self.items += count
        made = [np.asarray(wheel.schedule_many(deadlines, items)).tolist() for wheel in self.wheels]
        self.handles += map(list, zip(*made, strict=True))

    def reschedule(self):
        self.both("reschedule", self.some(), self.deadline())

    def reschedule_many(self):
        if self.has_arrays:
            batch = self.batch()
            self.both("reschedule_many", batch, tuple(self.deadline() for _ in batch[0]))

    def cancel(self):
        self.both("cancel", self.some())

    def cancel_many(self):
        self.both("cancel_many", self.batch())

    def look(self):
        handles = self.some()
        assert self.both("deadline", handles) is None or self.both("get", handles) is not None
        self.both("__contains__", handles)
        self.both("__len__")

    def advance(self):
        limit = self.drawn.choice([None, None, None, 0, 1, 7, 1_000])
        many = self.has_arrays and self.drawn.random() < 0.5
        self.both(
            "advance_many" if many else "advance",
            max(self.deadline((1, 4, 300, 2**17, 2**33)), self.wheels[0].now),
            limit,
        )

    def advance_to_the_next(self):
        ticks = [wheel.next_deadline() for wheel in self.wheels]
        assert (ticks[0] is None) is (ticks[1] is None)
        if ticks[0] is not None:
            self.both("advance", min(ticks))

    def clear(self):
        if self.drawn.random() < 0.01:
            self.both("clear")

    def crowd(self):
        if self.drawn.random() < 0.002:
            self.schedule_many(CROWD)

    def check(self):
        self.both("_check")
        if len(self.wheels[0]) > MOST:
            self.both("clear")

    def run(self, count):
        kinds = [self.schedule] * 12 + [self.reschedule] * 6 + [self.cancel] * 6 + [self.advance_to_the_next] * 4
        kinds += [self.schedule_many, self.reschedule_many, self.cancel_many, self.look, self.advance]
        kinds += [self.clear, self.crowd]
        self.schedule()
        for number in range(count):
            self.drawn.choice(kinds)()
            if number % CHECK_EVERY == 0:
                self.check()
        self.both("_check")
        self.both("advance", MAX_TICK)
        assert self.both("__len__") == 0


@pytest.mark.parametrize("class_name", ["TimingWheel", "KeyWheel"])
@pytest.mark.parametrize("native", ["native", *SMALL])
def test_the_twin_gives_what_the_native_wheel_gives(native, class_name):
    for _ in range(max(1, OPERATIONS // ROUND // (2 + 2 * len(SMALL)))):
        Twins(native, class_name, random.getrandbits(32)).run(ROUND)
