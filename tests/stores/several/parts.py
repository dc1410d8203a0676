"""Several stores in memory, each of which may be away."""

from pywheel.stores.memory import MemoryStore
from pywheel.stores.several.store import SeveralStore
from pywheel.testing import FaultyStore

__all__ = ["Parts"]


class Part(FaultyStore):
    def nonce(self, nonce, ids=None):
        known = self.inner._nonces.get(nonce)
        if known is None and ids is not None:
            self.inner._nonces[nonce] = self.clock.wall(), list(ids)
        return known and known[1]


class Parts(SeveralStore):
    """One presence, and hints of the first store alone."""

    url = "parts:"

    def __init__(self, number, clock):
        super().__init__([Part(MemoryStore(clock=clock)) for _ in range(number)])

    def notifier(self, name):
        return self.stores[0].notifier(name)
