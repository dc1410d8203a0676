"""The store on PostgreSQL."""

from .store import PostgresStore

__all__ = ["PostgresStore"]
