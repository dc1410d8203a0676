"""The store on Redis keeps the contract, also when it is opened anew after every operation."""

import pytest

from pywheel.stores import open
from pywheel.testing import StoreSuite


class TestRedis(StoreSuite):
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _server(cls, redis_server):
        cls.server = redis_server

    def make_store(self, clock):
        self.url = self.server.url()
        return open(self.url, clock=clock)


class TestRedisReopened(TestRedis):
    def reopen(self):
        self.store.close()
        self.store = open(self.url, clock=self.clock)
