import pytest

from pywheel import JobQueue
from pywheel.observe import Tally
from pywheel.testing import ManualClock
from tests.often import often

NOW = 1_700_000_000_000


@pytest.fixture
def clock():
    return ManualClock(wall=NOW)


@pytest.fixture(params=often(["memory", "sqlite"]))
def url(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def metrics():
    return Tally()


@pytest.fixture
def queue(url, clock, metrics):
    """A queue whose clock stands still."""
    with JobQueue(url, clock=clock, listeners=[metrics]) as queue:
        yield queue


@pytest.fixture
def live_queue(url, metrics):
    """A queue on the real clock."""
    with JobQueue(url, listeners=[metrics]) as queue:
        yield queue
