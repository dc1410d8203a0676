"""Tools for tests of programs and stores on top of pywheel.

pytest finds the fixtures `manual_clock`, `autojump_clock`, `job_queue` and `queue_tester` by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .._later import later
from ..clock import ManualClock
from .fixtures import autojump_clock, job_queue, manual_clock, queue_tester

if TYPE_CHECKING:
    from .due import Failure, run_due
    from .faults import FaultyStore
    from .suite import StoreSuite
    from .tester import QueueTester

__all__ = [
    "Failure",
    "FaultyStore",
    "ManualClock",
    "QueueTester",
    "StoreSuite",
    "autojump_clock",
    "job_queue",
    "manual_clock",
    "queue_tester",
    "run_due",
]

# pytest imports this package for its fixtures, also for tests that use none of them.
_LATER: Final = {
    "Failure": ".due",
    "FaultyStore": ".faults",
    "QueueTester": ".tester",
    "StoreSuite": ".suite",
    "run_due": ".due",
}
__getattr__ = later(globals(), _LATER)
