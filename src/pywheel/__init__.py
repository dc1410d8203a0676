"""Millions of timers in one process: hierarchical timing wheels over integer ticks."""

from ._errors import PywheelError, WheelFull
from .core import KeyWheel, TimingWheel, implementation

__all__ = ["KeyWheel", "PywheelError", "TimingWheel", "WheelFull", "__version__", "implementation"]

__version__ = "0.1.0"
