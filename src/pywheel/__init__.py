"""Millions of timers in one process: hierarchical timing wheels over integer ticks."""

from ._errors import (
    BadBody,
    BadJob,
    JobExists,
    NoSuchJob,
    NotAStore,
    PywheelError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    WheelFull,
)
from .core import KeyWheel, TimingWheel, implementation

__all__ = [
    "BadBody",
    "BadJob",
    "JobExists",
    "KeyWheel",
    "NoSuchJob",
    "NotAStore",
    "PywheelError",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreTooNew",
    "TimingWheel",
    "WheelFull",
    "__version__",
    "implementation",
]

__version__ = "0.1.0"
