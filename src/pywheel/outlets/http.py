"""One POST by aiohttp, to an address that was judged, with an answer of bounded length in bounded time."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, NamedTuple
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from ..jobs.address import checked_to
from .addresses import AddressPolicy, AddressRefused

MOST_ANSWER: Final = 20_000  # bytes of an answer that are read
_MOST_RECEIVED: Final = 128_000  # bytes that may arrive for a request: head, answer, and read-ahead
_PIECE: Final = 16_384  # bytes in one read: others get their turns in between
_BODY: Final = 1.0  # seconds for the rest of an answer, once its status is known
_LOOKUPS: Final = {True: 32, None: 256, False: 64}
"""Lookups at once: of names that were found last time, of new ones, of those that were not found."""
_NAMES: Final = 10_000  # names that are remembered
_KNOWN: Final = 10  # seconds for which a name's addresses are kept
_IDLE: Final = 15.0  # seconds for which an idle connection is kept
_KEPT: Final = 1_000  # open connections beyond which none is kept idle, or half of what the process may open
_URLS: Final = 4_096
_connecting: Final[ContextVar[_Connecting]] = ContextVar("connecting")


@dataclass(slots=True)
class _Connecting:
    """The rights of a call's connections, and what they did."""

    anywhere: bool  # whether the call may connect to any address: its name is allowed, or a proxy decides
    connected: bool = False  # whether it made a connection of its own


