"""The address of a store on Redis: what of it is ours, what is the client library's, and what may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from ..._errors import NotAStore

__all__ = ["SCHEMES", "Address", "parse"]

SCHEMES: Final = ("redis", "rediss", "redis+unix")
PREFIX: Final = "pywheel"
TIMEOUT: Final = 5.0
_RIGHT: Final = "use redis://host:6379/0, rediss://host:6379/0 or redis+unix:///path/to/redis.sock?db=0"
_OPTIONS: Final = frozenset(
    """db username password client_name prefix timeout ssl_keyfile ssl_certfile ssl_cert_reqs ssl_ca_certs ssl_ca_path
    ssl_ca_data ssl_password ssl_check_hostname ssl_min_version ssl_ciphers ssl_validate_ocsp""".split()
)
_SECRET: Final = ("password", "ssl_password")


class Address(NamedTuple):
    """Where a store is."""

    shown: str  # without passwords: opening it again leads here, if none is needed
    server: str  # the same without options, for messages
    options: Mapping[str, Any]  # for a connection of redis-py, but for its class
    secure: bool
    path: str | None  # of a Unix socket
    prefix: str
    timeout: float  # seconds of any wait for the server


def parse(url: str) -> Address:
    """Take an address apart. NotAStore if it is none; the message holds no password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise NotAStore(f"this is no address of a store on Redis: {_RIGHT}") from None
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    scheme = parts.scheme.lower()
    host = parts.netloc.rpartition("@")[2]
    where = f"{scheme}://{host}{parts.path}"
    for name in given:
        if name not in _OPTIONS:
            raise NotAStore(f"{where}: there is no option {name!r}")
    if parts.fragment:
        raise NotAStore(f"{where}: in an address a # is written %23")
    username, colon, password = parts.netloc.rpartition("@")[0].partition(":")
    options: dict[str, Any] = {
        name: _value(where, name, text) for name, text in given.items() if name not in ("prefix", "timeout")
    }
    if username:
        options["username"] = unquote(username)
    if colon:
        options["password"] = unquote(password)
    if scheme == "redis+unix":
        if parts.hostname or not parts.path.strip("/"):
            raise NotAStore(f"{where} is no address of a store: {_RIGHT}")
        options["path"] = unquote(parts.path)
    else:
        options["host"], options["port"] = parts.hostname or "localhost", port or 6379
        if parts.path.strip("/"):
            options["db"] = _number(where, "db", parts.path.strip("/"))
    if scheme == "rediss" and given.get("ssl_cert_reqs") != "none":
        options.setdefault("ssl_check_hostname", True)  # as redis-py has it from 6 on
    prefix = given.get("prefix", PREFIX)
    if not prefix or set(prefix) & set("{}"):
        raise NotAStore(f"{where}: prefix is text without braces, not {prefix!r:.40}")
    timeout = _seconds(where, given.get("timeout", str(TIMEOUT)))
    user = f"{quote(unquote(username))}@" if username else ""
    rest = urlencode({name: text for name, text in given.items() if name not in _SECRET})
    shown = urlunsplit((scheme, user + host, parts.path, rest, ""))
    if scheme == "redis+unix" and not user:
        shown = shown.replace("redis+unix:/", "redis+unix:///", 1) if "://" not in shown else shown
    return Address(shown, where, options, scheme == "rediss", options.get("path"), prefix, timeout)


def _value(where: str, name: str, text: str) -> Any:
    if name == "db":
        return _number(where, name, text)
    if name in ("ssl_check_hostname", "ssl_validate_ocsp"):
        return text.lower() in ("1", "true", "yes", "on")
    return text


def _number(where: str, name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise NotAStore(f"{where}: {name} is a number, not {text!r:.40}")
    return int(text)


def _seconds(where: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.05 <= seconds <= 3600:
        raise NotAStore(f"{where}: timeout is a number of seconds from 0.05 to 3600, not {text!r:.40}")
    return seconds
