import pytest

from pywheel.stores import open


@pytest.fixture
def client(redis_server):
    """One of redis-py, with all rights."""
    with redis_server.connect() as client:
        yield client


@pytest.fixture
def store(redis_server, clock):
    with open(redis_server.url(), clock=clock) as store:
        yield store
