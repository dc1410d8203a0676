"""One contract, one test body: `pywheel` here is the whole package on each implementation."""

import pytest

from tests.implementations import CORES, load_package


@pytest.fixture(scope="session", params=CORES)
def pywheel(request):
    """The package, native or pure."""
    return load_package(request.param)


@pytest.fixture
def clock(pywheel):
    """A clock that stands at 0 until it is moved."""
    return pywheel.ManualClock()


@pytest.fixture
def timers(pywheel, clock):
    """Timers on that clock."""
    return pywheel.Timers(clock)
