"""timeout on asyncio's loop, held up past several timers: what runs first is what asyncio.timeout lets run first."""

import asyncio
import math
import random
import selectors
from unittest import mock

import pytest


@pytest.fixture
def pywheel(pywheel):
    """The native package alone."""
    if pywheel.implementation != "native":
        pytest.skip("the twin is asyncio's own")
    return pywheel


class Clock:
    """A time that goes on when somebody works, or waits."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


class Waiting(selectors.SelectSelector):
    """Lets the clock go on instead of waiting, by whole milliseconds as epoll does."""

    def __init__(self, clock):
        super().__init__()
        self._clock = clock

    def select(self, timeout=None):
        self._clock.now += math.ceil(timeout * 1_000) / 1_000
        return super().select(0)


def loop_at(clock):
    """Return asyncio's loop on that clock."""
    return asyncio.SelectorEventLoop(Waiting(clock))


class Run:
    """A program that is run with one kind of timeout, and what happened in it."""

    def __init__(self, timeout, tasks):
        self._clock = Clock()
        self._timeout = timeout
        self.seen = []
        with mock.patch("time.monotonic", self._clock):
            loop = loop_at(self._clock)
            try:
                loop.run_until_complete(self._all(tasks))
            finally:
                loop.close()

    async def _all(self, tasks):
        await asyncio.gather(*(self._guarded(f"{number}", steps) for number, steps in enumerate(tasks)))

    async def _guarded(self, name, steps):
        try:
            await self._do(name, steps)
        except TimeoutError:
            self.seen.append(f"{name} hung")

    async def _do(self, name, steps):
        for number, (what, *arguments) in enumerate(steps):
            here = f"{name}.{number} {what}"
            await getattr(self, f"_{what}")(here, *arguments)
            self.seen.append(here)

    async def _limit(self, here, delay, steps):
        try:
            async with self._timeout(delay):
                await self._do(here, steps)
        except TimeoutError:
            self.seen.append(f"{here}: too late")

    async def _sleep(self, here, delay):
        await asyncio.sleep(delay)

    async def _work(self, here, duration):
        self._clock.now += duration

    async def _later(self, here, delay, duration):
        def work():
            self.seen.append(f"{here}: called")
            self._clock.now += duration

        asyncio.get_running_loop().call_later(delay, work)

    async def _hang(self, here, delay):
        async with self._timeout(delay):
            await asyncio.get_running_loop().create_future()


def program(seed):
    """Return what some tasks do, at random."""
    drawn = random.Random(seed)

    def short():
        return drawn.choice([0, 0.0002, 0.001, 0.0013, 0.003, 0.005, 0.0051, 0.013]) + drawn.random() * 0.002

    def steps(depth, count):
        return [step(depth) for _ in range(count)]

    def step(depth):
        kinds = ["limit"] * 7 * (depth < 3) + ["sleep"] * 6 + ["yield", "work", "work", "later", "hang"]
        match drawn.choice(kinds):
            case "limit":
                return "limit", short(), steps(depth + 1, drawn.randint(1, 3))
            case "yield":
                return "sleep", 0
            case "later":
                return "later", short(), drawn.choice([0, short()])
            case "hang":
                return "hang", short()
            case kind:
                return kind, short()

    return [steps(0, drawn.randint(1, 4)) for _ in range(drawn.randint(2, 8))]


def test_timeouts_and_timers_that_the_loop_was_held_up_past_come_by_time(pywheel):
    clock, seen = Clock(), []

    async def main(loop):
        timeouts = [pywheel.timeout(0.001), pywheel.timeout(0.003), pywheel.timeout(0.005)]
        for delay in (0.002, 0.004, 0.006):
            loop.call_later(delay, lambda: seen.append([timeout.expired() for timeout in timeouts]))
        async with timeouts[2], timeouts[1], timeouts[0]:
            clock.now += 0.1
            await loop.create_future()

    with mock.patch("time.monotonic", clock):
        loop = loop_at(clock)
        with pytest.raises(TimeoutError):
            loop.run_until_complete(main(loop))
        loop.close()
    assert seen == [[True, False, False], [True, True, False], [True, True, True]]


def test_a_timeout_that_comes_due_within_a_turn_lets_go_first_what_is_ready_by_the_next(pywheel):
    limited = [("limit", 0.002, [("sleep", 0.001)])]
    tasks = [[("limit", 0.0005, [("sleep", 1)])], limited, [("later", 0.0007, 0.01)]]
    assert "1.0 limit: too late" not in Run(pywheel.timeout, tasks).seen


def test_programs_that_are_held_up_go_as_with_asyncios(pywheel):
    for seed in range(500):
        tasks = program(seed)
        assert Run(pywheel.timeout, tasks).seen == Run(asyncio.timeout, tasks).seen, seed


def test_a_timer_in_whose_place_an_alarm_stands_can_be_cancelled(pywheel):
    """By a callback of the same turn: it does not run, and the timeout behind it ends."""
    clock, called = Clock(), []

    async def main(loop):
        loop.call_later(0.002, lambda: timer.cancel())
        timer = loop.call_later(0.003, called.append, "cancelled")
        loop.call_later(0.005, lambda: called.append(second.expired()))
        async with pywheel.timeout(0.004) as second, pywheel.timeout(0.001):
            clock.now += 0.1
            await loop.create_future()

    with mock.patch("time.monotonic", clock):
        loop = loop_at(clock)
        with pytest.raises(TimeoutError):
            loop.run_until_complete(main(loop))
        loop.close()
    assert called == [True]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_timer_in_whose_place_an_alarm_stands_may_raise(pywheel, error):
    clock, told = Clock(), []

    def fail():
        raise error

    async def main(loop):
        loop.call_later(0.002, fail)
        async with pywheel.timeout(0.003), pywheel.timeout(0.001):
            clock.now += 0.1
            await loop.create_future()

    with mock.patch("time.monotonic", clock):
        loop = loop_at(clock)
        loop.set_exception_handler(lambda loop, context: told.append(type(context["exception"])))
        task = loop.create_task(main(loop))
        if error is KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt):
                loop.run_until_complete(task)
        with pytest.raises(TimeoutError):
            loop.run_until_complete(task)
        loop.close()
    assert told == [error] * (error is ZeroDivisionError)
