"""The store in one SQLite file."""

from .connection import adopt
from .store import SqliteStore

__all__ = ["SqliteStore", "adopt"]
