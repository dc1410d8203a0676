"""Nothing that stands on a wheel, or moves one, is copied or pickled: there would be two for one time."""

import copy
import pickle

import pytest

from tests.timers.loops import nothing

MAKERS = {
    "Timer": lambda pywheel, timers: timers.call_later(1, nothing),
    "periodic Timer": lambda pywheel, timers: timers.call_every(1, nothing),
    "Timers": lambda pywheel, timers: timers,
    "ManualClock": lambda pywheel, timers: timers.clock,
    "TTLDict": lambda pywheel, timers: pywheel.TTLDict(10),
    "DelayQueue": lambda pywheel, timers: pywheel.DelayQueue(),
    "AsyncDelayQueue": lambda pywheel, timers: pywheel.AsyncDelayQueue(clock=timers.clock),
}


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda function: function.__name__)
@pytest.mark.parametrize("kind", MAKERS)
def test_nothing_that_stands_on_a_wheel_is_copied_or_pickled(pywheel, timers, kind, duplicate):
    thing = MAKERS[kind](pywheel, timers)
    with pytest.raises(TypeError, match=r"copy|copied|__reduce__"):
        duplicate(thing)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy], ids=lambda function: function.__name__)
async def test_a_timeout_is_not_copied(pywheel, loop, duplicate):
    if pywheel.implementation != "native":
        pytest.skip("the twin is asyncio's own")
    async with pywheel.timeout(1) as timeout:
        with pytest.raises(TypeError, match="copy"):
            duplicate(timeout)
