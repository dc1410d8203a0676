"""``pywheel work`` with metrics and a log for machines, as a process of its own."""

import json
import os
import re
import signal
import socket
import urllib.request

import pytest

from pywheel import JobQueue
from pywheel.jobs import State
from tests.cli.test_processes import seen, work
from tests.jobs.waiting import until

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]
SHOP = """
import logging, sys
from pywheel import Fixed, JobQueue
queue = JobQueue({url!r})
@queue.handler("good")
def good(job):
    logging.getLogger("shop").info("handled")
@queue.handler("bad", retry=Fixed("1ms", attempts=1))
def bad(job):
    raise ValueError("no")
@queue.handler("isolated", isolate=True)
def isolated(job):
    logging.getLogger("shop").info("handled there")
"""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def queue(url):
    with JobQueue(url) as queue:
        yield queue


def scraped(address):
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()


def test_a_worker_tells_its_metrics_on_a_port(tmp_path, url, queue):
    with work(tmp_path, SHOP.format(url=url), "--metrics-port", "0") as process:
        err = seen(process.stderr)
        until(lambda: any("metrics at" in line for line in err))
        [address] = re.findall(r"metrics at (http://127\.0\.0\.1:\d+/metrics)", "".join(err))
        ids = [queue.put("good"), queue.put("bad")]
        until(lambda: not any(queue.get(id).state.live for id in ids))
        until(lambda: 'pywheel_jobs_dead_total{topic="bad"} 1.0' in scraped(address))
        assert 'pywheel_jobs_done_total{topic="good"} 1.0' in scraped(address)
        assert scraped(address.replace("metrics", "readyz")) == "ready\n"
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert process.returncode == 0, err


def test_every_line_is_json_if_that_is_wanted(tmp_path, url, queue):
    with work(tmp_path, SHOP.format(url=url), "--log-format", "json", PYWHEEL_STORE="memory:") as process:
        ids = [queue.put("good"), queue.put("bad"), queue.put("isolated")]
        until(lambda: not any(queue.get(id).state.live for id in ids))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    lines = [json.loads(line) for line in err.splitlines()]
    events = [line["event"] for line in lines if "event" in line]
    assert [event for event in events if event.startswith("worker")] == [
        "worker_started",
        "worker_drains",
        "worker_stopped",
    ]
    assert {"attempt_failed", "job_dead"} <= set(events)
    handled = {line["message"]: line for line in lines if line["logger"] == "shop"}
    assert (handled["handled"]["job"], handled["handled"]["topic"]) == (ids[0], "good")
    assert (handled["handled there"]["job"], handled["handled there"]["topic"]) == (ids[2], "isolated")
    assert any("PYWHEEL_STORE names another store" in line["message"] for line in lines)


def test_several_processes_have_a_port_and_a_log_each(tmp_path, url, queue):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]  # this one is taken: they take the next ones
        options = ("--processes", "2", "--metrics-port", str(port), "--log-format", "json")
        with work(tmp_path, SHOP.format(url=url), *options) as process:
            err = seen(process.stderr)
            until(lambda: "".join(err).count("metrics at") == 2)
            ports = {int(found) for found in re.findall(r"metrics at http://127\.0\.0\.1:(\d+)/", "".join(err))}
            assert len(ports) == 2
            assert all(port < mine < port + 4 for mine in ports)
            ids = [queue.put("good") for _ in range(20)]
            until(lambda: all(queue.get(id).state is State.DONE for id in ids))

            def done():
                texts = [scraped(f"http://127.0.0.1:{mine}/metrics") for mine in ports]
                return sum(
                    float(n) for text in texts for n in re.findall(r'jobs_done_total\{topic="good"\} (\S+)', text)
                )

            until(lambda: done() == 20)
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    lines = [json.loads(line) for line in err]
    assert {line["process"] for line in lines if line["logger"] == "shop"} <= {line["process"] for line in lines}
    assert len({line["process"] for line in lines if line.get("event") == "worker_started"}) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--log-format", "xml"), "--log-format is text or json"),
        (("--metrics-port", "0", "--metrics-host", "192.0.2.1"), "no metrics on 192.0.2.1"),
        (("--metrics-port", "70000"), "65535"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, url, arguments, said):
    with work(tmp_path, SHOP.format(url=url), *arguments) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said in err


def test_without_the_extra_it_says_how_to_get_it(tmp_path, url):
    source = "import sys; sys.modules['prometheus_client'] = None\n" + SHOP.format(url=url)
    with work(tmp_path, source, "--metrics-port", "0") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "pip install 'pywheel-timer[telemetry]'" in err
