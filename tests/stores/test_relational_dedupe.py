"""Puts with `dedupe_for` on databases: others' changes between a transaction's reading and its commit."""

import pytest

from pywheel import JobExists
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs
from pywheel.stores import open
from pywheel.stores.relational import lanes


def put(store, dedupe_for=3_600_000):
    [outcome] = store.apply([ops.Put((NewJob("t", b"", 0, "k", dedupe_for=dedupe_for),))])
    return outcome


@pytest.fixture
def one(sql_server):
    with open(sql_server.url()) as store:
        yield store


@pytest.fixture
def other(one):
    with open(one.secret_url) as store:
        yield store


def test_a_job_that_came_and_went_since_the_transaction_looked_is_seen(one, other, monkeypatch):
    put(one, None)
    one.apply([ops.Delete(("t", "k"))])
    went = []

    drive = lanes.drive

    def interrupted(send, steps):
        def then_another(batch):
            rows = send(batch)
            if not went and any("AS lapsed" in getattr(one, "text", "") for one in batch):
                went.append(None)
                [id] = put(other)
                assert other.apply([ops.Cancel(id)]) == [ops.Change.MADE]
                went[0] = id
            return rows

        return drive(then_another, steps)

    monkeypatch.setattr(lanes, "drive", interrupted)
    refused = put(one)
    assert isinstance(refused, JobExists)
    assert refused.id == went[0]
    assert one.ask(CountJobs())["t"].cancelled == 1
    assert one.ask(CountJobs())["t"].delayed == 0
