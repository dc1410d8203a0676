"""The spool between processes: kills, forks, several that forward."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from pywheel import JobQueue
from pywheel.client.spool import Spool
from pywheel.jobs import NewJob, State
from pywheel.jobs.commands import Put
from pywheel.jobs.queries import ListJobs
from pywheel.stores import Filter
from pywheel.stores import open as open_store
from tests.isolated.child import environment, run_well
from tests.jobs.waiting import until

HERE = Path(__file__).parent
pytestmark = [pytest.mark.stress, pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork and no SIGKILL here")]


@pytest.fixture
def urls(tmp_path):
    open_store(f"sqlite:///{tmp_path}/server.db").close()
    return f"sqlite:///{tmp_path}/server.db", f"sqlite:///{tmp_path}/spool.db"


def drain(store, spool):
    """Be the next process; return what is in the store, in order."""
    with JobQueue(store, spool=spool) as queue:
        queue.store._forwarder.wake()
        until(lambda: not queue.store._spool.waiting())
        return list(queue.store.ask(ListJobs(Filter(), 0, 100_000)))


@pytest.mark.parametrize("where", ["spooled", "before", "after", "noted"])
def test_killed_at_any_step_nothing_is_lost_and_nothing_comes_twice(urls, where):
    count = 10
    child = [sys.executable, str(HERE / "child.py"), *urls, where, str(count)]
    ended = subprocess.run(child, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout.split()) == (-signal.SIGKILL, [str(-n) for n in range(1, count + 1)])
    jobs = drain(*urls)
    assert [job.json() for job in jobs if job.key is None] == list(range(0, count, 2))
    latest = {f"k{n % 3}": n for n in range(1, count, 2)}
    assert {job.key: job.json() for job in jobs if job.key is not None} == latest
    assert len(jobs) == count // 2 + len(latest)


def test_producers_killed_at_any_moment_leave_each_put_once(urls):
    told = Counter()
    for life in range(4):
        names = [f"{life}a", f"{life}b"]
        producers = []
        for name in names:
            child = [sys.executable, str(HERE / "producer.py"), *urls, name, str(life)]
            producers.append(subprocess.Popen(child, env=environment(), stdout=subprocess.PIPE, text=True))
        for producer in producers:
            assert producer.stdout.readline()
        time.sleep(0.3)
        for name, producer in zip(names, producers, strict=True):
            producer.kill()
            told.update((name, int(line)) for line in ["0", *producer.stdout.read().split()])
            assert producer.wait() == -signal.SIGKILL
            producer.stdout.close()
    found = Counter((job.topic, job.json()) for job in drain(*urls))
    assert max(told.values()) == max(found.values()) == 1
    assert told.keys() <= found.keys()
    assert len(found.keys() - told.keys()) <= 3 * 12, "only the last put of each may have come without being told"


def test_two_processes_that_forward_do_it_once_and_in_order(urls):
    with JobQueue(urls[0], spool=urls[1]) as queue:
        queue.store._forwarder.stop()
        for part in range(8):
            numbers = range(part * 250, part * 250 + 250)
            queue.store._spool.add([Put((queue.job("t", n),), f"n{n}") for n in numbers])
    code = f"""
import sys
sys.path.insert(0, {str(HERE.parents[2])!r})
from tests.client.spool.test_processes import drain
drain({urls[0]!r}, {urls[1]!r})
"""
    processes = [subprocess.Popen([sys.executable, "-c", code], env=environment()) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    with open_store(urls[0]) as store:
        assert [job.json() for job in store.ask(ListJobs(Filter(), 0, 10_000))] == list(range(2_000))


PROGRAM = """
import logging, os, sys, time
logging.disable()
from pywheel import JobQueue
from pywheel.stores import open
from pywheel.testing import FaultyStore

server = FaultyStore(open(sys.argv[1]))
queue = JobQueue(server, spool=sys.argv[2], listeners=[lambda event: None])
"""


def test_a_queue_opened_before_a_fork_spools_and_forwards_on_both_sides(urls):
    printed = run_well(
        *("-W", "ignore", "-c"),
        f"""{PROGRAM}
queue.put("t", 0)
server.away = True
assert queue.put("t", 1) == -1

def forwarded():
    end = time.monotonic() + 60
    while queue.store._spool.waiting() or queue.store._breaker.away:
        assert time.monotonic() < end
        time.sleep(0.005)

child = os.fork()
if child == 0:
    code = 1
    try:
        assert queue.put("t", 2) == -2
        assert queue.get(-1).json() == 1
        server.away = False
        queue.put("t", 3)
        forwarded()
        assert queue.get(-2).json() == 2
        queue.close()
        code = 0
    finally:
        os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
queue.put("t", 4)
server.away = False
forwarded()
print(*sorted(job.json() for job in queue.jobs.list("t")))
queue.close()
""",
        *urls,
    )
    assert printed == "0 1 2 3 4\n"


def test_a_process_that_ends_with_its_store_away_ends_soon(urls):
    code = f"{PROGRAM}server.away = True\nprint(queue.put('t', 1))"
    assert run_well("-W", "error", "-c", code, *urls) == "-1\n"
    assert [job.json() for job in drain(*urls)] == [1]


def test_a_forked_child_that_closes_its_spool_lets_nobody_overtake_its_parent(spool):
    first, second = Spool(spool), Spool(spool)

    def add(nonce):
        first.add([Put((NewJob("t", b"", 0),), nonce)])

    def close_in_a_child():
        child = os.fork()
        if child == 0:
            first.close()
            os._exit(0)
        assert os.waitpid(child, 0) == (child, 0)

    ask, overtaken = first.file.ask, []

    def beside_another(query):
        found = ask(query)
        if isinstance(query, ListJobs) and query.filter.state is State.RUNNING:
            close_in_a_child()
            overtaken.append(second.take())
            add("n1")
        return found

    add("n0")
    first.file.ask = beside_another
    assert [waiting.put.nonce for waiting in first.take()] == ["n0", "n1"]
    assert overtaken == [None]
    first.close()
    second.close()
