"""The store contract as tests, for any store, named after what they show.

With pytest:

class TestMyStore(StoreSuite):
    def make_store(self, clock):
        return MyStore(..., clock=clock)  # empty, and judging time by this clock
"""

from __future__ import annotations

from .claims import ClaimTests
from .jobs import JobTests
from .views import ViewTests

__all__ = ["StoreSuite"]


class StoreSuite(JobTests, ClaimTests, ViewTests):
    """Each test gets a new, empty store and a clock that stands still."""
