import itertools

import pytest

from tests.outlets.brokers import Nats, RabbitMQ
from tests.stores.servers import started


@pytest.fixture(scope="session")
def rabbitmq_server():
    """A running RabbitMQ of this process. Who kills, stops or pauses it starts it again."""
    yield from started(RabbitMQ)


@pytest.fixture(scope="session")
def nats_server():
    yield from started(Nats)


_numbers = itertools.count(1)


@pytest.fixture
def stream():
    """A name that no other test uses."""
    return f"stream{next(_numbers)}"
