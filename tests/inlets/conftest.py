import pytest

from pywheel import JobQueue
from tests.outlets.conftest import nats_server, rabbitmq_server, stream  # noqa: F401  (fixtures)


@pytest.fixture
def jobs(tmp_path):
    """A queue on a store of its own."""
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue:
        yield queue
