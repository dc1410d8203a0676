"""What tests of programs and stores on top of pywheel need.

``pytest_plugins = ["pywheel.testing"]`` in a conftest.py gives the fixtures `manual_clock` and `autojump_clock`.
"""

from ..clock import ManualClock
from .faults import FaultyStore
from .fixtures import autojump_clock, manual_clock
from .run_due import run_due
from .suite import StoreSuite

__all__ = ["FaultyStore", "ManualClock", "StoreSuite", "autojump_clock", "manual_clock", "run_due"]
