"""Who looks on: listeners to events."""

from .log import log
from .tally import Histogram, Tally

__all__ = ["Histogram", "Tally", "log"]
