import contextlib

import pytest

from pywheel import JobQueue
from pywheel.server.tokens import Tokens
from pywheel.stores import open
from pywheel.testing import FaultyStore, ManualClock
from tests.server.client import Api, Process


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def queue(clock):
    with JobQueue("memory:", clock=clock) as queue:
        yield queue


@pytest.fixture
def serving(queue):
    """Return what makes a service, of this queue unless another one is given; all are closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda of=queue, **options: stack.enter_context(contextlib.closing(Api(of, **options)))


@pytest.fixture
def api(serving):
    """An open service of a queue in memory, whose time the test moves."""
    return serving()


@pytest.fixture
def any_queue(any_url, clock):
    """A queue on each kind of store; the test moves the time of a store in this process."""
    options = {"clock": clock} if any_url.startswith(("memory:", "sqlite:")) else {}
    with JobQueue(any_url, **options) as queue:
        yield queue


@pytest.fixture
def stored(any_queue, serving):
    """An open service on each kind of store."""
    return serving(any_queue)


@pytest.fixture
def faulty(tmp_path, serving):
    """Return what makes a service of a store on disk that may be sent away; it is there again at the end."""
    with open(f"sqlite:///{tmp_path}/secret.db") as inner, JobQueue(FaultyStore(inner)) as queue:
        yield lambda **options: serving(queue, **options)
        queue.store.away = False


@pytest.fixture
def guarded(serving):
    """A service that wants tokens."""
    return serving(access="tokens")


@pytest.fixture
def bearing(guarded, queue):
    """Return what gives the service's caller a token."""

    def give(*scopes, topics=("*",)):
        secret = Tokens(queue.store).add(scopes, topics)
        guarded.headers = {"authorization": f"Bearer {secret}"}
        return guarded

    return give


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """An open server in a process of its own, with a store on disk."""
    with Process(tmp_path_factory.mktemp("server"), "--open") as server:
        yield server
