import pytest

from pywheel.stores import open
from pywheel.testing import SettableClock


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def clock():
    return SettableClock()


@pytest.fixture
def store(path, clock):
    with open(f"sqlite:///{path}", clock=clock) as store:
        yield store
