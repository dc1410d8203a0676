"""No turn runs or collects many timers, however many are late or due on one tick."""

import itertools
import random
import sys
import threading

import pytest

from tests.jobs.waiting import until
from tests.often import often
from tests.timers.loops import Told, make_loop

COUNT = 14_000
LIMIT = 1_000  # callbacks in a turn
MOST = 10_000  # timers that collecting may touch in a turn: far from all of them
MANY_TURNS = 100_000  # after which a test gives up


class Timers:
    """A crowd of timers and what is seen of it: each call, and after each turn how many ran, and were touched."""

    def __init__(self, driver):
        self.driver = driver
        self.calls, self.turns, self.handles = [], [], None  # or a list, for a test that needs them
        self.callback = self.calls.append

    def add(self, when, number):
        handle = self.driver.call_at(when, self.callback, number)
        if self.handles is not None:
            self.handles.append(handle)

    def note(self):
        self.turns.append((len(self.calls), self.driver._touched))


class Loops(Timers):
    """In a loop, whose turns are watched."""

    def __init__(self, loop, driver, clock):
        super().__init__(driver)
        self.loop, self.clock = loop, clock
        self.between = None  # called between turns
        self.runs = 0

    def hold(self):
        """Have the wheel know the time, and nothing run until `run`."""
        self.driver.call_at(0, int)
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    def jump(self, seconds):
        self.clock.jump(seconds)

    def run(self, calls):
        """Run turns until so many calls were made."""
        self.runs = mine = self.runs + 1

        def look():
            if self.runs != mine:  # an interrupt has ended it
                return
            self.note()
            if self.between is not None:
                self.between()
            if len(self.calls) < calls and len(self.turns) < MANY_TURNS:
                self.loop.call_soon(look)
            else:
                self.loop.stop()

        self.note()
        self.loop.call_soon(look)
        try:
            self.loop.run_forever()
        finally:
            self.note()
        assert len(self.turns) < MANY_TURNS, "it never ends"

    def close(self):
        if self.driver is not self.loop:
            self.driver.stop()
        self.loop.close()


class Threads(Timers):
    """On a driver with a thread, which reads its clock once or more in each turn."""

    def __init__(self, pywheel):
        self.main = threading.current_thread()
        self.clock = Told()
        self.clock.time_ns = self.time_ns
        self.held, self.waits = threading.Event(), False
        super().__init__(pywheel.ThreadTimers(clock=self.clock))

    def time_ns(self):
        if threading.current_thread() is not self.main:
            self.note()
        return self.clock.now

    def hold(self):
        self.driver.call_at(0, self.wait)
        until(lambda: self.waits)

    def wait(self):
        self.waits = True
        self.held.wait()

    def jump(self, seconds):
        self.clock.now += round(seconds * 10**9)

    def run(self, calls):
        self.held.set()
        self.driver.call_at(0, int)  # it wakes the thread
        until(lambda: len(self.calls) >= calls)

    def close(self):
        self.held.set()
        self.driver.stop()


LOOPS = ["EventLoop", "AsyncTimers, asyncio", "AsyncTimers, uvloop", "AsyncTimers, EventLoop"]


@pytest.fixture
def make(pywheel):
    """Make what is asked for, and close it at the end."""
    made = []

    def make(kind):
        clock = pywheel.ManualClock()
        driver, _, name = kind.partition(", ")
        if driver == "ThreadTimers":
            crowd = Threads(pywheel)
        elif driver == "EventLoop":
            loop = pywheel.EventLoop(clock=clock)
            crowd = Loops(loop, loop, clock)
        else:
            loop = make_loop(pywheel, name)
            crowd = Loops(loop, pywheel.AsyncTimers(loop, clock=clock), clock)
        made.append(crowd)
        return crowd

    yield make
    for each in made:
        each.close()


@pytest.fixture(params=often(["EventLoop", "AsyncTimers, asyncio", "ThreadTimers", *LOOPS[2:]], few=3))
def crowd(request, make):
    """A crowd of timers on each driver."""
    return make(request.param)


@pytest.fixture(params=often(LOOPS[:3], few=2))
def on_loop(request, make):
    """A crowd on each driver whose turns a test can come between."""
    return make(request.param)


