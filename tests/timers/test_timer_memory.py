"""The objects that timers release, and when, and what finalisers may do meanwhile."""

import gc
import weakref

import pytest

from tests.core.items import Item, Meddler
from tests.timers.loops import nothing

pytestmark = pytest.mark.usefixtures("swept")


class Call(Item):
    """A callback that can be seen to be released."""

    def __call__(self, *args):
        """Do nothing."""


def test_a_timer_that_has_fired_has_released_all_when_the_next_is_called(timers, clock):
    callback, argument = Call(), Item()
    refs = [weakref.ref(callback), weakref.ref(argument)]
    first = timers.call_later(1, callback, argument)
    del callback, argument
    timers.call_later(1, lambda: seen.extend(ref() for ref in refs))
    seen = []
    clock.advance(1)
    assert seen == [None, None]
    assert not first.active()


ACTIONS = {
    "cancel": lambda timers, others: [timer.cancel() for timer in others],
    "reset": lambda timers, others: [timer.reset(0) for timer in others],
    "schedule": lambda timers, others: [timers.call_later(0, nothing), timers.call_later(10**6, nothing)],
    "run": lambda timers, others: timers.run_due(),
    "look": lambda timers, others: (timers.pending(), len(timers), timers.next_deadline(), list(map(repr, others))),
    "stop": lambda timers, others: timers.stop(),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("way", ["cancel", "fire", "drop"])
def test_finalisers_may_call_back_into_the_driver(pywheel, timers, clock, action, way):
    others = [timers.call_later(number / 3, nothing) for number in range(20)]
    errors, ran, refused = [], [], []

    def meddle():
        try:
            ACTIONS[action](timers, others)
        except (RuntimeError, pywheel.TimersStopped):
            refused.append(action)
        ran.append(len(timers))

    timer = timers.call_later(1, lambda _: None, Meddler(meddle, errors))
    if way == "cancel":
        timer.cancel()
    elif way == "fire":
        clock.jump(2)
        timers.run_due()
    else:
        timers.stop()
        del timer
    gc.collect()
    assert errors == []
    assert len(ran) == 1
    assert set(refused) <= ({"run"} if way == "fire" else {"reset", "schedule"} if way == "drop" else set())
    assert len(timers) == len(timers.pending())
    clock.advance(10**7)
    assert len(timers) == 0


def test_a_driver_that_is_its_own_clock_and_error_handler_is_collected(pywheel):
    class Mine(pywheel.Timers):
        def __init__(self):
            super().__init__(clock=self, on_error=self.failed)

        def time_ns(self):
            return 5

        def failed(self, timer, error):
            """Handle it."""

    timers = Mine()
    timers.call_later(1, timers.run_due)
    gone = weakref.ref(timers)
    del timers
    gc.collect()
    assert gone() is None


def test_a_timer_keeps_its_driver(pywheel, clock):
    calls = []
    timer = pywheel.Timers(clock).call_later(1, calls.append, 1)
    clock.advance(2)
    assert calls == [1]
    assert timer.cancel() is False


@pytest.mark.stress
def test_a_chain_of_timers_each_the_argument_of_the_next_is_released(timers):
    timer = timers.call_later(1, nothing)
    for _ in range(200_000):
        timer = timers.call_later(1, nothing, timer)
    del timer
    assert len(timers.stop()) == 200_001
    gc.collect()
