"""The store on Redis keeps the contract, also when it is opened anew after every operation."""

from collections import defaultdict

import pytest

from pywheel.stores import open
from pywheel.testing import StoreSuite
from tests.stores.on_redis.keys import faults


def by_store(store, ids):
    """Return ids in groups, one for each of several stores."""
    groups = defaultdict(list)
    for id in ids:
        groups[store.ids.store(id)].append(id)
    return list(groups.values())


class TestRedis(StoreSuite):
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
        super().recount()
        for server in self.servers():
            assert faults(self.client, server.place.prefix) == []

    def servers(self):
        return [self.store.server]

    def teardown_method(self):
        if not self.servers()[0].over:
            self.recount()
        super().teardown_method()


class TestRedisReopened(TestRedis):
    def reopen(self):
        self.store.close()
        self.store = open(self.url, clock=self.clock)


class TestFourStores(TestRedis):
    def make_store(self, clock):
        self.url = self.server.url(stores=4)
        return open(self.url, clock=clock)

    def together(self, ids):
        return by_store(self.store, ids)

    def servers(self):
        return [store.server for store in self.store.stores]


class TestFourStoresReopened(TestFourStores):
    def reopen(self):
        self.store.close()
        self.store = open(self.url, clock=self.clock)
