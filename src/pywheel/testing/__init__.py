"""What tests of programs and stores on top of pywheel need."""

from .clock import SettableClock
from .faults import FaultyStore
from .suite import StoreSuite

__all__ = ["FaultyStore", "SettableClock", "StoreSuite"]
