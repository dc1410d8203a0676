import pytest

from pywheel import JobQueue
from pywheel.testing import ManualClock
from tests.server.client import Api, Process


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def queue(clock):
    with JobQueue("memory:", clock=clock) as queue:
        yield queue


@pytest.fixture
def api(queue):
    """An open service of a queue in memory, whose time the test moves."""
    api = Api(queue)
    yield api
    api.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """An open server in a process of its own, with a store on disk."""
    server = Process(tmp_path_factory.mktemp("server"), "--open")
    yield server
    assert server.stop() == 0
