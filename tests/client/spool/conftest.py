import pytest

from pywheel import JobQueue
from pywheel.stores import open as open_store
from pywheel.testing import FaultyStore
from tests.jobs.waiting import until


@pytest.fixture
def spool(tmp_path):
    return f"sqlite:///{tmp_path}/spool.db"


@pytest.fixture
def store(tmp_path):
    """A store that goes away when it is told to; it survives the queue."""
    with open_store(f"sqlite:///{tmp_path}/server.db") as inner:
        store = FaultyStore(inner)
        store.close = lambda: None
        yield store


@pytest.fixture
def heard():
    return []


@pytest.fixture
def queue(store, spool, heard):
    with JobQueue(store, spool=spool, listeners=[heard.append]) as queue:
        # The first look for what waits is over, and has pruned. What a test puts would be taken by it, and tried.
        until(lambda: queue.store._spool._look_at)
        yield queue
