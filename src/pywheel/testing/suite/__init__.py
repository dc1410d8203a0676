"""The store contract as tests, for any store. Each test's name says what it shows.

With pytest:

class TestMyStore(StoreSuite):
    def make_store(self, clock):
        return MyStore(..., clock=clock)  # empty, and using this clock
"""

from __future__ import annotations

from typing import Any

from .arguments import ArgumentTests
from .claims import ClaimTests
from .edits import EditTests, RewriteTests
from .histories import ModelTests
from .imports import ImportTests
from .jobs import JobTests
from .keys import DedupeTests, KeyTests, OnceTests
from .leases import HeldTests, LeaseTests
from .limits import LimitTests, PriorityTests
from .notes import ExpectTests, NoteTests
from .pages import PageTests
from .results import ResultTests
from .schedules import ScheduleTests
from .views import ReadingTests, ViewTests
from .workers import WorkerTests

__all__ = ["StoreSuite"]


class StoreSuite(
    JobTests,
    OnceTests,
    NoteTests,
    ExpectTests,
    KeyTests,
    RewriteTests,
    EditTests,
    ResultTests,
    DedupeTests,
    ClaimTests,
    HeldTests,
    LeaseTests,
    PriorityTests,
    LimitTests,
    ImportTests,
    ViewTests,
    PageTests,
    ReadingTests,
    WorkerTests,
    ScheduleTests,
    ArgumentTests,
    ModelTests,
):
    """Each test gets a new, empty store and a clock that stands still.

    TypeError: a subclass does not define `make_store`. pytest would collect nothing of it, silently.
    """

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if getattr(cls.make_store, "__isabstractmethod__", False):
            raise TypeError(f"{cls.__name__} must define make_store(self, clock): without it nothing would be tested")
