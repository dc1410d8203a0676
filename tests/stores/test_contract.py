"""Every store keeps the contract, a durable one also when it is reopened after every operation."""

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
        self.url = f"sqlite:///{self.place()}"
        return open(self.url, clock=clock)

    def recount(self):
        """What is kept twice agrees, also where `verify` does not look."""
        super().recount()
        for nothing in (
            "job WHERE state = 0 AND next <> due",
            "finished WHERE (state = 0) <> (outcome = 0) OR (state = 1) <> (outcome = 1)",
        ):
            assert self.store._connection.execute(f"SELECT * FROM {nothing}").fetchall() == [], nothing


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
