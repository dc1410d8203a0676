from concurrent.futures import ThreadPoolExecutor

import pytest

from pywheel.stores import open
from pywheel.testing import ManualClock
from tests.stores.notifying import Host


@pytest.fixture
def pool():
    """Threads, in which a test's calls wait for what it does."""
    with ThreadPoolExecutor(24) as pool:
        yield pool


@pytest.fixture(params=["postgres", "mariadb"])
def sql_server(request):
    """A running server of each kind whose store is a database."""
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(path, clock):
    with open(f"sqlite:///{path}", clock=clock) as store:
        yield store


@pytest.fixture
def host(path, clock):
    """A database of which one process sees the workers."""
    host = Host(path, clock)
    yield host
    host.close()


@pytest.fixture
def other(path, clock, host):
    """The same file, opened once more: as another process would."""
    other = Host(path, clock)
    yield other
    other.close()
