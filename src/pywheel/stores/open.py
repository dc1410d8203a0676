"""From an address to a store."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from .._errors import NotAStore
from ..clock import Clock
from .contract import Store

__all__ = ["open"]


def open(url: str, *, clock: Clock | None = None, create: bool = True) -> Store:
    """Open the store at an address: ``sqlite:///relative.db``, ``sqlite:////absolute/path.db`` or ``memory:``.

    A file that does not exist is created, unless `create` is False; one of an older version is upgraded. NotAStore for
    other addresses and for files that hold something else; StoreError for files that cannot be used.
    """
    if not isinstance(url, str):
        raise NotAStore(f"the address of a store is a str such as 'sqlite:///jobs.db', not {type(url).__name__}")
    parts = urlsplit(url)
    if parts.scheme == "memory":
        from .memory import MemoryStore

        return MemoryStore(url, clock=clock)
    if parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
        from .sqlite.store import SqliteStore

        path = unquote(parts.path[1:])
        if not create and not Path(path).exists():
            raise NotAStore(f"there is no store at {path}: put a job first, or give the right address")
        return SqliteStore(path, clock=clock)
    raise NotAStore(f"{url!r} is no address of a store: use sqlite:///jobs.db, sqlite:////var/lib/jobs.db or memory:")
