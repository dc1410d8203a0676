"""From an address to a store."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from .._errors import NotAStore
from ..clock import Clock
from .contract import Store

__all__ = ["open", "working_directory"]

_RIGHT: Final = "use sqlite:///jobs.db, sqlite:////var/lib/jobs.db or memory:"


def open(url: str, *, clock: Clock | None = None, create: bool = True) -> Store:
    """Open the store at an address: ``sqlite:///relative.db``, ``sqlite:////absolute/path.db`` or ``memory:``.

    In a path ``%``, ``#`` and ``?`` are written ``%25``, ``%23`` and ``%3F``; a store's `url` has them so. A file that
    does not exist is created, unless `create` is False; one of an older version is upgraded. NotAStore for other
    addresses and for files that hold something else; StoreError for files that cannot be used.
    """
    if not isinstance(url, str):
        raise NotAStore(f"the address of a store is a str such as 'sqlite:///jobs.db', not {type(url).__name__}")
    scheme, _, rest = url.partition(":")
    _refuse_options(url, rest)
    match scheme.lower():
        case "memory":
            from .memory import MemoryStore

            return MemoryStore(url, clock=clock)
        case "sqlite":
            from .sqlite.store import SqliteStore

            path = _path(url, rest)
            if not os.path.isabs(path):  # noqa: PTH117  (text)
                working_directory()
            if not create:
                _refuse_missing(path)
            return SqliteStore(path, clock=clock, create=create)
    raise NotAStore(f"{url!r} is no address of a store: {_RIGHT}")


def working_directory() -> str:
    """Return where relative addresses begin. NotAStore if that was deleted."""
    try:
        return os.getcwd()  # noqa: PTH109  (text)
    except FileNotFoundError:
        raise NotAStore("the working directory was deleted: change into another, or give an absolute path") from None


def _refuse_missing(path: str) -> None:
    """Raise NotAStore if there is no file; what else keeps it from being opened says who opens it."""
    try:
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        raise NotAStore(f"there is no store at {path}: put a job first, or give the right address") from None
    except OSError:
        pass


def _refuse_options(url: str, rest: str) -> None:
    """Refuse what follows a ? or #: no store knows any, and a name with them in it would be cut off."""
    before, mark, after = rest.partition("?")
    if "#" in before:
        raise NotAStore(f"{url!r}: in an address a # is written %23")
    if mark:
        names = ", ".join(repr(option.partition("=")[0]) for option in after.split("&"))
        raise NotAStore(f"{url!r}: there is no option {names}; if the ? is part of a file's name, write %3F")


def _path(url: str, rest: str) -> str:
    """Return the path in an address of SQLite, without its ``sqlite:``."""
    slashes = len(rest) - len(rest.lstrip("/"))
    try:
        path = os.fsdecode(unquote_to_bytes(os.fsencode(rest[3:])))
    except UnicodeError:
        raise NotAStore(f"{url!r} is no address of a store: no file can have this name") from None
    if slashes < 3 and rest.strip("/"):
        right = quote(rest.lstrip("/"), safe="/%") if slashes != 1 else quote(rest, safe="/%")
        raise NotAStore(f"{url!r} is no address of a store: did you mean 'sqlite:///{right}'?")
    if not path or "\0" in path:
        raise NotAStore(f"{url!r} is no address of a store: {_RIGHT}")
    return path
