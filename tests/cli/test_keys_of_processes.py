"""Every command that puts or reads bodies takes the keys of PYWHEEL_KEYS, each as a process of its own."""

import asyncio
import base64
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from pywheel import JobQueue, Keyring
from pywheel.jobs import State
from pywheel.jobs.bodies import is_encrypted
from pywheel.jobs.queries import ListJobs
from pywheel.stores import open as open_store
from tests.jobs.waiting import finished, until
from tests.outlets.amqp import amqp
from tests.outlets.endpoint import Endpoint
from tests.server.client import Process

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]
KEY = bytes(range(32))
KEYS = f"a:{base64.b64encode(KEY).decode()}"
PROGRAM = """
from pywheel import JobQueue
queue = JobQueue({url})
@queue.handler("t", isolate={isolate})
def handle(job):
    queue.put("next", job.json(), delay="1h")
"""
OUTLETS = """
[outlets.shop]
kind = "webhook"
topics = ["t"]
url = "{url}"
allow = ["127.0.0.0/8"]
ports = []
"""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def queue(url):
    """The queue of whoever puts, with the keys."""
    with JobQueue(url, encryption=Keyring({"a": KEY})) as queue:
        yield queue


@contextmanager
def pywheel(*arguments, folder, keys=KEYS, **environment):
    """Run a command, and end it well; what it says is in its file."""
    told = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    told.pop("PYWHEEL_KEYS", None)
    if keys:
        told["PYWHEEL_KEYS"] = keys
    command = [sys.executable, "-m", "pywheel.cli", *map(str, arguments)]
    log = folder / "said.txt"
    with log.open("wb") as said:
        process = subprocess.Popen(command, env=told, cwd=folder, stdout=said, stderr=said)
    try:
        yield log
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def stored(queue, topic):
    """Return the bodies of a topic as they lie in the store."""
    with open_store(queue.store.url) as store:
        return [job.body for job in store.ask(ListJobs(_of(topic), 0, 1_000))]


def _of(topic):
    from pywheel.jobs.queries import Filter

    return Filter(topic=topic)


# ---- work -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--processes", "2"), ("--store", "elsewhere")], ids=" ".join)
@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
def test_work_handles_and_puts_with_the_keys(queue, url, tmp_path, options, isolate, lazy):
    place = "sqlite:///other.db" if "--store" in options else url
    text = PROGRAM.format(url=f"lambda: {place!r}" if lazy else repr(place), isolate=isolate)
    (tmp_path / "shop.py").write_text(text)
    options = [url if option == "elsewhere" else option for option in options]
    id = queue.put("t", {"card": "hush"})
    with pywheel("work", "shop:queue", *options, "--no-live", folder=tmp_path) as log:
        assert finished(queue, id).state is State.DONE, log.read_text()
    [body] = stored(queue, "next")
    assert is_encrypted(body)
    [job] = queue.jobs.list("next")
    assert job.json() == {"card": "hush"}


def test_a_programs_own_keyring_is_no_other(queue, url, tmp_path):
    own = "import base64; from pywheel import JobQueue, Keyring\n"
    made = f"queue = JobQueue({url!r}, encryption=Keyring({{'a': {KEY!r}}}))"
    (tmp_path / "shop.py").write_text(own + PROGRAM.format(url="", isolate=False).replace("queue = JobQueue()", made))
    other = f"b:{base64.b64encode(bytes(32)).decode()}"
    id = queue.put("t", {"card": "hush"})
    with pywheel("work", "shop:queue", "--no-live", folder=tmp_path, keys=other):
        assert finished(queue, id).state is State.DONE
    [job] = queue.jobs.list("next")
    assert job.json() == {"card": "hush"}


def test_work_without_the_keys_says_how_to_mend_it(queue, url, tmp_path):
    (tmp_path / "shop.py").write_text(PROGRAM.format(url=repr(url), isolate=False))
    id = queue.put("t", {"card": "hush"})
    with pywheel("work", "shop:queue", "--no-live", folder=tmp_path, keys=None) as log:
        until(lambda: "bodies_sealed" in log.read_text())
    assert "set PYWHEEL_KEYS" in log.read_text()
    assert queue.get(id).state is State.DELAYED


def test_work_with_another_key_says_how_to_mend_it(queue, url, tmp_path):
    (tmp_path / "shop.py").write_text(PROGRAM.format(url=repr(url), isolate=False))
    queue.put("t", {"card": "hush"})
    other = f"b:{base64.b64encode(bytes(32)).decode()}"
    with pywheel("work", "shop:queue", "--no-live", folder=tmp_path, keys=other) as log:
        until(lambda: "bodies_sealed" in log.read_text())
    assert "there is no key 'a' here" in log.read_text()
    assert "PYWHEEL_KEYS" in log.read_text()


