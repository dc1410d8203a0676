"""Commits between a statement's snapshot and its locks."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from pywheel.jobs import commands as ops
from pywheel.jobs.queries import GetHistories, GetJob
from pywheel.stores import open
from tests.jobs.waiting import until
from tests.often import often
from tests.stores.server import store_of
from tests.stores.test_last_put import WAYS, claim, put

PRIORITIES = [(0, 0), (0, 5), (5, 0), (5, 5), (5, 7)]


class Gate:
    """Stops whoever reads a row of a table by `url`, before the row is locked: a policy waits for an advisory lock."""

    def __init__(self, server, url):
        schema = store_of(url)
        self._role = f"slow_{schema}"
        self._number = int(schema[1:])
        self.url = server.again(url, user=f"{self._role}:secret")
        self._connection = server.connect()
        body = f"'BEGIN PERFORM pg_advisory_xact_lock_shared({self._number}); RETURN true; END'"
        for statement in (
            f"CREATE ROLE {self._role} LOGIN PASSWORD 'secret'",
            f"GRANT USAGE ON SCHEMA {schema} TO {self._role}",
            f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {self._role}",
            f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {self._role}",
            f"CREATE FUNCTION {schema}.passes() RETURNS boolean LANGUAGE plpgsql AS {body}",
        ):
            self._connection.execute(statement)
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"
        self.tables = [f"{schema}.{table}" for [table] in self._connection.execute(query, [schema])]
        self._condition = f"USING ({schema}.passes()) WITH CHECK (true)"

    @contextlib.contextmanager
    def at(self, table):
        """Have it stand before a table."""
        self._connection.execute(f"CREATE POLICY slow ON {table} {self._condition}")
        self._connection.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        yield
        self._connection.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
        self._connection.execute(f"DROP POLICY slow ON {table}")

    def shut(self):
        self._connection.execute("SELECT pg_advisory_lock(%s)", [self._number])

    def open(self):
        self._connection.execute("SELECT pg_advisory_unlock(%s)", [self._number])

    @property
    def stopped(self):
        """Whether somebody waits here."""
        return self._waiting("wait_event = 'advisory'")

    @property
    def blocked(self):
        """Whether somebody waits for a row that another one has locked."""
        return self._waiting("wait_event <> 'advisory'")

    def _waiting(self, condition):
        query = f"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND {condition}"
        return self._connection.execute(query).fetchone() != (0,)

    def close(self):
        self._connection.execute(f"DROP OWNED BY {self._role} CASCADE")
        self._connection.execute(f"DROP ROLE {self._role}")
        self._connection.close()


@pytest.fixture
def url(postgres_server):
    return postgres_server.url()


@pytest.fixture
def store(url):
    with open(url) as store:
        yield store


@pytest.fixture
def gate(postgres_server, url, store):
    with contextlib.closing(Gate(postgres_server, url)) as gate:
        yield gate


@pytest.fixture
def slow(gate):
    """The same store, of which whoever reads stops at the gate."""
    with open(gate.url) as store:
        yield store


def meanwhile(gate, slow, fast):
    """Call `slow` until it stops at the gate, then `fast` until it is done or blocked.

    Return what both return, and whether all of `fast` came between.
    """
    with ThreadPoolExecutor(2) as pool:
        gate.shut()
        try:
            first = pool.submit(slow)
            until(lambda: first.done() or gate.stopped)
            before = not first.done()
            second = pool.submit(fast)
            until(lambda: second.done() or gate.blocked)
            between = before and second.done()
        finally:
            gate.open()
        return first.result(), second.result(), between


def end(store, job):
    """End a job, and see that nothing is left of it that contradicts it."""
    assert store.apply([ops.Ack(job.id, job.claims)]) == [True]
    assert store.ask(GetJob(job.id)).priority == job.priority
    assert store.verify() == []


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("priorities", often(PRIORITIES, 3), ids=str)
def test_a_claim_delivers_the_last_put_that_came_before_its_lock(store, gate, slow, how, priorities):
    new = {"priority": priorities[1], "ttr": 1_000, "max_attempts": 7, "headers": {"h": "new"}}
    for table in gate.tables:
        id = put(store, b"old", priority=priorities[0])
        with gate.at(table):
            jobs, replaced, _ = meanwhile(gate, lambda: claim(slow, how, id), lambda: put(store, b"new", **new))  # noqa: B023
        [job] = jobs or claim(store, how, id)
        if replaced:
            assert (job.body, {name: getattr(job, name) for name in new}) == (b"new", new), table
            assert job.lease_until == store.ask(GetHistories([id]))[0][-1].started + 1_000
        else:
            assert job.body == b"old"
        end(store, job)


@pytest.mark.parametrize("priorities", often(PRIORITIES, 3), ids=str)
def test_of_two_puts_at_once_one_counts_in_all_that_it_says(store, gate, slow, priorities):
    first, second = ({"priority": priority, "ttr": 1_000 + priority} for priority in priorities)
    for table in gate.tables:
        put(store, b"old")
        with gate.at(table):
            meanwhile(gate, lambda: put(slow, b"first", **first), lambda: put(store, b"second", **second))
        [job] = claim(store, "reserve", 0)
        said = {b"first": first, b"second": second}[job.body]
        assert {name: getattr(job, name) for name in said} == said, table
        end(store, job)


@pytest.mark.parametrize("how", WAYS)
def test_a_claim_of_a_lost_lease_delivers_the_body_as_it_was_rewritten_last(store, gate, slow, how):
    for table in gate.tables:
        id = put(store, b"old")
        [[lost]] = store.apply([ops.Reserve("t", 1, ops.ClaimPolicy(1, 3, slack=0), "w")])
        until(lambda: store.ask(GetJob(id)).lease_until is None)  # noqa: B023
        with gate.at(table):
            jobs, _, between = meanwhile(
                gate,
                lambda: claim(slow, how, id),  # noqa: B023
                lambda: store.apply([ops.Rewrite(id, b"old", b"new")]),  # noqa: B023
            )
        if not jobs:
            until(lambda: jobs.extend(claim(store, how, id)) or jobs)  # noqa: B023
        [job] = jobs
        assert lost.claims < job.claims
        assert job.body == b"new" or not between, table
        end(store, job)
