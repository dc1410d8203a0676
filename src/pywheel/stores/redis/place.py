"""Addresses of stores on Redis: the parts for pywheel, and those for the client library."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from ..._errors import BadAddress, NotAStore
from ..address import Address, Host, flag, identifier, seconds
from ..server import Outage

_SECONDS: Final = 5.0
_PORT: Final = 6379


def _number(numbers: range, what: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) in numbers):
        raise ValueError(what)
    return int(text)


_database: Final = partial(_number, range(10**9), "the number of a database")
_OURS: Final[dict[str, Callable[[str], Any]]] = {
    "prefix": identifier,
    "stores": partial(_number, range(1, 33), "a number from 1 to 32"),  # ids are exact in Lua then
    "timeout": seconds,
    "db": _database,
    "ssl_check_hostname": flag,
    "ssl_validate_ocsp": flag,
}
_FILES: Final = ("ssl_keyfile", "ssl_certfile", "ssl_ca_certs", "ssl_ca_path")
_DRIVER: Final = (*_FILES, *"client_name ssl_cert_reqs ssl_ca_data ssl_password ssl_min_version ssl_ciphers".split())


class Place(NamedTuple):
    """The address of stores, and the time limit of their server."""

    address: Address
    secure: bool
    prefix: str
    stores: int  # side by side, under this prefix
    timeout: float  # seconds
    options: dict[str, Any]  # for a connection of redis-py, without its class, its limits and the password
    nodes: tuple[Host, ...]  # some nodes of a cluster; () without a cluster
    outage: Outage

    @property
    def server(self) -> str:
        """The server, for messages."""
        return self.address.shown.partition("?")[0]

    def at(self, node: Host) -> Place:
        """Return the same place on one node of a cluster."""
        return self._replace(options={**self.options, "host": node.name, "port": node.port or _PORT})

    def part(self, number: int) -> Place:
        """Return the place of one of several stores, with a prefix that no address can have, and outages of its own."""
        return self._replace(prefix=f"{self.prefix}.{number}", outage=Outage(self.server))


def place(address: Address) -> Place:
    """Return the place at an address. NotAStore if it leads to no store on Redis."""
    known, passed = address.split(_OURS, _DRIVER)
    prefix, timeout = known.pop("prefix", "pywheel"), known.pop("timeout", _SECONDS)
    stores = known.pop("stores", 1)
    given: dict[str, Any] = {**passed, **known}
    if address.user is not None:
        given["username"] = address.user
    nodes = _hosts(address, given)
    for name in _FILES:
        if name in given and not os.access(given[name], os.R_OK):
            raise NotAStore(f"{address.shown}: {name} cannot be read: there is no such file, or no right to it")
    secure = address.scheme.startswith("rediss")
    if secure and given.get("ssl_cert_reqs") != "none":
        given.setdefault("ssl_check_hostname", True)  # the default of redis-py since version 6
    outage = Outage(address.shown.partition("?")[0])
    return Place(address, secure, prefix, stores, timeout, given, nodes, outage)


def _hosts(address: Address, given: dict[str, Any]) -> tuple[Host, ...]:
    """Return the nodes of a cluster; for a single server, note its address in `given`."""
    hosts = tuple(Host(host.name or "localhost", host.port) for host in address.hosts) or (Host("localhost", None),)
    if address.scheme.endswith("+cluster"):
        if address.database not in ("", "0") or given.get("db"):
            raise BadAddress(f"{address.shown}: a cluster has the database 0 alone: leave it out")
        return hosts
    if address.scheme == "redis+unix":
        if address.hosts or not address.path.strip("/"):
            raise BadAddress(f"{address.shown} names no socket: write redis+unix:///path/to/redis.sock?db=0")
        given["path"] = address.path
    else:
        if len(hosts) > 1:
            raise BadAddress(f"{address.shown}: give the address of one server, or write {address.scheme}+cluster://")
        given["host"], given["port"] = hosts[0].name, hosts[0].port or _PORT
        try:
            given |= {"db": _database(address.database)} if address.database else {}
        except ValueError as error:
            raise BadAddress(f"{address.shown}: the part after the / must be {error}, such as 0") from None
    return ()
