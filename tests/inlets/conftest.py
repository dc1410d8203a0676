import pytest

from pywheel import JobQueue


@pytest.fixture
def jobs(tmp_path):
    """A queue on a store of its own."""
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue:
        yield queue