def one_tick(crowd, count):
    for number in range(count):
        crowd.add(100, number)
    crowd.jump(101)
    return list(range(count))


def one_near_tick(crowd, count):
    for number in range(count):
        crowd.add(0.0001, number)
    crowd.jump(1)
    return list(range(count))


def late(crowd, count):
    """Over 200 ms, each of which has timers from all over the order of scheduling."""
    whens = [number * 7_919 % count * 200 // count for number in range(count)]
    for number, when in enumerate(whens):
        crowd.add(100 + when / 1_000, number)
    crowd.jump(101)
    return sorted(range(count), key=whens.__getitem__)


def in_the_past(crowd, count):
    crowd.jump(10)
    crowd.hold()
    whens = [number % 5 for number in range(count)]
    for number, when in enumerate(whens):
        crowd.add(when, number)
    return sorted(range(count), key=whens.__getitem__)


SCENES = [one_tick, late, one_near_tick, in_the_past]
EACH_SCENE = pytest.mark.parametrize("scene", often(SCENES, 2))


def assert_bounded(crowd):
    """Assert that no turn ran or touched more than it may."""
    ran, touched = zip(*crowd.turns, strict=True)
    assert max(after - before for before, after in itertools.pairwise(ran)) <= LIMIT
    assert max(after - before for before, after in itertools.pairwise(touched)) <= MOST
    assert touched[-1] >= len(crowd.calls)  # it was counted


@pytest.mark.parametrize("scene", SCENES)
def test_no_turn_runs_or_collects_more_than_its_share_and_the_order_is_kept(crowd, scene):
    expected = scene(crowd, COUNT)
    crowd.run(calls=COUNT)
    assert crowd.calls == expected
    assert_bounded(crowd)


@pytest.mark.stress
@pytest.mark.parametrize("kind", LOOPS[:2])
@pytest.mark.parametrize("scene", [one_tick, late])
def test_no_turn_is_longer_for_a_million_timers(pywheel, make, kind, scene):
    """On a loop, and on a driver: what is beneath that one makes no difference to the wheel."""
    crowd, count = make(kind), 1_000_000 if pywheel.implementation == "native" else 60_000
    expected = scene(crowd, count)
    crowd.run(calls=count)
    assert crowd.calls == expected
    assert_bounded(crowd)


def test_a_late_timer_that_arms_itself_in_the_past_makes_no_turn_longer_and_waits_for_those_due_before_it(crowd):
    def again():
        if len(crowd.calls) < COUNT:
            before.append(len(crowd.calls))
            crowd.driver.call_at(0, again)

    before = []
    crowd.driver.call_at(99, again)
    expected = late(crowd, COUNT)
    crowd.run(calls=COUNT)
    assert crowd.calls == expected
    assert before[0] == 0
    assert len(before) <= 2  # the second time after all that was late
    assert_bounded(crowd)


@EACH_SCENE
@pytest.mark.parametrize("when", [1, 5_000], ids=["while it collects", "while it calls"])
def test_what_is_cancelled_between_turns_is_not_called(on_loop, scene, when):
    def between():
        if not cancelled and len(crowd.calls) + len(crowd.turns) > when:
            called = set(crowd.calls)
            for number in range(0, COUNT, 2):
                if number not in called:
                    crowd.handles[number].cancel()
                    cancelled.add(number)
        if len(crowd.turns) % 10 == 0:
            crowd.driver._check()

    crowd, cancelled = on_loop, set()
    crowd.handles, crowd.between = [], between
    expected = scene(crowd, COUNT)
    crowd.add(200, "last")
    while len(crowd.calls) + len(cancelled) < COUNT:
        crowd.run(calls=len(crowd.calls) + 1)
    assert len(cancelled) >= COUNT // 2 - 5_000
    assert crowd.calls == [number for number in expected if number not in cancelled]
    crowd.run(calls=len(crowd.calls))
    crowd.driver._check()
    assert_bounded(crowd)


@pytest.mark.parametrize("seed", often(range(10), 2))
def test_random_changes_between_turns_lose_nothing_and_call_nothing_twice(make, seed):
    def change():
        for number in rng.sample(numbers, rng.choice([0, 5, 500])):
            timer = crowd.handles[number]
            if timer.active():
                what = rng.random()
                changed.add(number)
                if what < 0.4:
                    assert timer.cancel()
                    gone.add(number)
                else:
                    assert timer.reschedule(rng.choice([0, 99, 100, 100.1, 100.199, 101, 102, 150, 300]))
        if rng.random() < 0.1:
            crowd.driver._check()
        if crowd.driver.next_deadline() > crowd.driver.time():
            crowd.loop.stop()

    rng = random.Random(seed)
    crowd, changed, gone = make(LOOPS[1 + seed % 2]), set(), set()
    crowd.handles, crowd.between = [], change
    expected = rng.choice(SCENES)(crowd, COUNT)
    numbers = rng.sample(range(COUNT), 5_000)
    crowd.add(1_000, "last")
    while len(crowd.driver) > 1:
        crowd.run(calls=COUNT)
        if len(crowd.driver) > 1:
            crowd.jump(max(0, crowd.driver.next_deadline() - crowd.driver.time()) + rng.choice([0, 0.01, 1]))
    assert sorted(crowd.calls) == sorted(set(range(COUNT)) - gone)
    assert [number for number in crowd.calls if number not in changed] == [
        number for number in expected if number not in changed
    ]
    assert_bounded(crowd)


@EACH_SCENE
def test_an_interrupt_in_the_midst_loses_none_and_repeats_none(on_loop, scene):
    def append(number):
        crowd.calls.append(number)
        if len(crowd.calls) in interrupts:
            raise interrupts[len(crowd.calls)]

    crowd, interrupts = on_loop, {1: KeyboardInterrupt, 3_333: SystemExit, 10_000: KeyboardInterrupt}
    crowd.callback = append
    expected = scene(crowd, COUNT)
    for times, error in interrupts.items():
        with pytest.raises(error):
            crowd.run(calls=COUNT)
        assert len(crowd.calls) == times or "uvloop" in str(crowd.loop)  # that ends the present turn, and the next
    crowd.run(calls=COUNT)
    assert crowd.calls == expected
    assert_bounded(crowd)


@EACH_SCENE
@pytest.mark.parametrize("turn", [2, 12])
def test_stop_between_turns_returns_in_order_what_was_not_called(make, scene, turn):
    def between():
        if len(crowd.turns) == turn:
            left.extend(crowd.driver.stop())
            crowd.loop.stop()

    crowd, left = make(LOOPS[1]), []
    crowd.between = between
    expected = scene(crowd, COUNT)
    crowd.run(calls=COUNT)
    assert crowd.calls + [timer.args[0] for timer in left] == expected
    assert len(crowd.driver) == 0
    crowd.driver._check()


@EACH_SCENE
@pytest.mark.parametrize("turn", [2, 12])
def test_close_in_the_midst_releases_what_was_not_called(make, scene, turn):
    def callback(number):
        crowd.calls.append(number)

    def between():
        if len(crowd.turns) == turn:
            crowd.loop.stop()

    crowd = make("EventLoop")
    crowd.callback, crowd.between = callback, between
    scene(crowd, COUNT)
    crowd.run(calls=COUNT)
    called = len(crowd.calls)
    assert called < COUNT
    assert sys.getrefcount(callback) > COUNT - called
    crowd.loop.close()
    assert sys.getrefcount(callback) < 10


def test_timers_of_one_tick_whose_time_has_not_come_are_none_that_a_turn_is_long_for(pywheel):
    """A loop's tick is a microsecond, and it wakes within one."""
    clock = pywheel.ManualClock(autojump=True)
    loop = pywheel.EventLoop(clock=clock)
    crowd = Loops(loop, loop, clock)
    start = 2**20 / 2**20
    for number in range(COUNT):
        crowd.add(start + 9e-7 if number % 3 else start, number)
    loop.call_at(start + 1, loop.stop)
    clock.jump(1)
    crowd.run(calls=(COUNT + 2) // 3)
    assert crowd.calls == list(range(0, COUNT, 3))
    loop.run_forever()  # it sleeps, and so the clock moves
    assert crowd.calls[(COUNT + 2) // 3 :] == [number for number in range(COUNT) if number % 3]
    assert_bounded(crowd)
    loop.close()
