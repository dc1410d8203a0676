"""Where a store on Redis is: what of its address is ours, and what is the client library's."""

from __future__ import annotations

import os
from typing import Any, Final, NamedTuple

from ..._errors import NotAStore
from ..address import Address, Host, flag, identifier, seconds
from ..outage import Outage

__all__ = ["Place", "place"]

_SECONDS: Final = 5.0
_PORT: Final = 6379


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError("the number of a database")
    return int(text)


_OURS: Final = {
    "prefix": identifier,
    "timeout": seconds,
    "db": _number,
    "ssl_check_hostname": flag,
    "ssl_validate_ocsp": flag,
}
_DRIVER: Final = (
    "client_name ssl_keyfile ssl_certfile ssl_cert_reqs ssl_ca_certs ssl_ca_path ssl_ca_data ssl_password "
    "ssl_min_version ssl_ciphers"
).split()
_FILES: Final = ("ssl_keyfile", "ssl_certfile", "ssl_ca_certs", "ssl_ca_path")


class Place(NamedTuple):
    """Where a store is, and how long one waits for its server."""

    address: Address
    secure: bool
    prefix: str
    timeout: float  # seconds
    options: dict[str, Any]  # for a connection of redis-py, but for its class, its limits and the password
    outage: Outage

    @property
    def server(self) -> str:
        """The server, for messages."""
        return self.address.shown.partition("?")[0]


def place(address: Address) -> Place:
    """Take an address apart. NotAStore if it is none of a store on Redis."""
    known, passed = address.split(_OURS, _DRIVER)
    prefix, timeout = known.pop("prefix", "pywheel"), known.pop("timeout", _SECONDS)
    given: dict[str, Any] = {**passed, **known}
    if address.user is not None:
        given["username"] = address.user
    if address.scheme.endswith("+cluster"):
        raise NotAStore(f"{address.shown}: give the address of one server; a store lives on one node of a cluster")
    if address.scheme == "redis+unix":
        if address.hosts or not address.path.strip("/"):
            raise NotAStore(f"{address.shown} leads nowhere: write redis+unix:///path/to/redis.sock?db=0")
        given["path"] = address.path
    else:
        _where(address, given)
    for name in _FILES:
        if name in given and not os.access(given[name], os.R_OK):
            raise NotAStore(f"{address.shown}: {name} cannot be read: there is no such file, or no right to it")
    secure = address.scheme == "rediss"
    if secure and given.get("ssl_cert_reqs") != "none":
        given.setdefault("ssl_check_hostname", True)  # as redis-py has it from 6 on
    return Place(address, secure, prefix, timeout, given, Outage(address.shown.partition("?")[0]))


def _where(address: Address, options: dict[str, Any]) -> None:
    if len(address.hosts) > 1:
        raise NotAStore(f"{address.shown}: give the address of one server")
    host = address.hosts[0] if address.hosts else Host("localhost", None)
    options["host"], options["port"] = host.name or "localhost", host.port or _PORT
    if address.database:
        try:
            options["db"] = _number(address.database)
        except ValueError as error:
            raise NotAStore(f"{address.shown}: what stands after the / is {error}, such as 0") from None
