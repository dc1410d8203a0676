"""`pywheel deliver`: a worker of outlets in a process of its own; and `pywheel outlets`."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from pywheel import JobQueue
from pywheel.cli.app import run
from pywheel.jobs import State
from tests.jobs.waiting import LIMIT, finished, until, working
from tests.outlets.conftest import SECRET, inside
from tests.outlets.endpoint import OK, answer, hang

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
def config(tmp_path):
    path = tmp_path / "outlets.toml"
    path.write_text(CONFIG)
    return path


@contextlib.contextmanager
def delivering(url, config):
    """Run it; end it at the end, if it has not ended."""
    command = [sys.executable, "-m", "pywheel.cli", "deliver", "--store", url, "--config", str(config)]
    environment = {**os.environ, "SHOP_SECRET": SECRET}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def call(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["pywheel", *map(str, arguments)])
        code = run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


# ---- a process ------------------------------------------------------------------------------------------------------


@pytest.mark.stress
def test_a_killed_worker_loses_nothing_and_what_comes_again_has_the_same_id(endpoint, queue, url, config):
    endpoint.answers["/"] = hang
    ids = [queue.put("t", n, to=endpoint.url()) for n in range(12)]
    with delivering(url, config) as process:
        until(lambda: len(endpoint.requests) >= 5)
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT)
    before = {request.headers["webhook-id"]: request.body for request in list(endpoint.requests)}
    endpoint.requests.clear()
    endpoint.answers["/"] = OK
    with delivering(url, config):
        assert {finished(queue, id).state for id in ids} == {State.DONE}
    after = {request.headers["webhook-id"]: request.body for request in endpoint.requests}
    assert len(after) == len(ids)
    assert before.items() <= after.items()
    assert sorted(map(json.loads, after.values())) == list(range(12))


@pytest.mark.stress
def test_sigterm_begins_no_delivery_and_waits_for_those_under_way(endpoint, queue, url, config):
    told = asyncio.Event()

    async def wait(request, reader, writer):
        await told.wait()
        writer.write(answer(200, b"", b"Connection: close"))
        await writer.drain()

    endpoint.answers["/"] = wait
    first = queue.put("t", 1, to=endpoint.url())
    with delivering(url, config) as process:
        until(lambda: endpoint.requests)
        process.send_signal(signal.SIGTERM)
        for line in process.stderr:
            if "draining" in line:
                break
        second = queue.put("t", 2, to=endpoint.url())
        endpoint._loop.call_soon_threadsafe(told.set)
        assert process.wait(LIMIT) == 0
    assert (queue.get(first).state, queue.get(second).state) == (State.DONE, State.DELAYED)
    assert len(endpoint.requests) == 1


# ---- commands -------------------------------------------------------------------------------------------------------


def test_check_says_what_would_run_and_no_secret(call, url, config, monkeypatch):
    monkeypatch.setenv("SHOP_SECRET", SECRET)
    code, out, err = call("deliver", "--store", url, "--config", config, "--check", "--json")
    assert (code, err) == (0, "")
    [said] = json.loads(out)
    assert said["outlet"] == "shop"
    assert (said["topics"], said["target"], said["ttr"], said["attempts"]) == (["t"], "as each job says", 3, 5)
    code, out, _ = call("deliver", "--store", url, "--config", config, "--check")
    assert out.splitlines()[1].split("\t")[3] == "as each job says"
    assert SECRET not in out


def test_a_config_that_makes_no_sense_is_refused_in_one_line(call, url, config):
    config.write_text("[outlets.shop]\nkind = 5")
    code, out, err = call("deliver", "--store", url, "--config", config)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{config}:2: [outlets.shop] kind: must be a text" in err


def test_outlets_are_listed_with_their_last_answers_and_enabled_again(call, endpoint, queue, url):
    endpoint.answers["/gone"] = answer(410)
    queue.handler("t")(inside(name="shop"))
    assert call("outlets", "--store", url)[:2] == (0, "outlet\tkind\ttarget\tlast\tstatus\tdisabled\terror\n")
    with working(queue):
        assert finished(queue, queue.put("t", to=endpoint.url("/gone?key=x"))).state is State.DEAD
        late = queue.put("t", to=endpoint.url("/gone?key=x"))
        assert "is disabled" in finished(queue, late).last_error
        finished(queue, queue.put("t", to=endpoint.url("/fine")))
    code, out, _ = call("outlets", "--store", url, "--json")
    whole, disabled = json.loads(out)
    assert (whole["name"], whole["kind"], whole["status"], whole["error"]) == ("shop", "webhook", "200", None)
    assert (disabled["target"], disabled["error"]) == (endpoint.url("/gone"), "it answered 410")
    assert disabled["disabled"] >= disabled["at"] > 0
    assert call("outlets", "enable", "other", "--store", url) == (1, "nothing was disabled\n", "")
    assert call("outlets", "enable", "shop", "--target", endpoint.url("/x"), "--store", url)[0] == 1
    code, out, _ = call("outlets", "enable", "shop", "--store", url)
    assert (code, out) == (0, f"enabled {endpoint.url('/gone')}\n")
    endpoint.answers.clear()
    queue.jobs.retry(late)
    with working(queue):
        assert finished(queue, late).state is State.DONE


def test_a_disabled_endpoint_is_known_to_every_worker_and_enabled_on_all(endpoint, queue, url, call):
    endpoint.answers["/"] = answer(410)
    with JobQueue(url) as other:
        for each, topic in ((queue, "a"), (other, "b")):
            each.handler(topic)(inside(endpoint.url(), name="shop"))
        with working(queue), working(other):
            finished(queue, queue.put("a"))
            until(lambda: "is disabled" in finished(queue, queue.put("b")).last_error)
            asked = len(endpoint.requests)
            del endpoint.answers["/"]
            call("outlets", "enable", "shop", "--store", url)
            until(lambda: {finished(queue, queue.put(topic)).state for topic in "ab"} == {State.DONE})
    assert asked <= 4
