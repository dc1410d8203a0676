"""The store on PostgreSQL keeps the contract, also when it is opened anew now and then."""

import pytest

from pywheel.stores import open
from pywheel.testing import StoreSuite
from pywheel.testing.suite.histories import ModelTests
from tests.stores.emptied import emptied
from tests.stores.suites import Reopened, Wakeups


class OnPostgres:
    options = ()

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _server(cls, postgres_server):
        cls.server = postgres_server

    def make_store(self, clock):
        self.url = emptied(self.server, **dict(self.options))
        return open(self.url, clock=clock)


class TestPostgres(OnPostgres, StoreSuite):
    pass


class TestPostgresReopened(Reopened, OnPostgres, ModelTests):
    every = 4  # it takes new sessions of the server


class TestPostgresLooking(OnPostgres, Wakeups):
    """With hints in a table, for who cannot listen."""

    options = (("notify", "off"),)
