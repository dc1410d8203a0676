"""Clients of the service as others have them. They are collected only if `make clients` has installed their tools."""

from importlib.util import find_spec

import pytest

from pywheel import JobQueue
from pywheel.server.tokens import Tokens
from tests.server.client import Process

collect_ignore = [] if find_spec("schemathesis") else ["test_document.py"]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "clients":
            item.add_marker("clients")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server in a process of its own, that wants tokens."""
    server = Process(tmp_path_factory.mktemp("server"))
    yield server
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text(), server.log.read_text()


@pytest.fixture(scope="module")
def bearer(server):
    """The headers of somebody who may do everything."""
    with JobQueue(server.store) as queue:
        return {"Authorization": f"Bearer {Tokens(queue.store).add(['admin'])}"}
