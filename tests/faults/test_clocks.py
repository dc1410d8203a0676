"""The clock of a host is set by a day, either way, under the processes on it."""

import struct
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import pytest

from pywheel import JobQueue
from pywheel.jobs import Outcome, State
from pywheel.jobs.queries import ListWorkers
from tests.faults.calls import library, needs_preload
from tests.isolated.child import environment
from tests.jobs.waiting import finished, until
from tests.stores import servers

LIFE = Path(__file__).with_name("clock_life.py")
DAY, HOUR = 86_400, 3_600

pytestmark = needs_preload


class HostClock:
    """The wall clock of the processes that have these variables: a file says how far it is ahead of this host's."""

    def __init__(self, folder):
        folder.chmod(0o755)  # servers run as somebody else
        self._file = folder / "ahead"
        self._file.write_bytes(bytes(8))
        self._ahead = 0
        self.variables = {"LD_PRELOAD": library("clock"), "FAKE_CLOCK": str(self._file)}

    def set(self, now):
        self.step(now - time.time() - self._ahead)

    def step(self, seconds):
        self._ahead += seconds
        with self._file.open("r+b", buffering=0) as file:  # in place: it is mapped
            file.write(struct.pack("=q", int(self._ahead * 1e9)))


@pytest.fixture
def clock():
    with tempfile.TemporaryDirectory() as folder:
        yield HostClock(Path(folder))


class Program:
    """A process that works and puts."""

    def __init__(self, url, **variables):
        command = [sys.executable, str(LIFE), url]
        self._process = subprocess.Popen(
            command, env=environment(**variables), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def put(self, delay=0):
        self._process.stdin.write(f"{delay}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._process.stdout.close()


def at(text):
    """Return the seconds since 1970 at a time in UTC."""
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


def ticked(job, name):
    """Return the second of a schedule's tick, None for other jobs."""
    mine = (job.headers or {}).get("pywheel-schedule") == name
    return datetime.fromisoformat(job.headers["pywheel-tick"]).timestamp() if mine else None


def done(queue, id):
    """Wait until a job is done; it was handled once, and not claimed before it was due.

    What a worker holds unstarted as it sees the clock set it gives back.
    """
    job = finished(queue, id)
    assert (job.state, job.attempt) == (State.DONE, 1)
    *earlier, last = queue.jobs.history(id)
    assert {row.outcome for row in earlier} <= {Outcome.RELEASED}
    assert all(row.started >= job.due for row in (*earlier, last))


@pytest.fixture(params=["sqlite", *servers.STORES])
def set_store(request, tmp_path, clock):
    """The address of an empty store by whose clock jobs are due, and the variables of a program on that host."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/jobs.db", clock.variables
        return
    kind = servers.KINDS[request.param]

    class Set(kind):
        def environment(self):
            return super().environment() | clock.variables

    for server in servers.started(Set):
        yield server.url(), {}


@pytest.mark.drawn(1)
@pytest.mark.stress
def test_jobs_follow_the_clock_of_their_store(set_store, clock):
    """It is set by a day forward, two days back, and far ahead."""
    url, variables = set_store
    with Program(url, **variables) as program, JobQueue(url) as queue:
        soon, far = program.put(HOUR), program.put(2 * DAY)
        done(queue, program.put())
        clock.step(DAY)
        done(queue, soon)
        for _ in range(2):
            done(queue, program.put())
            done(queue, program.put(0.3))
            clock.step(-DAY)
        done(queue, program.put())
        done(queue, program.put(0.3))
        assert queue.get(far).state is State.DELAYED
        clock.step(5 * DAY)
        done(queue, far)


@pytest.mark.drawn(1)
@pytest.mark.stress
def test_a_tick_comes_once_where_clocks_are_put_forward_and_back_and_where_a_second_is_repeated(set_store, clock):
    url, variables = set_store
    with Program(url, **variables) as program, JobQueue(url) as queue:
        queue.schedules.set("night", "t", cron="30 2 * * *", tz="Europe/Berlin")
        queue.schedules.set("seconds", "t", every="1s")

        def ticks(name):
            jobs = queue.jobs.list(topic="t", state="done", limit=10**4)
            return sorted(tick for job in jobs if (tick := ticked(job, name)))

        def comes(second):
            """Set the clock a moment before a tick, and wait until it is there and past."""
            clock.set(second - 2)
            until(lambda: second in ticks("night"))

        done(queue, program.put())
        comes(at("2027-03-28T01:00"))  # 3:00, as 2:30 is left out
        comes(at("2027-10-31T00:30"))  # 2:30, the first time
        clock.set(at("2027-10-31T01:30") - 2)
        done(queue, program.put(4))
        assert ticks("night") == [at("2027-03-28T01:00"), at("2027-10-31T00:30")]
        for _ in range(3):
            clock.step(-1)
            done(queue, program.put(1))
        found = ticks("seconds")
        assert len(set(found)) == len(found)


def test_on_a_server_the_clock_of_a_programs_host_is_nothing(server, clock):
    url = server.url()
    with Program(url, **clock.variables) as program, JobQueue(url) as queue:
        soon = program.put(HOUR)
        for step in (HOUR, -2 * HOUR, DAY, -2 * DAY):
            clock.step(step)
            for delay in (0, 0.3):
                before = time.time() * 1000
                id = program.put(delay)
                assert before - 5 <= queue.get(id).due - delay * 1000 <= time.time() * 1000 + 5
                done(queue, id)
            assert [member.silent < 60 for member in queue.store.ask(ListWorkers())] == [True]
        assert queue.get(soon).state is State.DELAYED
