"""Puts with `dedupe_for` on databases: others' changes between a transaction's reading and its commit."""

import pytest

from pywheel import JobExists
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs
from pywheel.stores import open
from pywheel.stores.relational import lanes
from tests.stores.calls import put

KEYED = NewJob("t", b"", 0, "k", dedupe_for=3_600_000)


def test_a_job_that_came_and_went_since_the_transaction_looked_is_seen(sql_server, monkeypatch):
    url = sql_server.url()
    with open(url) as one, open(url) as other:
        put(one, KEYED._replace(dedupe_for=None))
        one.apply([ops.Delete(("t", "k"))])
        drive, went = lanes.drive, []

        def interrupted(send, steps):
            def then_another(batch):
                rows = send(batch)
                if not went and any("AS lapsed" in getattr(one, "text", "") for one in batch):
                    went.append(None)
                    went[:] = put(other, KEYED)
                    assert other.apply([ops.Cancel(went[0])]) == [ops.Change.MADE]
                return rows

            return drive(then_another, steps)

        monkeypatch.setattr(lanes, "drive", interrupted)
        with pytest.raises(JobExists) as refused:
            put(one, KEYED)
        assert [refused.value.id] == went
        counts = one.ask(CountJobs())["t"]
        assert (counts.cancelled, counts.delayed) == (1, 0)
