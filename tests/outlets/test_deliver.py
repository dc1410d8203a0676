"""`pywheel deliver`: a worker of outlets in a process of its own."""

import asyncio
import json
import signal

import pytest

from pywheel import JobQueue
from pywheel.jobs import State
from tests.cli.running import running
from tests.jobs.waiting import LIMIT, finished, until
from tests.outlets.conftest import SECRET
from tests.outlets.endpoint import OK, hang, once

CONFIG = """
[outlets.shop]
kind = "webhook"
topics = ["t"]
secrets_env = "SHOP_SECRET"
allow = ["127.0.0.0/8"]
ports = []
ttr = "3s"
timeout = "2500ms"
retry = ["100ms", "100ms", "100ms", "100ms"]
"""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def queue(url):
    with JobQueue(url) as queue:
        yield queue


@pytest.fixture
def delivering(url, tmp_path):
    """Give a function that runs it."""

    def deliver(config=CONFIG):
        (tmp_path / "outlets.toml").write_text(config)
        return running("deliver", "--store", url, folder=tmp_path, SHOP_SECRET=SECRET)

    return deliver


@pytest.mark.stress
def test_a_killed_worker_loses_nothing_and_what_comes_again_has_the_same_id(endpoint, queue, delivering):
    endpoint.answers["/"] = hang
    ids = [queue.put("t", n, to=endpoint.url()) for n in range(12)]
    with delivering() as command:
        until(lambda: len(endpoint.requests) >= 5)
        command.send(signal.SIGKILL)
        command.process.wait(LIMIT)
    before = {request.headers["webhook-id"]: request.body for request in list(endpoint.requests)}
    endpoint.requests.clear()
    endpoint.answers["/"] = OK
    with delivering():
        assert {finished(queue, id).state for id in ids} == {State.DONE}
    after = {request.headers["webhook-id"]: request.body for request in endpoint.requests}
    assert len(after) == len(ids)
    assert before.items() <= after.items()
    assert sorted(map(json.loads, after.values())) == list(range(12))


@pytest.mark.stress
def test_sigterm_begins_no_delivery_and_waits_for_those_under_way(endpoint, queue, delivering):
    told = asyncio.Event()
    endpoint.answers["/"] = once(told)
    first = queue.put("t", 1, to=endpoint.url())
    with delivering(CONFIG.replace('"3s"', '"5m"').replace('"2500ms"', '"4m"')) as command:  # for as long as this takes
        until(lambda: endpoint.requests)
        command.send(signal.SIGTERM)
        command.says("draining")
        second = queue.put("t", 2, to=endpoint.url())
        endpoint._loop.call_soon_threadsafe(told.set)
        command.ends()
    assert (queue.get(first).state, queue.get(second).state) == (State.DONE, State.DELAYED)
    assert len(endpoint.requests) == 1
