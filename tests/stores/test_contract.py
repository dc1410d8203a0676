"""Every store keeps the contract, a durable one also when it is reopened after every operation."""

import sqlite3
import tempfile

import pytest

from pywheel import JobQueue
from pywheel.stores import open
from pywheel.testing import FaultyStore, StoreSuite


class TestMemory(StoreSuite):
    def make_store(self, clock):
        return open("memory:", clock=clock)


class TestSqlite(StoreSuite):
    def setup_method(self, method):
        self.folder = tempfile.TemporaryDirectory()
        self.made = 0
        super().setup_method()

    def teardown_method(self, method):
        super().teardown_method()
        self.folder.cleanup()

    def make_store(self, clock):
        self.made += 1
        self.path = f"{self.folder.name}/{self.made}.db"
        return open(f"sqlite:///{self.path}", clock=clock)

    def recount(self):
        """What the topics' rows count, with the tail, is what is there; no row is without its job."""
        super().recount()
        connection = sqlite3.connect(self.path)
        kept = connection.execute("SELECT id, live, done, cancelled, dead FROM topic ORDER BY id").fetchall()
        [[counted]] = connection.execute("SELECT job FROM counted")
        found = connection.execute(
            "SELECT t.id, count(j.id) FILTER (WHERE j.state IS NULL AND j.id <= ?),"
            " count(*) FILTER (WHERE j.state = 0), count(*) FILTER (WHERE j.state = 1),"
            " count(*) FILTER (WHERE j.state = 2)"
            " FROM topic t LEFT JOIN job j ON j.topic = t.id GROUP BY t.id ORDER BY t.id",
            (counted,),
        ).fetchall()
        assert kept == found
        assert connection.execute(
            "SELECT count(*) FROM job WHERE id > ? AND state IS NOT NULL", (counted,)
        ).fetchone() == (0,)
        assert connection.execute(
            "SELECT count(*) FROM history h WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.id = h.job AND j.topic <> 0)"
        ).fetchone() == (0,)
        assert connection.execute(
            "SELECT count(*) FROM run r WHERE NOT EXISTS"
            " (SELECT 1 FROM job j WHERE j.id = r.job AND j.topic = r.topic AND j.state IS NULL)"
        ).fetchone() == (0,)
        assert connection.execute(
            "SELECT count(*) FROM job j WHERE state IN (0, 1) AND 1 <>"
            " (SELECT count(*) FROM history h WHERE h.job = j.id AND h.topic = j.topic AND h.outcome = j.state)"
        ).fetchone() == (0,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()


class TestSqliteReopened(TestSqlite):
    def reopen(self):
        self.store.close()
        self.store = open(f"sqlite:///{self.path}", clock=self.clock)


class TestFaultyStoreWithoutFaults(StoreSuite):
    def make_store(self, clock):
        return FaultyStore(open("memory:", clock=clock))


class TestStoreWithASpool(StoreSuite):
    def setup_method(self, method):
        self.folder = tempfile.TemporaryDirectory()
        self.made = 0
        super().setup_method()

    def teardown_method(self, method):
        super().teardown_method()
        self.folder.cleanup()

    def make_store(self, clock):
        self.made += 1
        return JobQueue(open("memory:", clock=clock), spool=f"sqlite:///{self.folder.name}/{self.made}.db").store


def test_a_suite_that_does_not_say_how_to_make_a_store_is_an_error_at_once():
    with pytest.raises(TypeError, match="TestNothing must define make_store"):
        type("TestNothing", (StoreSuite,), {})
