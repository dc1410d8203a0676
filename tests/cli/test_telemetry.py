"""``pywheel work`` and ``pywheel serve`` with metrics and a log for machines, as processes of their own."""

import json
import os
import re
import signal
import socket
import urllib.error
import urllib.request

import pytest

from pywheel.jobs import State
from tests.jobs.waiting import until
from tests.server.client import Process

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


def scraped(address):
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()


def is_ready(address):
    try:
        return scraped(address.replace("metrics", "readyz")) == "ready\n"
    except urllib.error.HTTPError:  # the process of an isolated handler still starts
        return False


def test_a_worker_tells_its_metrics_on_a_port(work, url, queue):
    with work(SHOP.format(url=url), "--metrics-port", "0") as command:
        command.says("metrics at")
        [address] = re.findall(r"metrics at (http://127\.0\.0\.1:\d+/metrics)", command.err)
        ids = [queue.put("good"), queue.put("bad")]
        until(lambda: not any(queue.get(id).state.live for id in ids))
        until(lambda: 'pywheel_jobs_dead_total{topic="bad"} 1.0' in scraped(address))
        until(lambda: 'pywheel_jobs_done_total{topic="good"} 1.0' in scraped(address))
        until(lambda: is_ready(address))
        command.send(signal.SIGTERM)
        assert command.process.wait(60) == 0, command.err


def test_every_line_is_json_if_that_is_wanted(work, url, queue):
    with work(SHOP.format(url=url), "--log-format", "json", PYWHEEL_STORE="memory:") as command:
        ids = [queue.put("good"), queue.put("bad"), queue.put("isolated")]
        until(lambda: not any(queue.get(id).state.live for id in ids))
        command.send(signal.SIGTERM)
        assert command.process.wait(60) == 0
        lines = list(map(json.loads, command.err.splitlines()))
    events = [line["event"] for line in lines if "event" in line]
    of_worker = [event for event in events if event.startswith("worker")]
    assert of_worker == ["worker_started", "worker_drains", "worker_stopped"]
    assert {"attempt_failed", "job_dead"} <= set(events)
    handled = {line["message"]: (line["job"], line["topic"]) for line in lines if line["logger"] == "shop"}
    assert handled == {"handled": (ids[0], "good"), "handled there": (ids[2], "isolated")}
    assert any("PYWHEEL_STORE names another store" in line["message"] for line in lines)


def test_several_processes_have_a_port_and_a_log_each(work, url, queue):
    with socket.create_server(("127.0.0.1", 0)) as taken:  # they take the next ones
        port = taken.getsockname()[1]
        options = ("--processes", "2", "--metrics-port", str(port), "--log-format", "json")
        with work(SHOP.format(url=url), *options) as command:
            until(lambda: command.err.count("metrics at") == 2)
            ports = set(map(int, re.findall(r"metrics at http://127\.0\.0\.1:(\d+)/", command.err)))
            assert ports <= set(range(port + 1, port + 4))
            assert len(ports) == 2
            ids = [queue.put("good") for _ in range(20)]
            until(lambda: all(queue.get(id).state is State.DONE for id in ids))

            def done():
                text = "".join(scraped(f"http://127.0.0.1:{mine}/metrics") for mine in ports)
                return sum(map(float, re.findall(r'jobs_done_total\{topic="good"\} (\S+)', text)))

            until(lambda: done() == 20)
            command.send(signal.SIGTERM)
            command.process.wait(60)
            lines = list(map(json.loads, command.err.splitlines()))
    assert len({line["process"] for line in lines if line.get("event") == "worker_started"}) == 2


def test_the_service_tells_the_gauges_of_its_store_and_what_its_clients_put_and_logs_for_machines(tmp_path):
    with Process(tmp_path, "--open", "--log-format", "json") as server:

        def metrics():
            return server("GET", "/metrics", headers={"accept": "application/openmetrics-text"})

        assert server("POST", "/v1/jobs", json={"topic": "mail", "delay": "30m"}).status_code == 201
        assert metrics().headers["content-type"].startswith("application/openmetrics-text")
        assert 'pywheel_jobs{state="delayed",topic="mail"} 1.0' in metrics().text
        until(lambda: 'pywheel_jobs_put_total{topic="mail"} 1.0' in metrics().text)  # listeners are told after clients
    assert all(json.loads(line)["message"] for line in server.log.read_text().splitlines())
