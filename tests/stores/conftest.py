import pytest

from pywheel.stores import open
from pywheel.testing import ManualClock


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
