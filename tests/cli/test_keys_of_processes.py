"""Every command that puts or reads bodies takes the keys of PYWHEEL_KEYS, each as a process of its own."""

import base64
import os
import signal
from contextlib import contextmanager

import pytest

from pywheel import JobQueue, Keyring
from pywheel.jobs import State
from pywheel.jobs.bodies import is_encrypted
from pywheel.jobs.queries import Filter, ListJobs
from pywheel.stores import open as open_store
from tests.cli.running import running
from tests.jobs.waiting import finished
from tests.outlets.endpoint import Endpoint
from tests.server.client import Process

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]
KEY = bytes(range(32))
KEYS, OTHER = (f"{id}:{base64.b64encode(key).decode()}" for id, key in (("a", KEY), ("b", bytes(32))))
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
def queue(url):
    """The queue of whoever puts, with the keys."""
    with JobQueue(url, encryption=Keyring({"a": KEY})) as queue:
        yield queue


@contextmanager
def pywheel(*arguments, folder, keys=KEYS):
    """Run a command, and end it well."""
    with running(*arguments, folder=folder, PYWHEEL_KEYS=keys) as command:
        yield command
        command.send(signal.SIGTERM)
        command.ends()


def stored(queue, topic):
    """Return the bodies of a topic as they lie in the store."""
    with open_store(queue.store.url) as store:
        return [job.body for job in store.ask(ListJobs(Filter(topic=topic), 0, 1_000))]


# ---- work -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def worked(queue, url, tmp_path):
    """Return what works on a job with a program's queue, written as Python, until its handler has put another one."""

    def worked(made, *options, isolate=False, keys=KEYS):
        text = PROGRAM.format(url="", isolate=isolate).replace("JobQueue()", f"JobQueue({made})")
        (tmp_path / "shop.py").write_text(text)
        id = queue.put("t", {"card": "hush"})
        with pywheel("work", "shop:queue", *options, folder=tmp_path, keys=keys) as command:
            assert finished(queue, id).state is State.DONE, command.err
        assert [is_encrypted(body) for body in stored(queue, "next")] == [True]
        assert [job.json() for job in queue.jobs.list("next")] == [{"card": "hush"}]

    return worked


TWO, ELSEWHERE = ("--processes", "2"), ("--store", "elsewhere")


@pytest.mark.parametrize(
    ("options", "isolate", "lazy"),
    [
        ((), False, False), ((), True, True), (TWO, False, True), (TWO, True, False), (ELSEWHERE, False, False),
        (ELSEWHERE, True, True),
    ],
)  # fmt: skip
def test_work_handles_and_puts_with_the_keys(worked, url, options, isolate, lazy):
    place = repr("sqlite:///other.db" if options[:1] == ("--store",) else url)
    options = [url if option == "elsewhere" else option for option in options]
    worked(f"lambda: {place}" if lazy else place, *options, isolate=isolate)


def test_a_programs_own_keyring_is_no_other(worked, url):
    worked(f"{url!r}, encryption=__import__('pywheel').Keyring({{'a': {KEY!r}}})", keys=OTHER)


@pytest.mark.parametrize(("keys", "said"), [(None, "set PYWHEEL_KEYS"), (OTHER, "there is no key 'a' here")])
def test_work_without_the_key_says_how_to_mend_it(queue, url, tmp_path, keys, said):
    (tmp_path / "shop.py").write_text(PROGRAM.format(url=repr(url), isolate=False))
    id = queue.put("t", {"card": "hush"})
    with pywheel("work", "shop:queue", folder=tmp_path, keys=keys) as command:
        command.says("bodies_sealed")
    assert said in command.err
    assert "PYWHEEL_KEYS" in command.err
    assert queue.get(id).state is State.DELAYED


# ---- deliver, serve; a bridge: test_bridge.py -----------------------------------------------------------------------


@pytest.mark.parametrize("keys", [KEYS, None])
def test_deliver_delivers_plain_bodies_and_without_the_keys_says_how_to_mend_it(queue, url, tmp_path, keys):
    with Endpoint() as endpoint:
        (tmp_path / "outlets.toml").write_text(OUTLETS.format(url=endpoint.url()))
        id = queue.put("t", {"card": "hush"})
        with pywheel("deliver", "--store", url, folder=tmp_path, keys=keys) as command:
            if keys:
                assert finished(queue, id).state is State.DONE, command.err
            else:
                command.says("set PYWHEEL_KEYS")
        assert [request.body for request in endpoint.requests] == ([b'{"card":"hush"}'] if keys else [])


@pytest.mark.parametrize("target", [(), ("shop:queue",)], ids=["its own queue", "a program's queue"])
def test_serve_takes_and_gives_plain_bodies(queue, url, tmp_path, monkeypatch, target):
    (tmp_path / "shop.py").write_text(PROGRAM.format(url=repr(url), isolate=False))
    monkeypatch.setenv("PYWHEEL_KEYS", KEYS)
    with Process(tmp_path, "--open", target=target) as server:
        id = server("POST", "/v1/jobs", json={"topic": "mail", "body": {"card": "hush"}}).json()["id"]
        assert server("GET", f"/v1/jobs/{id}").json()["body"] == {"card": "hush"}
    assert [is_encrypted(body) for body in stored(queue, "mail")] == [True]


# ---- what carries bodies as they are --------------------------------------------------------------------------------


def test_copy_and_spool_carry_ciphertext_as_it_is_also_with_the_keys(queue, url, call, tmp_path, monkeypatch):
    monkeypatch.setenv("PYWHEEL_KEYS", KEYS)
    spool, target = (f"sqlite:///{tmp_path}/{name}.db" for name in ("spool", "new"))
    keyring = Keyring({"a": KEY})
    with JobQueue("postgresql://nobody@127.0.0.1:1/none", spool=spool, encryption=keyring) as away:
        away.put("t", {"card": "hush"}, delay="1h")
    assert call("spool", "drain", "--spool", spool, "--store", url)[0] == 0
    assert [job.json() for job in queue.jobs.list("t")] == [{"card": "hush"}]
    assert call("copy", url, target)[0] == 0
    with JobQueue(target) as new:
        assert stored(new, "t") == stored(queue, "t") != []
