"""Where a delivery may go: not to the host itself, not into its networks, not to a cloud's metadata.

An outlet with a place of its own delivers to no other, unless its configuration allows it.

An address is judged when the socket to it is made, by whatever lookup it came. So the judged address is the connected
one, even if its name leads elsewhere a moment later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, TypeGuard
from urllib.parse import SplitResult, unquote, urlsplit

from .._errors import BadJob, BadOption, PywheelError
from ..jobs.address import checked_to
from ..jobs.checks import whole
from .contract import texts

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# A list of our own: Python's idea of global addresses has changed between versions, and missed some of these.
_INNER_V4: Final = tuple(
    map(
        IPv4Network,
        """
        0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
        192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24
        203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 168.63.129.16/32
        """.split(),
    )
)
"""This network, private, carriers' NAT, loopback, link-local with the metadata of clouds, protocols, documentation,
anycast relays, benchmarks, multicast, reserved, and an address by which one cloud serves its own machines."""
_OUTER_V6: Final = IPv6Network("2000::/3")
"""The allocated range. Loopback, link-local, unique local, mapped, NAT64 and multicast addresses are outside."""
_INNER_V6: Final = tuple(map(IPv6Network, "2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20".split()))
"""Protocols and Teredo, documentation, 6to4 (an IPv4 address in disguise), anycast, documentation."""
_INNER_NAMES: Final = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "localdomain", "corp")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_WEB_PORTS: Final = (80, 443)


class AddressRefused(OSError):
    """A refused address. `mend` is the option that would let an outlet deliver there, if there is one."""

    def __init__(self, message: str, mend: str = "") -> None:
        # one argument, so that OSError makes no errno of it
        super().__init__(f"{message}; if jobs may go there, add {mend} to the outlet" if mend else message)
        self.mend = mend


class AddressPolicy:
    """The rule for where deliveries may go.

    Args:
        allow: networks (``10.1.0.0/16``), addresses and names (``hooks.internal``) that are allowed all the same.
        ports: the allowed ports; none for any.

    Raises:
        BadOption: an argument makes no sense.
    """

    def __init__(self, allow: Iterable[str] = (), ports: Iterable[int] | None = _WEB_PORTS) -> None:
        self._networks: list[Network] = []
        self._names: set[str] = set()
        for entry in texts(allow, "allow"):
            self._allow(entry)
        if not isinstance(ports, Iterable | None):
            raise BadOption(f"ports must be a list of numbers, not {ports!r:.40}")
        self._ports = frozenset(whole(port, "a port", 65_535, error=BadOption) for port in ports or ())

    def _allow(self, entry: str) -> None:
        try:
            self._networks.append(ip_network(entry))
        except ValueError as error:
            if "/" in entry or ":" in entry or _plain(entry).replace(".", "").isdigit():
                raise BadOption(f"allow: {entry[:60]!r} is not a network: {error}") from None
            self._names.add(_plain(entry))

    def allows_name(self, host: str) -> bool:
        """Whether a name may lead to any address."""
        return _plain(host) in self._names

    def check_url(self, host: str, port: int) -> None:
        """Check the host and port in a URL, before any lookup. AddressRefused says why not."""
        if self._ports and port not in self._ports:
            ports = ", ".join(map(str, sorted(self._ports)))
            raise AddressRefused(f"port {port} is not one of {ports}", f"ports = [{ports}, {port}]")
        literal = _literal(host)
        if literal is not None:
            self.check(literal)
        elif not self.allows_name(host):
            plain = _plain(host)
            if "." not in plain or any(plain == name or plain.endswith(f".{name}") for name in _INNER_NAMES):
                named = f"{host[:80]!r}"
                raise AddressRefused(f"{named} is the name of something within this network", f"allow = [{named}]")

    def check(self, address: str) -> None:
        """Check an address. AddressRefused: nothing may be delivered to it."""
        try:
            found = ip_address(address)
        except ValueError:
            raise AddressRefused(f"{address[:80]!r} is not an address") from None
        if isinstance(found, IPv6Address) and found.scope_id is not None:
            raise AddressRefused(f"{address[:80]} is an address of one link")
        if is_inner(found) and not any(found in network for network in self._networks):
            raise AddressRefused(f"{found} is an internal address", f'allow = ["{found}"]')


class Places:
    """The URLs that a job may name: `url` itself, and those below one of `prefixes`, on the same host and port.

    Raises:
        BadOption: a prefix is not a URL, or has a query.
    """

    def __init__(self, url: str | None, prefixes: Iterable[str]) -> None:
        self._url = url
        self.prefixes = tuple(map(_prefix, texts(prefixes, "allow_to")))
        self._below = [(_origin(parts), parts.path or "/") for parts in map(urlsplit, self.prefixes)]

    def __contains__(self, url: str) -> bool:
        """Whether a job may name a URL. BadJob: it is not a URL."""
        if url == self._url:
            return True
        parts = urlsplit(checked_url(url, error=BadJob))
        path = parts.path or "/"
        if _leads_up(path):
            return False
        origin = _origin(parts)
        return any(
            origin == allowed and (path == below or path.startswith(f"{below.removesuffix('/')}/"))
            for allowed, below in self._below
        )


def checked_url(value: Any, *, error: type[PywheelError] = BadOption) -> str:
    """Return a URL as a job may name it. BadOption, or `error`: it is not a URL."""
    url = checked_to(value, error=error)
    if "://" not in url:
        raise error(f"{url[:60]!r} is not a URL: it must begin with https:// or http://")
    return url


def is_address(url: Any, schemes: Iterable[str]) -> TypeGuard[str]:
    """Whether a value is the URL of a host, or of a socket, with one of these schemes."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        return bool(parts and parts.scheme in schemes and (parts.hostname or parts.path) and parts.port != 0)
    except ValueError:  # from its port, or from brackets
        return False


def port_of(parts: SplitResult) -> int:
    """Return the port of a URL."""
    if parts.port is not None:
        return parts.port
    return 443 if parts.scheme == "https" else 80


def _prefix(value: Any) -> str:
    url = checked_url(value)
    if "?" in url or "#" in url:
        raise BadOption(f"allow_to: {url.partition('?')[0][:60]!r} must end with its path, without ? and #")
    return url


def _leads_up(path: str) -> bool:
    """Return whether some server may read a segment of a path as the parent folder: many in Java do so for `..;x`."""
    while (plain := unquote(path)) != path:
        path = plain
    segments = (segment.partition(";")[0] for segment in re.split(r"[/\\]", path))
    return any(re.sub(r"[\x00-\x20]", "", segment) in {".", ".."} for segment in segments)


def _origin(parts: SplitResult) -> tuple[str, str | None, int]:
    return parts.scheme, parts.hostname, port_of(parts)


def is_inner(address: Address) -> bool:
    """Whether an address is outside the public internet."""
    if isinstance(address, IPv4Address):
        return any(address in network for network in _INNER_V4)
    return address not in _OUTER_V6 or any(address in network for network in _INNER_V6)


def _plain(host: str) -> str:
    return host.lower().rstrip(".")


def _literal(host: str) -> str | None:
    """Return the address in a URL's host; None for a name. AddressRefused: the address is disguised."""
    if ":" in host or "%" in host:
        return host
    if not _NUMBER.fullmatch(_plain(host).rpartition(".")[2]):
        return None
    try:  # some systems read decimal, octal, hexadecimal and short forms as addresses, each in its own way
        if str(IPv4Address(host)) == host:
            return host
    except ValueError:
        pass
    raise AddressRefused(f"{host[:80]!r} is an address in disguise")
