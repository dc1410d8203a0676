"""The store in one SQLite file."""

from .adopting import adopt
from .store import SqliteStore

__all__ = ["SqliteStore", "adopt"]
