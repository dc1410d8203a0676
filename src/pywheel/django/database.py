"""The address of the store from Django's settings: the one that they name, or that of one of their databases.

``PYWHEEL_STORE`` is an address. Without it the jobs are in the database ``PYWHEEL_DATABASE``, by default ``default``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.conf import settings
from django.db import connections

from .._errors import BadOption
from ..stores.open import open as open_store
from ..stores.sqlite import adopt

_OWN: Final = frozenset(
    "assume_role charset init_command isolation_level pool server_side_binding sql_mode timeout transaction_mode "
    "use_unicode autocommit".split()
)
"""Options that concern only Django's own connections."""
_SSL: Final = {"ca": "ssl_ca", "cert": "ssl_cert", "key": "ssl_key"}
_INSTEAD: Final = "set PYWHEEL_STORE, say to 'sqlite:////var/lib/jobs.db'"


def store_url() -> str:
    """Return the address of the store, with its password. BadOption if the database cannot hold jobs."""
    if (url := getattr(settings, "PYWHEEL_STORE", None)) is not None:
        return str(url)
    alias = database_alias() or ""
    database = connections[alias].settings_dict
    vendor = connections[alias].vendor
    if vendor == "sqlite":
        return f"sqlite:///{quote(os.fsencode(_path(alias, database)))}"
    if vendor in ("postgresql", "mysql"):
        return _server_url(vendor, database)
    raise BadOption(f"jobs cannot be in the database {alias!r}, which is {vendor}: {_INSTEAD}")


def database_alias() -> str | None:
    """Return the alias of Django's database with the jobs; None if the store is elsewhere."""
    if getattr(settings, "PYWHEEL_STORE", None) is not None:
        return None
    return str(getattr(settings, "PYWHEEL_DATABASE", "default"))


def made(alias: str) -> None:
    """Make or upgrade the jobs' tables in a database. A database that cannot hold jobs is left as it is.

    Raises:
        StoreError: the tables cannot be made, such as in an SQLite database that has other tables of these names.
    """
    database, vendor = connections[alias].settings_dict, connections[alias].vendor
    if vendor == "sqlite" and not _in_memory(database):
        adopt(_path(alias, database))
    elif vendor not in ("postgresql", "mysql"):
        return
    open_store(store_url()).close()


def _in_memory(database: Mapping[str, Any]) -> bool:
    name = str(database["NAME"])
    return name == ":memory:" or name.startswith("file:")


def _path(alias: str, database: Mapping[str, Any]) -> str:
    if _in_memory(database):
        raise BadOption(
            f"jobs cannot be in the database {alias!r}, which is in memory: {_INSTEAD}, or use queue_tester"
        )
    return str(Path(database["NAME"]).absolute())


def _server_url(vendor: str, database: Mapping[str, Any]) -> str:
    options = {name: value for name, value in database.get("OPTIONS", {}).items() if name not in _OWN}
    ssl = options.pop("ssl", None) or {}
    if not isinstance(ssl, Mapping):
        raise BadOption(
            f"the database's option `ssl` must be a dict, as {{'ca': path}}, not {ssl!r:.60}; or {_INSTEAD}"
        )
    options |= {_SSL.get(name, name): value for name, value in ssl.items()}
    user, password, host = (str(database.get(name) or "") for name in ("USER", "PASSWORD", "HOST"))
    port = str(database.get("PORT") or "")
    if host.startswith("/"):  # a socket, or its folder
        options["unix_socket" if vendor == "mysql" else "host"] = host
        host = ""
        if port and vendor == "postgresql":
            options["port"] = port
        port = ""
    credentials = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    hosts = _hosts(host.split(","), port.split(","))
    place = f"{credentials}@{hosts}" if credentials else hosts
    query = urlencode({name: str(value) for name, value in options.items()}, quote_via=quote)
    name = quote(str(database.get("NAME") or ""), safe="")
    return f"{vendor}://{place}/{name}{'?' + query if query else ''}"


def _hosts(hosts: Sequence[str], ports: Sequence[str]) -> str:
    """Return hosts with their ports. PostgreSQL may have several of both, or several hosts with one port."""
    if len(ports) == 1:
        ports = [*ports] * len(hosts)
    if len(ports) != len(hosts):
        raise BadOption(f"the database has {len(hosts)} hosts and {len(ports)} ports")
    hosts = [f"[{host}]" if ":" in host else host for host in hosts]
    return ",".join(f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=True))
