"""Opening stores by their addresses."""

from __future__ import annotations

import os
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from .._errors import BadAddress, NotAStore
from ..clock import Clock
from ..jobs.checks import needed
from .address import Address, hidden, refuse_control_characters
from .contract import Store

_RIGHT: Final = (
    "use sqlite:///jobs.db, sqlite:////var/lib/jobs.db, postgresql://user@host/name, mysql://user@host/name, "
    "redis://host/0 or memory:"
)
GROUP: Final = "pywheel.stores"
"""The entry-point group of other packages' stores: the scheme, and a callable as `open` calls it."""


_SERVERS: Final = {
    **dict.fromkeys(("postgresql", "postgres"), (".postgres.store", "PostgresStore", "psycopg", "postgres")),
    **dict.fromkeys(("mysql", "mariadb"), (".mysql.store", "MysqlStore", "pymysql", "mysql")),
    **dict.fromkeys(
        ("redis", "rediss", "redis+unix", "redis+cluster", "rediss+cluster"),
        (".redis.store", "open_redis", "redis", "redis"),
    ),
}
"""The openers of stores on servers, by scheme: module and name, called with an `Address`; the driver, and its extra."""


def open(url: str, *, clock: Clock | None = None, create: bool = True) -> Store:
    """Open the store at an address.

    ``sqlite:///relative.db``, ``sqlite:////absolute/path.db`` and ``memory:``; ``postgresql://user@host/name``,
    ``mysql://user@host/name``, ``redis://host/0`` and ``redis+cluster://host`` with options after a ``?``; and schemes
    that other packages have registered in the entry-point group ``pywheel.stores``: a callable
    ``(address, *, clock, create)`` under the scheme's name, which gets an `Address`.

    In a path ``%``, ``#`` and ``?`` are written ``%25``, ``%23`` and ``%3F``; a store's `url` has them so, and no
    password. A missing store is created, unless `create` is False; a store of an older version is upgraded. NotAStore
    for other addresses, and for files and databases that hold something else; StoreError for stores that cannot be
    used; ExtraMissing if a server's driver is not installed.
    """
    if not isinstance(url, str):
        raise BadAddress(f"the address of a store is a str such as 'sqlite:///jobs.db', not {type(url).__name__}")
    scheme, _, rest = url.partition(":")
    scheme = scheme.lower()
    if scheme == "memory":
        from .memory import MemoryStore

        _refuse_options(url, rest)
        return MemoryStore(url, clock=clock)
    if scheme == "sqlite":
        from .sqlite.store import SqliteStore

        _refuse_options(url, rest)
        path = _path(url, rest)
        if not os.path.isabs(path):  # noqa: PTH117  (text)
            working_directory()
        if not create:
            _refuse_missing(path)
        return SqliteStore(path, clock=clock, create=create)
    opener = _opener_on_server(scheme) if scheme in _SERVERS else _opener_of_others(url, scheme)
    store: Store = opener(Address(url), clock=clock, create=create)
    return store


def migration(url: str) -> str | None:
    """Return the statements that make the tables of a server's store, or bring them up to date; "" if none are needed.

    None for stores of other kinds, which need no such step. NotAStore, StoreError, ExtraMissing.
    """
    scheme = url.partition(":")[0].lower()
    opener = _opener_on_server(scheme) if scheme in _SERVERS else None
    statements: Any = getattr(opener, "migration", None)
    return None if statements is None else str(statements(Address(url)))


def _opener_on_server(scheme: str) -> Any:
    """Return the opener of a server's store. ExtraMissing if its driver is not installed."""
    module, name, driver, extra = _SERVERS[scheme]
    needed(driver, extra)
    return getattr(import_module(module, __package__), name)


def _opener_of_others(url: str, scheme: str) -> Any:
    """Return the opener that another package has registered for a scheme. NotAStore if it cannot be imported."""
    from importlib.metadata import entry_points  # it takes long to load

    others = entry_points(group=GROUP)
    for other in others:
        if other.name == scheme:
            try:
                return other.load()
            except Exception as error:
                place = f"{other.dist.name if other.dist else ''} ({other.value})"
                raise NotAStore(f"the store for {scheme}: of {place} cannot be imported: {error}") from error
    installed = sorted(others.names)
    close = get_close_matches(scheme.partition("+")[0], ["sqlite", "memory", *_SERVERS, *installed], 1)
    right = _RIGHT + (f"; installed are {', '.join(installed)}" if installed else "")
    meant = f"did you mean {close[0]}:?" if close else right
    raise BadAddress(f"{hidden(url)!r} is not an address of a store: {meant}")


def working_directory() -> str:
    """Return the directory where relative addresses begin. NotAStore if it was deleted."""
    try:
        return os.getcwd()  # noqa: PTH109  (text)
    except FileNotFoundError:
        raise NotAStore("the working directory was deleted: change into another, or give an absolute path") from None


def _refuse_missing(path: str) -> None:
    """Raise NotAStore if there is no file. Opening it reports all other problems."""
    try:
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        raise NotAStore(f"there is no store at {path}: put a job first, or give the right address") from None
    except OSError:
        pass


def _refuse_options(url: str, rest: str) -> None:
    """Refuse options after a ? or #: these stores have none, and a name with them in it would be cut off."""
    refuse_control_characters(url)
    before, mark, after = rest.partition("?")
    if "#" in before:
        raise BadAddress(f"{hidden(url)!r}: in an address write # as %23")
    if mark:
        names = ", ".join(repr(option.partition("=")[0]) for option in after.split("&"))
        raise BadAddress(f"{hidden(url)!r}: there is no option {names}; if the ? is part of a file's name, write %3F")


def _path(url: str, rest: str) -> str:
    """Return the path in an address of SQLite, without its ``sqlite:``."""
    slashes = len(rest) - len(rest.lstrip("/"))
    try:
        path = os.fsdecode(unquote_to_bytes(os.fsencode(rest[3:])))
    except UnicodeError:
        raise BadAddress(f"{url!r} is not an address of a store: no file can have this name") from None
    if slashes < 3 and rest.strip("/"):
        right = quote(rest.lstrip("/"), safe="/%") if slashes != 1 else quote(rest, safe="/%")
        raise BadAddress(f"{url!r} is not an address of a store: did you mean 'sqlite:///{right}'?")
    if path == ":memory:":
        raise BadAddress(f"{url!r} is not an address of a store: did you mean memory:?")
    if not path or "\0" in path:
        raise BadAddress(f"{url!r} is not an address of a store: {_RIGHT}")
    return path
