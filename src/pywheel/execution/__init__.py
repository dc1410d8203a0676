"""The one way to run a handler: for a worker's executors, for the process of an isolated handler, for tests."""

from .execute import Ended, Execution, end_child, event_of, settlement
from .ticks import admit, is_tick

__all__ = ["Ended", "Execution", "admit", "end_child", "event_of", "is_tick", "settlement"]
