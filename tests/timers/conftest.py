"""One contract, one test body: `pywheel` here is the whole package on each implementation."""

import asyncio
import gc
import inspect
import sys
from functools import partial

import pytest

from tests.implementations import CORES, load_package
from tests.jobs.waiting import LIMIT
from tests.timers.loops import make_loop


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine in the one loop among its fixtures."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    fixtures = pyfuncitem.funcargs
    [loop] = {each for each in fixtures.values() if isinstance(each, asyncio.AbstractEventLoop)}
    test = pyfuncitem.obj(**{name: fixtures[name] for name in pyfuncitem._fixtureinfo.argnames})
    plain = "foreign" in fixtures and type(loop).__module__.partition(".")[0] != "tests"  # nobody counts its timers
    loop.run_until_complete(asyncio.wait_for(test, LIMIT) if plain else test)
    return True


@pytest.fixture(scope="module")
def swept():
    """Leave what other tests have made out of the collections of a module that collects again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", params=CORES)
def pywheel(request):
    """The package, native or pure."""
    return load_package(request.param)


@pytest.fixture
def as_asyncio_does_now(pywheel):
    """Skip the twin, whose timeouts are asyncio's own, on a Python whose asyncio does otherwise, as Debian's 3.11.2."""
    if pywheel.implementation == "pure" and sys.version_info < (3, 11, 7):
        pytest.skip("this Python's asyncio, which the twin's timeouts are, has faults that later ones have not")


@pytest.fixture
def clock(pywheel):
    """A clock that stands at 0 until it is moved."""
    return pywheel.ManualClock()


@pytest.fixture
def timers(pywheel, clock):
    """Timers on that clock."""
    return pywheel.Timers(clock)


@pytest.fixture(params=["EventLoop", "asyncio", "uvloop"])
def each_loop(request, pywheel):
    """A loop of each kind."""
    loop = make_loop(pywheel, request.param)
    yield loop
    loop.close()


@pytest.fixture(params=["plain", "debug"])
def each_way(request, each_loop):
    """That loop, in debug mode or not."""
    each_loop.set_debug(request.param == "debug")
    each_loop.slow_callback_duration = 1_000
    return each_loop


@pytest.fixture
def loop(pywheel, clock):
    """An EventLoop on that clock."""
    loop = pywheel.EventLoop(clock=clock)
    yield loop
    loop.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def foreign(request):
    """A loop that is not ours: asyncio's and uvloop's, or of the class that a test names instead."""
    factory = request.param if callable(request.param) else partial(make_loop, None, request.param)
    with asyncio.Runner(loop_factory=factory) as runner:
        yield runner.get_loop()


@pytest.fixture
def ours(pywheel):
    """An EventLoop on the clock of the system."""
    with asyncio.Runner(loop_factory=pywheel.EventLoop) as runner:
        yield runner.get_loop()


@pytest.fixture
def make_dict(pywheel, clock):
    """Makes TTLDicts on that clock."""

    def make(ttl=10, **keywords):
        return pywheel.TTLDict(ttl, clock=clock, **keywords)

    return make


@pytest.fixture
def no_collector():
    """No collection, which would have loops of before closed while places are counted."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