def test_keys_that_are_none_are_refused_and_not_shown(url, tmp_path):
    (tmp_path / "shop.py").write_text(PROGRAM.format(url=repr(url), isolate=False))
    command = [sys.executable, "-m", "pywheel.cli", "work", "shop:queue"]
    told = {**os.environ, "PYWHEEL_KEYS": "a:hush"}
    done = subprocess.run(command, env=told, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "PYWHEEL_KEYS" in done.stderr
    assert "hush" not in done.stderr


# ---- deliver, serve, bridge -----------------------------------------------------------------------------------------


def test_deliver_delivers_plain_bodies(queue, url, tmp_path):
    with Endpoint() as endpoint:
        (tmp_path / "outlets.toml").write_text(OUTLETS.format(url=endpoint.url()))
        id = queue.put("t", {"card": "hush"})
        with pywheel("deliver", "--store", url, folder=tmp_path) as log:
            assert finished(queue, id).state is State.DONE, log.read_text()
        assert [request.body for request in endpoint.requests] == [b'{"card":"hush"}']


def test_deliver_without_the_keys_says_how_to_mend_it(queue, url, tmp_path):
    with Endpoint() as endpoint:
        (tmp_path / "outlets.toml").write_text(OUTLETS.format(url=endpoint.url()))
        queue.put("t", {"card": "hush"})
        with pywheel("deliver", "--store", url, folder=tmp_path, keys=None) as log:
            until(lambda: "set PYWHEEL_KEYS" in log.read_text())
        assert endpoint.connections == 0


@pytest.mark.parametrize("target", [(), ("shop:queue",)], ids=["its own queue", "a program's queue"])
def test_serve_takes_and_gives_plain_bodies(queue, url, tmp_path, monkeypatch, target):
    (tmp_path / "shop.py").write_text(PROGRAM.format(url=repr(url), isolate=False))
    monkeypatch.setenv("PYWHEEL_KEYS", KEYS)
    server = Process(tmp_path, "--open", target=target)
    try:
        id = server("POST", "/v1/jobs", json={"topic": "mail", "body": {"card": "hush"}}).json()["id"]
        assert server("GET", f"/v1/jobs/{id}").json()["body"] == {"card": "hush"}
    finally:
        assert server.stop() == 0
    [body] = stored(queue, "mail")
    assert is_encrypted(body)


def test_a_bridge_from_rabbitmq_stores_no_plain_bodies(rabbitmq_server, queue, url, tmp_path):
    async def publish():
        async with amqp(rabbitmq_server) as broker:
            name = await broker.queue()
            await broker.publish(b'{"card":"hush"}', name, headers={"x-delay": 3_600_000})
            return name

    name = asyncio.run(publish())
    arguments = ("rabbitmq", name, "--topic", "orders", "--broker", rabbitmq_server.url(), "--store", url)
    with pywheel("bridge", *arguments, folder=tmp_path):
        until(lambda: "orders" in queue.topics.counts())
    assert [is_encrypted(body) for body in stored(queue, "orders")] == [True]
    assert [job.json() for job in queue.jobs.list("orders")] == [{"card": "hush"}]


def test_a_bridge_from_kafka_stores_no_plain_bodies(queue, url, tmp_path):
    from tests.outlets.kafka_mock import Mock

    mock = Mock()
    mock.produce("delayed", b'{"card":"hush"}', headers=[("pywheel-delay", b"1h")])
    arguments = ("kafka", "delayed", "--topic", "orders", "--servers", mock.servers, "--to", "x", "--store", url)
    with pywheel("bridge", *arguments, folder=tmp_path):
        until(lambda: "orders" in queue.topics.counts())
    assert [is_encrypted(body) for body in stored(queue, "orders")] == [True]
    assert [job.json() for job in queue.jobs.list("orders")] == [{"card": "hush"}]


# ---- what carries bodies as they are --------------------------------------------------------------------------------


def test_copy_carries_ciphertext_as_it_is_also_with_the_keys(queue, url, tmp_path):
    queue.put("t", {"card": "hush"}, delay="1h")
    [before] = stored(queue, "t")
    target = f"sqlite:///{tmp_path}/new.db"
    told = {**os.environ, "PYWHEEL_KEYS": KEYS}
    subprocess.run([sys.executable, "-m", "pywheel.cli", "copy", url, target], env=told, check=True, timeout=60)
    with JobQueue(target) as new:
        assert stored(new, "t") == [before]


def test_a_spool_is_forwarded_as_it_is_also_with_the_keys(url, tmp_path):
    spool = f"sqlite:///{tmp_path}/spool.db"
    away = "postgresql://nobody@127.0.0.1:1/none"
    with JobQueue(away, spool=spool, encryption=Keyring({"a": KEY})) as queue:
        queue.put("t", {"card": "hush"}, delay="1h")
    JobQueue(url).close()
    told = {**os.environ, "PYWHEEL_KEYS": KEYS}
    command = [sys.executable, "-m", "pywheel.cli", "spool", "drain", "--spool", spool, "--store", url]
    subprocess.run(command, env=told, check=True, timeout=60)
    with JobQueue(url, encryption=Keyring({"a": KEY})) as queue:
        assert [job.json() for job in queue.jobs.list("t")] == [{"card": "hush"}]
