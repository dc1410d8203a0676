"""Every store keeps the contract, a durable one also when it is reopened after every operation."""

import sqlite3

import pytest

from pywheel import JobQueue
from pywheel.stores import open
from pywheel.testing import FaultyStore, StoreSuite
from pywheel.testing.suite.histories import ModelTests
from tests.stores.suites import InFolder, Named, Reopened, Wakeups, Writing


class TestMemory(StoreSuite):
    def make_store(self, clock):
        return open("memory:", clock=clock)


class OnFile(InFolder):
    def make_store(self, clock):
        self.path = self.place()
        self.url = f"sqlite:///{self.path}"
        return open(self.url, clock=clock)

    def recount(self):
        """What `counts` has, with the tail, is what is there; no row is without its job, and no job in two places."""
        super().recount()
        connection = sqlite3.connect(self.path)
        kept = connection.execute(
            "SELECT topic, sum(live), sum(done), sum(cancelled), sum(dead) FROM ("
            " SELECT topic, live, done, cancelled, dead FROM counts"
            " UNION ALL SELECT topic, 1, 0, 0, 0 FROM job WHERE id > (SELECT job FROM counted)"
            " UNION ALL SELECT topic, 1, 0, 0, 0 FROM finished WHERE id > (SELECT job FROM counted)"
            ") GROUP BY topic HAVING sum(live) + sum(done) + sum(cancelled) + sum(dead) <> 0 ORDER BY topic"
        ).fetchall()
        counted = connection.execute(
            "SELECT topic, sum(state = 3), sum(state = 0), sum(state = 1), sum(state = 2) FROM ("
            " SELECT topic, 3 AS state FROM job UNION ALL SELECT topic, state FROM finished"
            ") GROUP BY topic ORDER BY topic"
        ).fetchall()
        assert kept == counted
        for nothing in (
            "finished WHERE id IN (SELECT id FROM job)",
            "attempt a WHERE a.job NOT IN (SELECT id FROM job UNION ALL SELECT id FROM finished)",
            "attempt a JOIN finished f ON f.id = a.job WHERE a.claim >= f.claims",
            "attempt a JOIN job j ON j.id = a.job WHERE a.claim > j.claims - j.state",
            "job WHERE state = 0 AND next <> due",
            "job WHERE state = 1 AND (claims < 1 OR started IS NULL)",
            "finished WHERE (state = 0) <> (outcome = 0) OR (state = 1) <> (outcome = 1)",
        ):
            assert connection.execute(f"SELECT * FROM {nothing}").fetchall() == [], nothing
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()


class TestFile(OnFile, Writing):
    pass


@pytest.mark.stress
class TestFileReopened(Reopened, OnFile, Writing):
    """On the disk, where `make test` has the other one in memory."""


@pytest.mark.stress
class TestFaultyStoreWithoutFaults(Wakeups, ModelTests):
    def make_store(self, clock):
        return FaultyStore(open("memory:", clock=clock))


class TestStoreWithASpool(InFolder, Named):
    def make_store(self, clock):
        return JobQueue(open("memory:", clock=clock), spool=f"sqlite:///{self.place()}").store


def test_a_suite_that_does_not_say_how_to_make_a_store_is_an_error_at_once():
    with pytest.raises(TypeError, match="TestNothing must define make_store"):
        type("TestNothing", (StoreSuite,), {})
