"""The number of statements in the commonest steps of a worker."""

import pytest

from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import GetHistories
from pywheel.stores import open
from pywheel.stores.sql.statement import Each, WriteJobs
from tests.stores.calls import TERMS
from tests.stores.files import NOW


@pytest.fixture
def store(postgres_server, clock):
    with open(postgres_server.url(), clock=clock) as store:
        store.apply([ops.Put(tuple(NewJob("t", b"", NOW - 100 + number) for number in (-1, *range(40))))])
        store.apply([ops.Claim("t", (), TERMS, "w", 1, limit=1)])  # the first one finds out which priorities there are
        yield store


@pytest.fixture
def sent(store, monkeypatch):
    """What goes to the server, one by one."""
    sent, send = [], store.send

    def noted(connection, batch, now):
        sent.extend(batch)
        return send(connection, batch, now)

    monkeypatch.setattr(store, "send", noted)
    return sent


def test_a_claim_of_what_is_due_writes_by_the_statement_that_looks(store, sent):
    [claimed] = store.apply([ops.Claim("t", (), TERMS, "w", 5, limit=5)])
    assert [job.due for job in claimed.jobs] == [*range(NOW - 100, NOW - 95)]
    assert not [one for one in sent if isinstance(one, WriteJobs)]


def test_a_claim_behind_a_job_looks_first(store, sent):
    [claimed] = store.apply([ops.Claim("t", (), TERMS, "w", 2, limit=2, after=(None, NOW - 90, 2**40))])
    assert [job.due for job in claimed.jobs] == [NOW - 89, NOW - 88]
    assert [one for one in sent if isinstance(one, WriteJobs)]


def test_results_are_written_with_the_ends_of_their_jobs(store, sent):
    [claimed] = store.apply([ops.Claim("t", (), TERMS, "w", 40, limit=40)])
    sent.clear()
    acks = [ops.Ack(job.id, job.claims, b"\0%d" % job.id if job.id % 2 else None) for job in claimed.jobs]
    assert store.apply(acks) == [True] * 40
    assert len([one for one in sent if isinstance(one, WriteJobs)]) == 2
    assert not [one for one in sent if isinstance(one, Each)]
    kept = [history[-1].result for history in store.ask(GetHistories([job.id for job in claimed.jobs]))]
    assert kept == [ack.result for ack in acks]
