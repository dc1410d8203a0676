"""The store in the memory of one process."""

from .store import MemoryStore

__all__ = ["MemoryStore"]
