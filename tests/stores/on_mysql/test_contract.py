"""The store on MySQL keeps the contract, also when it is opened anew now and then."""

import pytest

from pywheel.stores import open
from pywheel.testing import StoreSuite
from pywheel.testing.suite.histories import ModelTests
from tests.stores.emptied import emptied
from tests.stores.suites import Reopened, Wakeups


class OnMysql:
    options = ()

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _server(cls, mariadb_server):
        cls.server = mariadb_server

    def make_store(self, clock):
        self.url = emptied(self.server, **dict(self.options))
        return open(self.url, clock=clock)


class TestMysql(OnMysql, StoreSuite):
    pass


class TestMysqlReopened(Reopened, OnMysql, ModelTests):
    every = 4  # it takes new sessions of the server


class TestMysqlPolled(OnMysql, Wakeups):
    options = (("notify", "off"),)
