"""Several stores in memory, each of which may be away."""

import json

from pywheel.stores.memory import MemoryStore
from pywheel.stores.partitions import SeveralStore
from pywheel.testing import FaultyStore

__all__ = ["Parts"]


class Part(FaultyStore):
    def nonce(self, nonce, ids=None):
        with self.inner._lock:
            connection = self.inner._connection
            known = connection.execute("SELECT ids FROM nonce WHERE nonce = ?", (nonce,)).fetchone()
            if known is None and ids is not None:
                row = (nonce, self.clock.wall(), json.dumps(ids))
                connection.execute("INSERT INTO nonce (nonce, at, ids) VALUES (?, ?, ?)", row)
        return known and json.loads(known[0])

    def forget(self, nonce):
        with self.inner._lock:
            self.inner._connection.execute("DELETE FROM nonce WHERE nonce = ?", (nonce,))


class Parts(SeveralStore):
    """One presence, and hints of the first store alone."""

    url = "parts:"

    def __init__(self, number, clock):
        super().__init__([Part(MemoryStore(clock=clock)) for _ in range(number)])

    def notifier(self, name):
        return self.stores[0].notifier(name)
