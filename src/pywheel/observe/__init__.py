"""Listeners to events."""

from .logs import log
from .tally import Histogram, Tally

__all__ = ["Histogram", "Tally", "log"]
