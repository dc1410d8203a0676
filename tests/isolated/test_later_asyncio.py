"""An asyncio whose handles have one more slot, as that of a later Python may: the twin of the loop fills it."""

import pytest

from tests.implementations import PURE_ONLY
from tests.isolated.child import run, run_well

pytestmark = [pytest.mark.stress, pytest.mark.skipif(PURE_ONLY, reason="the native loop is asked for")]

LATER = """
import asyncio, inspect, warnings
source = inspect.getsource(asyncio.events)
more = {slots!r}[:-1] + ", '_later'" + {slots!r}[-1]
for old, new in ({slots!r}, more), ("self._when = when", "self._when = self._later = when"):
    assert source.count(old) == 1
    source = source.replace(old, new)
exec(source, vars(asyncio.events))
asyncio.Handle, asyncio.TimerHandle = asyncio.events.Handle, asyncio.events.TimerHandle
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    from pywheel import EventLoop, timeout
"""
USE = """
loop = EventLoop()
assert loop.call_at(5, print)._later == 5
loop.close()

async def main():
    async with timeout(60) as limit:
        await asyncio.sleep(0.001)
    return limit.expired()

with asyncio.Runner(loop_factory=EventLoop) as runner:
    print(runner.run(main()), *(f"{warning.category.__name__}: {warning.message}" for warning in seen), sep="\\n")
"""
each_slot = pytest.mark.parametrize("slots", ["'_context')", "['_scheduled', '_when']"], ids=["Handle", "TimerHandle"])


@each_slot
def test_handles_with_an_unknown_slot_are_those_of_the_twin_and_a_warning_says_why(slots):
    finished, *warned = run_well("-c", LATER.format(slots=slots) + USE, PYWHEEL_REQUIRE_NATIVE=None).splitlines()
    assert finished == "False"
    assert len(warned) == 2  # the loop, and the timeouts on it
    for line in warned:
        assert line.startswith("RuntimeWarning: ")
        assert "_later" in line


@each_slot
def test_an_unknown_slot_is_an_import_error_where_the_native_loop_is_required(slots):
    result = run("-c", LATER.format(slots=slots), PYWHEEL_REQUIRE_NATIVE="1")
    assert result.returncode == 1
    assert "ImportError: PYWHEEL_REQUIRE_NATIVE is set" in result.stderr
    assert "_later" in result.stderr.splitlines()[-1]
