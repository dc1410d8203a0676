"""How a handler is run, whoever runs it: a worker's executors, the process of an isolated handler, or a test."""

from .execute import Ended, Execution, end_child, settlement
from .ticks import admit, is_tick

__all__ = ["Ended", "Execution", "admit", "end_child", "is_tick", "settlement"]
