"""The store on a Redis or Valkey server."""

from .store import RedisStore

__all__ = ["RedisStore"]
