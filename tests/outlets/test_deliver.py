"""`pywheel deliver`: a worker of outlets in a process of its own."""

import asyncio
import signal

import pytest

from pywheel import JobQueue
from pywheel.jobs import State
from tests.cli.running import running
from tests.jobs.waiting import until
from tests.outlets.endpoint import once

CONFIG = """
[outlets.shop]
kind = "webhook"
topics = ["t"]
allow = ["127.0.0.0/8"]
ports = []
"""


@pytest.mark.stress
def test_sigterm_begins_no_delivery_and_waits_for_those_under_way(endpoint, tmp_path):
    (tmp_path / "outlets.toml").write_text(CONFIG)
    url, told = f"sqlite:///{tmp_path}/jobs.db", asyncio.Event()
    endpoint.answers["/"] = once(told)
    with JobQueue(url) as queue, running("deliver", "--store", url, folder=tmp_path) as command:
        first = queue.put("t", 1, to=endpoint.url())
        until(lambda: endpoint.requests)
        command.send(signal.SIGTERM)
        command.says("draining")
        second = queue.put("t", 2, to=endpoint.url())
        endpoint._loop.call_soon_threadsafe(told.set)
        command.ends()
        assert (queue.get(first).state, queue.get(second).state) == (State.DONE, State.DELAYED)
    assert len(endpoint.requests) == 1
