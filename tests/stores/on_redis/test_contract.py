"""The store on Redis keeps the contract, also when it is opened anew after every operation."""

from collections import defaultdict

import pytest

from pywheel.stores import open
from pywheel.testing import StoreSuite
from pywheel.testing.suite.histories import ModelTests
from tests.stores.on_redis.keys import faults
from tests.stores.suites import Reopened, Wakeups


def by_store(store, ids):
    """Return ids in groups, one for each of several stores."""
    groups = defaultdict(list)
    for id in ids:
        groups[store.ids.store(id)].append(id)
    return list(groups.values())


class OnRedis:
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _server(cls, redis_server):
        cls.server = redis_server
        cls.client = redis_server.connect()
        yield
        cls.client.close()

    def make_store(self, clock):
        self.url = self.server.url()
        return open(self.url, clock=clock)

    def recount(self):
        """Each job is in exactly one place, and no key is left over."""
        assert self.store.verify() == []
        for server in self.servers():
            assert faults(self.client, server.place.prefix) == []

    def servers(self):
        return [self.store.server]

    def teardown_method(self):
        if not self.servers()[0].over:
            self.recount()
        super().teardown_method()


class TestRedis(OnRedis, StoreSuite):
    pass


class TestRedisReopened(Reopened, OnRedis, ModelTests):
    pass


class FourStores(OnRedis):
    def make_store(self, clock):
        self.url = self.server.url(stores=4)
        return open(self.url, clock=clock)

    def together(self, ids):
        return by_store(self.store, ids)

    def servers(self):
        return [store.server for store in self.store.stores]


class TestFourStores(FourStores, Wakeups):
    """All else is shown by those of a cluster."""


class TestFourStoresReopened(Reopened, FourStores, ModelTests):
    pass
