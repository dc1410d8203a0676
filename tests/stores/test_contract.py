"""Every store keeps the contract, a durable one also when it is reopened after every operation."""

from pywheel.stores import open
from pywheel.testing import FaultyStore, StoreSuite


class TestMemory(StoreSuite):
    def make_store(self, clock):
        return open("memory:", clock=clock)


class _InFile(StoreSuite):
    url = None

    def make_store(self, clock):
        return open(self.url, clock=clock)


class TestSqlite(_InFile):
    def setup_method(self, method):
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{self.folder.name}/jobs.db"
        super().setup_method()

    def teardown_method(self, method):
        super().teardown_method()
        self.folder.cleanup()


class TestSqliteReopened(TestSqlite):
    def reopen(self):
        if not self.store._notifier.running():  # a listener belongs to one opening
            self.store.close()
            self.store = self.make_store(self.clock)


class TestFaultyStoreWithoutFaults(StoreSuite):
    def make_store(self, clock):
        return FaultyStore(open("memory:", clock=clock))
