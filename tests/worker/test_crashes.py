"""Processes that are killed, stopped or told to go, and the accounting of a queue afterwards."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pywheel import JobQueue
from pywheel.jobs import Outcome, State
from pywheel.jobs.queries import ListWorkers
from tests.isolated.child import environment
from tests.jobs.waiting import until
from tests.worker.ledger_watchdog import WriteLock, is_stopped
from tests.worker.noted import Noted

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]
HERE = Path(__file__).parent


@pytest.fixture
def url(shared_url):
    return shared_url


@pytest.fixture
def queue(url):
    with JobQueue(url) as queue:
        yield queue


@pytest.fixture
def ledger(tmp_path):
    return Noted(tmp_path / "ledger.txt")


@pytest.fixture
def go_on(ledger):
    """Let go on whoever is held in a handler."""
    return Path(f"{ledger.path}.go").touch


@pytest.fixture
def start(url, ledger):
    """Start a process; all that are left are killed at the end."""
    processes = []

    def start(script, *arguments, **variables):
        command = [sys.executable, str(HERE / script), url, str(ledger.path), *map(str, arguments)]
        process = subprocess.Popen(command, env=environment(**variables), stderr=subprocess.DEVNULL)
        processes.append(process)
        return process

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


def started(ledger, id):
    return [line for line in ledger.lines("start") if int(line[0]) == id]


def is_stopped_between_writes(worker, queue):
    """Wait until a process has stopped, and is not within a transaction on a file of SQLite's: nobody could write."""
    lock = WriteLock(getattr(queue.store, "path", os.devnull))
    while True:
        until(lambda: is_stopped(worker.pid))
        if lock.stopped_holder() is None:
            return
        worker.send_signal(signal.SIGCONT)
        worker.send_signal(signal.SIGSTOP)


def test_a_job_that_kills_its_process_is_dead_after_its_attempts(queue, start, ledger):
    id = queue.put("poison")
    for _ in range(3):
        assert start("crash_worker.py").wait(60) == -signal.SIGKILL
    start("crash_worker.py")
    until(lambda: queue.get(id).state is State.DEAD)
    assert len(started(ledger, id)) == 3
    other = queue.put("t", b"x")
    until(lambda: queue.get(other).state is State.DONE)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is stopped")
def test_a_worker_stopped_for_longer_than_its_lease_loses_its_job_and_its_ack(queue, start, go_on):
    id = queue.put("t", b"stopped")
    worker = start("crash_worker.py")
    is_stopped_between_writes(worker, queue)
    other = start("crash_worker.py")
    until(lambda: queue.get(id).state is State.DONE)
    go_on()
    worker.send_signal(signal.SIGCONT)
    again = queue.put("t", b"x")
    until(lambda: queue.get(again).state is State.DONE)
    job = queue.get(id)
    assert (job.state, job.attempt) == (State.DONE, 2)
    assert [attempt.outcome for attempt in queue.jobs.history(id)] == [Outcome.LOST, Outcome.DONE]
    assert other.poll() is None


def test_a_term_signal_lets_handlers_finish_within_the_grace(queue, start, ledger, go_on):
    running, waiting = queue.put("steady"), queue.put("steady", delay=0.05)
    worker = start("crash_worker.py")
    until(lambda: started(ledger, running))
    worker.send_signal(signal.SIGTERM)
    until(lambda: ledger.path.read_text().endswith("drains\n"))
    go_on()
    assert worker.wait(60) == 0
    assert ledger.lines("stopped")
    assert queue.get(running).state is State.DONE
    assert (queue.get(waiting).state, queue.get(waiting).attempt) == (State.DELAYED, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_past_the_grace_a_job_goes_back_unspent(queue, start, ledger, number):
    id = queue.put("hang")
    worker = start("crash_worker.py", GRACE="0.1")
    until(lambda: started(ledger, id))
    worker.send_signal(number)
    assert worker.wait(60) == 0
    assert (queue.get(id).state, queue.get(id).attempt) == (State.DELAYED, 0)


def test_an_idle_worker_goes_at_a_term_signal(queue, start):
    worker = start("crash_worker.py")
    until(lambda: queue.store.ask(ListWorkers()))
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0


def test_after_a_kill_the_next_worker_has_the_shards_at_once(queue, start, ledger):
    worker = start("crash_worker.py")
    first = queue.put("t", b"x")
    until(lambda: queue.get(first).state is State.DONE)
    worker.kill()
    worker.wait()
    ids = queue.put_many(queue.job("t", b"x") for _ in range(32))
    start("crash_worker.py")
    until(lambda: all(queue.get(id).state is State.DONE for id in ids))
