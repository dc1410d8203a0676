"""``pywheel alarms`` watches a real store, as a process of its own, and tells a real receiver."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from pywheel import JobQueue
from tests.isolated.child import environment
from tests.jobs.waiting import until, working
from tests.observe.receiver import receiver

__all__ = ["receiver"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
CONFIG = """
[limits]
no_worker = "0.2s"
[watch]
every = "50ms"
between = "1ms"
calm = "0.2s"
store_away = "0.2s"
"""


@contextlib.contextmanager
def watching(folder, url, *arguments, config=CONFIG):
    file = folder / "alarms.toml"
    file.write_text(config)
    command = [sys.executable, "-m", "pywheel.cli", "alarms", "--store", url, "--config", str(file), *arguments]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def told(receiver):
    return [
        (alarm["alarm"], alarm["topic"], alarm["state"])
        for _, _, message in receiver.got
        for alarm in message["alarms"]
    ]


def test_jobs_without_a_worker_are_told_and_that_it_is_over(tmp_path, receiver):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with JobQueue(url) as queue:
        queue.put("mail")
        with watching(tmp_path, url, "--webhook", receiver.url, "--log-format", "json") as process:
            until(lambda: told(receiver) == [("no_worker", "mail", "firing")])
            assert "pywheel work MODULE:QUEUE --topics mail" in receiver.got[0][2]["text"]
            assert receiver.got[0][2]["store"] == url
            queue.handler("mail")(lambda job: None)
            with working(queue):
                until(lambda: told(receiver)[1:] == [("no_worker", "mail", "over")])
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    lines = [json.loads(line) for line in err.splitlines()]
    assert [(line["event"], line["alarm"], line["state"], line["topic"]) for line in lines if "event" in line] == [
        ("alarm", "no_worker", "firing", "mail"),
        ("alarm", "no_worker", "over", "mail"),
    ]


def test_a_command_is_told_of_a_job_that_died(tmp_path):
    url, file = f"sqlite:///{tmp_path}/jobs.db", tmp_path / "got"
    with JobQueue(url) as queue:
        queue.put("mail")
        config = CONFIG.replace('no_worker = "0.2s"', "no_worker = false")
        with watching(tmp_path, url, "--command", f"dd of={file} status=none", config=config):
            dead = 0
            while not file.exists() or not file.read_text():
                queue.put("mail")
                [job, *_] = queue.reserve("mail")
                queue.bury(job, error="no")
                dead += 1
                with contextlib.suppress(AssertionError):
                    until(lambda: file.exists() and file.read_text(), limit=0.2)
    [alarm] = json.loads(file.read_text())["alarms"]
    assert (alarm["alarm"], alarm["topic"], alarm["state"]) == ("dead", "mail", "firing")


def test_a_store_that_is_away_is_told_and_that_it_is_back(tmp_path, receiver, durable_server):
    url = durable_server.url()
    JobQueue(url).close()
    with watching(tmp_path, url, "--webhook", receiver.url):
        durable_server.kill()
        until(lambda: told(receiver) == [("store_away", None, "firing")])
        durable_server.start()
        until(lambda: told(receiver)[1:] == [("store_away", None, "over")])


def test_a_store_that_is_not_there_is_an_error(tmp_path):
    with watching(tmp_path, f"sqlite:///{tmp_path}/none.db") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "there is no store" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--webhook", "mail"),
        ("--command", ""),
        ("--command", "'"),
        ("--late", "soon"),
        ("--dead", "0"),
        ("--every", "0"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, call, arguments):
    file = tmp_path / "alarms.toml"
    file.write_text(CONFIG)
    code, _, err = call("alarms", "--store", "memory:", "--config", file, *arguments)
    assert code == 2, err
    assert err.startswith("pywheel: ")
