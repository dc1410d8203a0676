"""Operations of a queue with their expected results, on every store; also reopened after every operation or some."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import ClaimPolicy
from pywheel.jobs.queries import CountJobs, GetJob, ListJobs
from pywheel.stores import Filter, open
from pywheel.testing import ManualClock

VECTORS = sorted((Path(__file__).parents[1] / "vectors").glob("queue_*.jsonl"))
assert len(VECTORS) >= 4
FOREVER = 10**9
ON_SERVERS = [file for file in VECTORS if file.stem in ("queue_crashy", "queue_late_settle")]
assert len(ON_SERVERS) == 2  # with all operations of the others
SOME = int(os.environ.get("PYWHEEL_REOPEN", "25"))


class Driver:
    """Runs the operations; the ids of the vectors are keys, as ours are given out by the store."""

    def __init__(self, url, head, *, reopen):
        self.url, self.reopen, self.operations = url, reopen, 0
        self.clock = ManualClock(wall=0)
        self.attempts = head["max_attempts"]
        self.topics = head["topics"]
        self.ids, self.names = {}, {}
        self.store = open(url, clock=self.clock)

    def run(self, operation):
        getattr(self, operation[0])(*operation[1:])
        self.operations += 1
        if self.reopen and self.operations % self.reopen == 0:
            self.store.close()
            self.store = open(self.url, clock=self.clock)

    def apply(self, op, now):
        self.clock.step(timedelta(milliseconds=now - self.clock.wall()))
        [outcome] = self.store.apply([op])
        return outcome

    def P(self, name, topic, due, ok):  # noqa: N802
        known = name in self.ids and self.store.ask(GetJob(self.ids[name]))
        assert (not known) is ok
        if ok:
            [outcome] = self.store.apply([ops.Put((NewJob(topic, b"", due, max_attempts=self.attempts),))])
            [self.ids[name]] = outcome
            self.names[outcome[0]] = name

    def G(self, topic, limit, now, lease, expected):  # noqa: N802
        jobs = self.apply(ops.Reserve(topic, limit, ClaimPolicy(lease, FOREVER), "tester"), now)
        assert [[self.names[job.id], job.attempt] for job in jobs] == expected
        assert all(job.topic == topic and job.lease_until == now + lease for job in jobs)

    def K(self, name, attempt, now, ok):  # noqa: N802
        assert self.apply(ops.Ack(self.ids[name], attempt), now) is ok

    def X(self, name, attempt, now, delay, ok):  # noqa: N802
        state = self.apply(ops.Nack(self.ids[name], attempt, delay), now)
        assert (state is not None) is ok
        if ok:
            assert state is (State.DEAD if attempt == self.attempts else State.DELAYED)

    def E(self, name, attempt, now, lease, ok):  # noqa: N802
        assert self.apply(ops.Touch(self.ids[name], attempt, lease), now) is ok

    def D(self, name, now, ok):  # noqa: N802
        assert bool(self.apply(ops.Cancel(self.ids[name]), now)) is ok

    def T(self, now, expected):  # noqa: N802
        self.clock.step(timedelta(milliseconds=now - self.clock.wall()))
        assert [sum(states) for states in zip(*self.store.ask(CountJobs()).values(), strict=True)] == (
            expected if self.ids else []
        )

    def N(self, now, expected):  # noqa: N802
        self.clock.step(timedelta(milliseconds=now - self.clock.wall()))
        assert min(self.next_times(), default=None) == expected

    def next_times(self):
        """Return when each job could be claimed, as far as it can again."""
        waiting, running = (
            self.store.ask(ListJobs(Filter(state=state), 0, FOREVER)) for state in (State.DELAYED, State.RUNNING)
        )
        return [job.due for job in waiting] + [job.lease_until for job in running if job.attempt < self.attempts]


def replay(url, file, *, reopen):
    head, *operations = map(json.loads, file.read_text().splitlines())
    driver = Driver(url, head, reopen=reopen)
    for number, operation in enumerate(operations, 2):
        try:
            driver.run(operation)
        except AssertionError as error:
            raise AssertionError(f"{file.name}:{number}: {operation}: {error}") from error
    driver.store.close()
    assert len(operations) == head["ops"]


@pytest.mark.parametrize("file", VECTORS, ids=lambda file: file.stem)
def test_a_store_in_memory_gives_the_expected_results(file):
    replay("memory:", file, reopen=0)


@pytest.mark.stress
@pytest.mark.parametrize("file", VECTORS, ids=lambda file: file.stem)
def test_sqlite_gives_the_expected_results(file, tmp_path):
    replay(f"sqlite:///{tmp_path}/jobs.db", file, reopen=SOME)


@pytest.mark.parametrize("file", ON_SERVERS, ids=lambda file: file.stem)
def test_a_server_gives_the_expected_results(file, server):
    replay(server.url(), file, reopen=SOME)
