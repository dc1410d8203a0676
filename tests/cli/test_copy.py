"""`pywheel copy`: from one store to another, beside what runs, and over."""

import json
import re
import signal

import pytest

from pywheel import JobQueue
from pywheel.jobs.commands import Pause
from pywheel.jobs.queries import CountJobs, ListTopics

HANG_UPS = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no hang-ups here")


@pytest.fixture
def other(tmp_path):
    return f"sqlite:///{tmp_path}/other.db"


@pytest.fixture
def unexpected_signals():
    """Signals that end no command fail its test, and not the tests; under nohup hang-ups would be ignored."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, lambda *_: pytest.fail("it would have ended here")) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_copy_goes_beside_and_says_how_to_go_on(call, queue, url, other, tmp_path):
    queue.put_many(queue.job("t", n, delay="1h") for n in range(7))
    queue.cancel(queue.put("t"))
    assert call("copy", url, other, "--dry-run") == (0, "7 live jobs would be carried, and 1 finished ones\n", "")
    assert not (tmp_path / "other.db").exists()
    code, out, err = call("copy", url, other)
    assert (code, out) == (0, "7 carried, 0 brought up to date: 7 there, 0 still to come; finished: 1\n")
    assert "--switch goes over to it" in err
    queue.put("t", delay="1h")
    record = json.loads(call("copy", url, other, "--json")[1])
    assert record == {"new": 1, "changed": 0, "waiting": 0, "total": 8, "finished": 0}
    assert queue.topics.counts()["t"].delayed == 8


def test_a_switch_goes_over_and_says_how_long_nothing_could_start(call, queue, url, other):
    queue.put_many(queue.job("t", n, delay="1h") for n in range(7))
    code, out, err = call("copy", url, other, "--switch")
    assert code == 0
    assert re.match(rf"7 jobs are in {re.escape(other)}; nothing could start for \d+\.\d s; finished: 0\n", out)
    assert f"stop those of {url}" in err
    assert [topic.paused for topic in queue.topics.list() if topic.name == "t"] == [True]
    with JobQueue(other) as new:
        assert new.topics.counts()["t"].delayed == 7
        new.put("t", key="k", delay="1h")
    queue.put("t", key="k")
    code, out, err = call("copy", url, other, "--switch", "--json")
    assert (code, json.loads(out)["refused"]) == (1, 1)
    assert "1 jobs stayed there" in err
    assert call("copy", url, other)[0] == 2  # there is nothing left to be copied beside


def test_what_still_runs_ends_a_switch_and_nothing_stays_paused(fails, queue, url, other):
    queue.put("t")
    [job] = queue.reserve("t")
    err = fails(3, "copy", url, other, "--switch", "--wait", "0.1s")
    assert ("still runs 1 of 't'" in err, "the same command goes on where it was" in err) == (True, True)
    assert [topic.paused for topic in queue.topics.list()] == [False]
    assert queue.ack(job)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", pytest.param("SIGHUP", marks=HANG_UPS)])
def test_a_signal_that_ends_a_switch_resumes_the_source(fails, queue, url, other, meanwhile, unexpected_signals, name):
    """A closed terminal may send its signal several times."""
    number, sent = getattr(signal, name), []
    queue.put("t")
    [job] = queue.reserve("t")

    def send():
        """While it waits for what runs; a hang-up also while it resumes the source."""
        if all(topic.paused for topic in queue.store.ask(ListTopics())):
            sent.append(number)
            signal.raise_signal(number)

    meanwhile("ask", CountJobs, send)
    meanwhile("apply", Pause, lambda: name == "SIGHUP" and sent and signal.raise_signal(number))
    err = fails(130, "copy", url, other, "--switch")
    assert "the same command goes on where it was" in err
    assert len(sent) == 1
    assert [topic.paused for topic in queue.topics.list()] == [False]
    assert queue.ack(job)


def test_stores_that_make_no_sense_are_refused(call, queue, url, other):
    assert call("copy", other, url)[0] == 3
    with JobQueue(other) as new:
        new.put("mine")
    assert call("copy", url, other)[0] == 2
