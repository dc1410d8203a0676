"""The one statement that a put comes to on a database: what it says once, and that each job gets its own values."""

import pytest

from pywheel.jobs import NewJob
from pywheel.jobs.commands import Put
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores import open
from pywheel.stores.mysql.dialect import MysqlDialect
from pywheel.stores.postgres.dialect import Later, PostgresDialect
from pywheel.stores.sql.statement import Insert
from pywheel.testing import ManualClock

COLUMNS = ("id", "topic", "next", "created", "body", "key")
NOW = 1_700_000_000_000


def jobs_due(*times):
    """Return the insert of jobs, due then, as `sql.put` makes it."""
    return Insert("job", COLUMNS, [(id, 7, due, Later(0), b"%d" % id, None) for id, due in enumerate(times, 1)])


def test_postgres_gets_what_is_alike_in_all_jobs_once():
    text, values = PostgresDialect("p_").put(jobs_due(Later(5), Later(6), Later(7)))
    assert values == {
        "id": "{1, 2, 3}",
        "topic": 7,
        "next": "{5, 6, 7}",
        "created": 0,
        "body": [b"1", b"2", b"3"],
        "key": None,
        "jobs": 3,
    }
    assert "GROUP BY" not in text


def test_postgres_gets_jobs_of_several_topics_by_their_topics():
    insert = jobs_due(Later(5), Later(6))
    insert.rows[1] = (2, 8, *insert.rows[1][2:])
    text, values = PostgresDialect("p_").put(insert)
    assert values["topic"] == "{7, 8}"
    assert "GROUP BY topic" in text


def test_postgres_adds_the_time_to_those_alone_that_come_later():
    _, values = PostgresDialect("p_").put(jobs_due(Later(5), 5))
    assert values["next"] == "{5, 5}"
    assert values["next_later"] == "{True, False}"


def test_mysql_reckons_the_times_of_jobs_from_that_of_the_packet():
    [text] = MysqlDialect("p_").inserts(jobs_due(Later(5), Later(-6)), "@now")
    assert text.endswith("VALUES (1,7,@now+5,@now,x'31',NULL),(2,7,@now-6,@now,x'32',NULL)")


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_job_of_a_put_has_its_own_values(request, kind, count):
    soon, then, other = (
        NewJob("t", b"1", 0, delay=5),
        NewJob("t", b"2", NOW + 9, ttr=4),
        NewJob("u", b"3", 0, delay=5, headers={"a": "b"}),
    )
    for some in ([soon, then, other][:count], [soon, then, other][-count:], [soon] * count):
        with open(request.getfixturevalue(f"{kind}_server").url(), clock=ManualClock(wall=NOW)) as store:
            [ids] = store.apply([Put(tuple(some))])
            found = [store.ask(GetJob(id)) for id in ids]
            counts = store.ask(CountJobs())
        assert [(job.topic, job.body, job.due, job.created, job.ttr, job.headers) for job in found] == [
            (job.topic, job.body, job.due or NOW + job.delay, NOW, job.ttr, job.headers or {}) for job in some
        ]
        assert sum(one.delayed for one in counts.values()) == count