class Unanswered(Exception):
    """A request without an answer. `refused`: nothing was sent, as nothing may be delivered to the address."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class Answered(NamedTuple):
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes  # its beginning


class HttpClient:
    """Connections to many hosts, on the running loop. The caller closes it.

    Args:
        policy: where connections may go.
        timeout: seconds for a call in all.
        connect_timeout: seconds for a connection, including lookup and TLS.
        tls: the context for https. By default it has the system's certificates.
        proxy: an HTTP proxy; then it resolves names and decides where connections may go.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        timeout: float,
        connect_timeout: float,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        self._policy = policy
        self._proxy = proxy
        self._timeout = timeout
        self._times = aiohttp.ClientTimeout(total=timeout, connect=connect_timeout)
        self._urls: dict[str, URL] = {}
        self._sockets: WeakSet[socket.socket] = WeakSet()
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most_kept = _KEPT if files == resource.RLIM_INFINITY else min(_KEPT, files // 2)
        self._resolver = _Resolver()
        connector = aiohttp.TCPConnector(
            limit=0,  # the shares limit them
            resolver=self._resolver,
            socket_factory=self._socket,
            ttl_dns_cache=_KNOWN,
            keepalive_timeout=_IDLE,
            ssl=True if tls is None else tls,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # a small answer stays small
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            trust_env=False,
            read_bufsize=MOST_ANSWER,
        )

    def url(self, text: str) -> URL:
        """Return a URL. AddressRefused: nothing may be delivered there. ValueError: the text is not a URL."""
        found = self._urls.get(text)
        if found is None:
            found = URL(checked_to(text))
            if found.raw_host is None or found.port is None:
                raise ValueError("it must begin with https:// or http://")
            self._policy.check_url(found.raw_host, found.port)
            if len(self._urls) >= _URLS:
                self._urls.clear()
            self._urls[text] = found
        return found

    async def post(self, url: URL, body: bytes, headers: Mapping[str, str], most: float | None = None) -> Answered:
        """Send a request and return the answer, whatever its status. Unanswered says why there is none.

        `most` limits the seconds of this call further.
        """
        seconds = self._timeout if most is None else min(most, self._timeout)
        connecting = _Connecting(self._proxy is not None or self._policy.allows_name(url.raw_host or ""))
        _connecting.set(connecting)
        began = monotonic()
        try:
            try:
                response = await self._sent(url, body, headers, seconds)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                left = seconds - (monotonic() - began)
                if connecting.connected or isinstance(error, aiohttp.ClientConnectorError) or left <= 0:
                    raise
                # An idle connection had ended. The request has its id and may come twice, as any delivery may.
                response = await self._sent(url, body, headers, left)
        except TimeoutError as error:
            what = "connection" if isinstance(error, aiohttp.ConnectionTimeoutError) else "answer"
            raise Unanswered(f"no {what} within the time, {seconds:g} s in all") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            refused = _refusal(error)
            # `from None`: the client's error shows the URL with its query, and a proxy's with its password.
            raise Unanswered(str(refused or _said(error)), refused=refused is not None) from None
        return Answered(response.status, response.headers, await self._beginning(response))

    async def _sent(self, url: URL, body: bytes, headers: Mapping[str, str], seconds: float) -> aiohttp.ClientResponse:
        if len(self._sockets) >= self._most_kept:
            headers = {**headers, "connection": "close"}
        times = self._times
        if seconds != self._timeout:
            times = aiohttp.ClientTimeout(total=seconds, connect=times.connect)
        return await self._session.post(
            url, data=body, headers=headers, allow_redirects=False, proxy=self._proxy, timeout=times
        )

    async def _beginning(self, response: aiohttp.ClientResponse) -> bytes:
        """Read the beginning of an answer, and release the connection: for the next call if the answer is complete."""
        parts: list[bytes] = []
        left = MOST_ANSWER
        try:
            async with asyncio.timeout(_BODY):
                while left > 0:
                    part = await response.content.read(left)
                    if not part:
                        break
                    parts.append(part)
                    left -= len(part)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            response.close()  # the status decides the outcome
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()
        return b"".join(parts)

    def _socket(self, info: aiohttp.AddrInfoType) -> socket.socket:
        """Return a socket to an address. The address is judged here, whatever lookup it came from."""
        family, kind, protocol, _, address = info
        connecting = _connecting.get()
        connecting.connected = True
        if not connecting.anywhere:
            self._policy.check(str(address[0]))
        made = _Socket(family, kind, protocol)
        self._sockets.add(made)
        return made

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()
        await self._resolver.close()


class _Socket(socket.socket):
    """A socket that breaks the connection if more than a bounded number of bytes come for what it has sent.

    The reader of an answer bounds its head and its body, but not the number of 1xx answers before. An endpoint that
    keeps sending those would keep the loop busy.
    """

    _received = 0

    def send(self, data: Any, flags: int = 0) -> int:
        """Send, and count received bytes anew."""
        self._received = 0
        return super().send(data, flags)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Receive a piece."""
        data = super().recv(min(size, _PIECE), flags)
        self._count(len(data))
        return data

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0) -> int:
        """Receive a piece, as TLS does it."""
        count = super().recv_into(buffer, min(size or len(buffer), _PIECE), flags)
        self._count(count)
        return count

    def _count(self, received: int) -> None:
        self._received += received
        if self._received > _MOST_RECEIVED:
            raise ConnectionAbortedError(f"{_MOST_RECEIVED // 1_000} kB came, and no answer was among them")


class _Resolver(AbstractResolver):
    """A resolver with threads of its own.

    A lookup takes as long as the name server needs, and nothing ends it sooner. Somebody may have thousands of names
    whose server does not answer. So names that were found, new names and names that were not found have separate
    threads.
    """

    def __init__(self) -> None:
        self._found: dict[str, bool] = {}  # whether the last lookup found the name; the oldest first
        self._threads = {how: ThreadPoolExecutor(most, "pywheel-lookup") for how, most in _LOOKUPS.items()}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        threads = self._threads[self._found.pop(host, None)]
        if len(self._found) >= _NAMES:
            del self._found[next(iter(self._found))]
        self._found[host] = False  # until it is found
        found = await asyncio.get_running_loop().run_in_executor(threads, _looked_up, host, port, family)
        self._found[host] = True
        if not found:
            raise OSError(f"{host[:80]} has no address")
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            {"hostname": host, "host": address, "port": port, "family": kind, "proto": protocol, "flags": flags}
            for kind, protocol, address in found
        ]

    async def close(self) -> None:
        """Release the threads. A running lookup ends with its answer."""
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)


def _looked_up(host: str, port: int, family: int) -> list[tuple[int, int, str]]:
    """Return families, protocols and addresses of a name. Blocks."""
    found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [(family, protocol, str(address[0])) for family, _, protocol, _, address in found]


def _refusal(error: BaseException | None) -> AddressRefused | None:
    """Return the refusal that caused an error, if any."""
    while error is not None and not isinstance(error, AddressRefused):
        error = error.__cause__ or error.__context__
    return error


def _said(error: BaseException) -> str:
    text = f"{error.status} {error.message!r}" if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
