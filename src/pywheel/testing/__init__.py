"""What tests of programs and stores on top of pywheel need."""

from .clock import SettableClock

__all__ = ["SettableClock"]
