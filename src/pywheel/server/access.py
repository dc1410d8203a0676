"""Access control by request: everybody on loopback, or a bearer token with the right scope."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import re
import shlex
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Literal
from weakref import WeakValueDictionary

from starlette.types import Scope

from .._errors import BadOption
from .problems import Problem
from .tokens import ROLES, Grant

Mode = Literal["tokens", "open"]

_FRESH: Final = 1.0  # seconds for which a grant is trusted; a removed token works for that long
_MOST: Final = 10_000  # remembered tokens, and remembered addresses
_LONGEST_HOST: Final = 300  # characters; a longer text is not a host name and stays out of the cache
_FIELD_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,100}", re.ASCII)
_TAKEN: Final = frozenset(("authorization", "cookie", "forwarded", "host", "origin", "x-forwarded-for"))
_LONGEST_NAME: Final = 200  # characters in a person's name
PROXY: Final = "proxy:"
"""The prefix of the id of a grant that came from a proxy."""
_REALM: Final = 'Bearer realm="pywheel"'


EVERYTHING: Final = Grant("", frozenset(("read", "put", "work", "admin")), ("*",), None)
"""The grant of everybody who reaches an open server."""


@dataclass(frozen=True, slots=True)
class ProxySignIn:
    """A header by which a trusted proxy names the person who looks at the page.

    Args:
        header: its name, such as ``X-Forwarded-User``. The proxy sets it on every request, or removes it.
        trusted: the addresses and networks of proxies. From any other peer the header means nothing.
        role: what these people may do: one of `tokens.ROLES`, for all topics.

    Raises:
        BadOption: an argument makes no sense.
    """

    header: str
    trusted: Collection[str]
    role: str = "viewer"
    _networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not _FIELD_NAME.fullmatch(self.header) or self.header.lower() in _TAKEN:
            raise BadOption(f"{self.header[:80]!r} is not a header for a name: use one such as X-Forwarded-User")
        if self.role not in ROLES:
            raise BadOption(f"{self.role[:80]!r} is not a role: {', '.join(ROLES)}")
        try:
            networks = tuple(map(ipaddress.ip_network, self.trusted))
        except ValueError as error:
            raise BadOption(f"a proxy is trusted by its address or its network: {error}") from None
        if not networks or any(network.prefixlen == 0 for network in networks):
            raise BadOption("name the trusted proxies, and not all addresses: else anybody could claim any identity")
        object.__setattr__(self, "_networks", networks)

    def grant(self, scope: Scope) -> Grant | None:
        """Return the grant of the person that a trusted proxy names, or None.

        The peer is the other end of the connection, whatever X-Forwarded-For says. Two such headers count as none: the
        client may have sent one of them.
        """
        name = self.header.lower().encode()
        given = [value for key, value in scope["headers"] if key.lower() == name]
        if len(given) != 1 or not self._trusts(scope.get("client")):
            return None
        who = given[0].decode("utf-8", "replace").strip()
        if not 1 <= len(who) <= _LONGEST_NAME or not who.isprintable():
            return None
        return Grant(f"{PROXY}{who}", frozenset(ROLES[self.role]), ("*",), None, who)

    def _trusts(self, client: Any) -> bool:
        try:
            address = ipaddress.ip_address(client[0])
        except (TypeError, IndexError, ValueError):  # a Unix socket, or a server that does not say
            return False
        peer = getattr(address, "ipv4_mapped", None) or address  # an IPv4 peer of an IPv6 listener
        return any(peer in network for network in self._networks)


class Access:
    """The check of whose request it is.

    `open`: everybody may do everything. The request must name a loopback host and must not come from another site's
    page, so no web page that somebody visits reaches the jobs. `tokens`: a bearer token, or a cookie for the page.
    """

    def __init__(
        self, mode: Mode, tokens: Any = None, proxies: Collection[str] = (), sign_in: ProxySignIn | None = None
    ) -> None:
        self.open = mode == "open"
        self.tokens: Any = None if self.open else tokens
        try:
            self.proxies = frozenset(str(ipaddress.ip_address(proxy)) for proxy in proxies)
        except ValueError as error:
            raise BadOption(f"a proxy is named by its address: {error}") from None
        self.sign_in = sign_in
        self.failures = Failures()
        # Tokens that were good when they were looked up, and until when that is trusted; the latest are last.
        self._known: OrderedDict[bytes, tuple[Grant, float]] = OrderedDict()

    async def identify(self, scope: Scope, read: Callable[..., Awaitable[Any]], secret: bytes | None = None) -> Grant:
        """Return what the caller may do, by `secret` or else by its header. Problem: the token is missing or wrong.

        `read` calls a function that reads the store in a thread. A token that was seen in the last second costs no
        query.
        """
        if self.open:
            return EVERYTHING
        secret = secret or _bearer(header(scope, b"authorization"))
        if secret is None:
            raise Problem(
                "token-missing",
                "send the header `Authorization: Bearer <token>`; `pywheel token add` makes one",
                headers={"www-authenticate": _REALM},
            )
        name = sha256(secret).digest()
        known = self._known.get(name)
        if known is not None and known[1] > time.monotonic():
            return known[0]
        return await self._look_up(name, secret, self._address(scope), read)

    async def _look_up(self, name: bytes, secret: bytes, address: str, read: Callable[..., Awaitable[Any]]) -> Grant:
        # Other clients' failures do not block a token that was good.
        async with nullcontext() if name in self._known else self.failures.trying(address):
            grant: Grant | None = await read(self.tokens.grant, secret.decode("latin-1"))
            if grant is None:
                self._known.pop(name, None)
                self.failures.count(address)
                raise Problem(
                    "token-unknown",
                    "this token is unknown, was removed or has expired: ask for another one",
                    headers={"www-authenticate": f'{_REALM}, error="invalid_token"'},
                )
        self._known[name] = grant, time.monotonic() + _FRESH
        self._known.move_to_end(name)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return grant

    def _address(self, scope: Scope) -> str:
        """Return the address a request comes from. A known proxy gives the address of its client."""
        client = scope.get("client")
        address: str = client[0].removeprefix("::ffff:") if client else ""  # an IPv4 client of an IPv6 listener
        if address in self.proxies:
            for hop in reversed(header(scope, b"x-forwarded-for").decode("latin-1").split(",")):
                address = hop.strip()[:60] or address
                if address not in self.proxies:
                    break
        return address


def demand(grant: Grant, scope: str, topic: str | None = None) -> None:
    """Raise a Problem if the grant does not allow the scope, for a topic if one is given."""
    if grant.may(scope, topic):
        return
    where, topics = "", ""
    if topic is not None and grant.may(scope):
        where, topics = f" for topic {topic[:80]!r}", f" --topics {shlex.quote(topic[:80])}"
    needed = (
        f"this needs a token with the scope {scope!r}{where}: `pywheel token add --scope {scope}{topics}` makes one"
    )
    raise _lacking(scope, needed)


def demand_all(grant: Grant, scope: str, mend: str) -> None:
    """Raise a Problem if the grant does not allow the scope for all topics. `mend` says what else would do."""
    demand(grant, scope)
    if not grant.everywhere:
        text = f"this is of all topics, and the token is for some: {mend}, or use a token for all topics"
        raise _lacking(scope, text)


def _lacking(scope: str, text: str) -> Problem:
    realm = f'{_REALM}, error="insufficient_scope", scope="{scope}"'
    return Problem("scope-missing", text, headers={"www-authenticate": realm}, more={"scope": scope})


class _Tries:
    """The tokens of one address that are being tried."""

    def __init__(self) -> None:
        self.count = 0
        self.turn = asyncio.Lock()  # of the next one
        self.over = asyncio.Event()  # set by each that was tried


class Failures:
    """The count of wrong tokens by address: `BURST` at once, then one a second. Bounded in size."""

    BURST: Final = 20

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[str, float] = OrderedDict()  # when all failures are forgiven
        self._tries: WeakValueDictionary[str, _Tries] = WeakValueDictionary()  # for as long as requests hold them

    @asynccontextmanager
    async def trying(self, address: str) -> AsyncIterator[None]:
        """Let a token be tried inside the `async with` block. Problem: the address has failed too often.

        It waits while those that are being tried would be too many if all of them fail.
        """
        tries = self._tries.setdefault(address, _Tries())
        async with tries.turn:
            while tries.count >= max(self._left(address), 1):
                tries.over.clear()
                await tries.over.wait()
            self.refuse(address)
            tries.count += 1
        try:
            yield
        finally:
            tries.count -= 1
            tries.over.set()

    def _left(self, address: str) -> float:
        """Return how many more failures are let pass; less than 0 if there were too many."""
        now = self._clock()
        return self.BURST - max(self._until.get(address, now) - now, 0.0)

    def refuse(self, address: str) -> None:
        """Raise a Problem if the address has failed too often."""
        left = self._left(address)
        if left < 0:
            seconds = math.ceil(-left)
            raise Problem(
                "too-many-failures",
                f"too many wrong tokens came from this address: try again in {seconds} s",
                headers={"retry-after": str(seconds)},
            )

    def count(self, address: str) -> None:
        """Note a failure."""
        now = self._clock()
        self._until[address] = max(self._until.pop(address, now), now) + 1.0
        if len(self._until) > _MOST:
            self._until.popitem(last=False)

    def __len__(self) -> int:
        return len(self._until)


def _bearer(value: bytes) -> bytes | None:
    scheme, _, secret = value.partition(b" ")
    secret = secret.strip()
    return secret if scheme.lower() == b"bearer" and 0 < len(secret) <= 512 else None


def header(scope: Scope, name: bytes) -> bytes:
    """Return a header, empty if there is none. The last one of several with the same name."""
    found: bytes = b""
    for key, value in scope["headers"]:
        if key == name:
            found = value
    return found


# ---- an open server -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1_000)
def is_loopback(host: str) -> bool:
    """Whether a name or an address, with or without a port, is this host's own."""
    name = host.strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    if name in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def refuse_strangers(headers: Mapping[bytes, bytes]) -> None:
    """Raise a Problem if a request to an open server may come from another site's web page."""
    host = headers.get(b"host", b"").decode("latin-1")
    if len(host) > _LONGEST_HOST or not is_loopback(host):
        raise Problem(
            "bad-host",
            f"an open server answers to localhost and 127.0.0.1 only, not to {host[:80]!r}: use tokens for others",
        )
    origin = headers.get(b"origin")
    foreign = origin is not None and origin.partition(b"://")[2].decode("latin-1").lower() != host.lower()
    if foreign or headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        raise Problem("foreign-origin", "an open server takes nothing from another site's page: use a token")
