"""One connection to the server, and what its errors are called here.

redis-py connects: addresses, TLS, passwords. Commands are packed here and sent as they are: that is twice as fast as its
client, and nothing is repeated by itself.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

from redis import exceptions as wrong
from redis.backoff import NoBackoff
from redis.connection import Connection as _Tcp
from redis.connection import SSLConnection as _Tls
from redis.connection import UnixDomainSocketConnection as _Unix
from redis.retry import Retry

from ..._errors import (
    NotAStore,
    PywheelError,
    StoreAway,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from .place import Place
from .scripts import Script

__all__ = ["Connection", "encoded", "one"]

_KEEPALIVE: Final = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}  # s, s, times


def one(value: bytes) -> bytes:
    """Return an argument as it is sent."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def encoded(values: Sequence[bytes]) -> bytes:
    """Return some arguments as they are sent."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(value), value) for value in values])


class Connection:
    """A connection to the server. For one thread at a time. After any error but a refusal it is of no use."""

    def __init__(self, place: Place) -> None:
        self._place = place
        kind: Any = _Unix if "path" in place.options else _Tls if place.secure else _Tcp
        limits: dict[str, Any] = {"socket_timeout": place.timeout, "socket_connect_timeout": place.timeout}
        if kind is not _Unix:
            options = {getattr(socket, name): value for name, value in _KEEPALIVE.items() if hasattr(socket, name)}
            limits |= {"socket_keepalive": True, "socket_keepalive_options": options}
        with translated(place):
            # RESP2: what comes unasked comes on a connection that listens, and nowhere else.
            password = place.address.password
            self._redis = kind(**place.options, **limits, password=password, protocol=2, retry=Retry(NoBackoff(), 0))
            self._redis.connect()
        self.over = False
        self.facts: Mapping[str, str] = {}
        """What the server said of itself at the beginning."""

    def call(self, *parts: bytes) -> Any:
        """Return what the server answers to a command. StoreAway if that is not known."""
        with translated(self._place):
            return self._call(b"*%d\r\n%b" % (len(parts), encoded(parts)))

    def _call(self, command: bytes) -> Any:
        if self.over:  # redis-py would connect anew
            raise wrong.ConnectionError("the connection was closed")
        try:
            self._redis.send_packed_command((command,), check_health=False)
            return self._redis.read_response()
        except wrong.ResponseError:
            raise
        except BaseException:  # an interrupt too: the answer would be taken for that to the next command
            self.close()
            raise

    def run(self, script: Script, prefix: bytes, count: int, arguments: bytes) -> Any:
        """Return what a script answers to so many encoded arguments; it is loaded if the server does not know it."""
        command = b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$1\r\n1\r\n$%d\r\n%b\r\n%b" % (
            4 + count,
            script.sha,
            len(prefix),
            prefix,
            arguments,
        )
        with translated(self._place):
            try:
                return self._call(command)
            except wrong.NoScriptError:
                self._call(b"*3\r\n%b" % encoded((b"SCRIPT", b"LOAD", script.text)))
                return self._call(command)

    # ---- listening --------------------------------------------------------------------------------------------------

    def subscribe(self, *channels: bytes) -> None:
        """Listen to channels from now on."""
        with translated(self._place):
            command = b"*%d\r\n%b" % (1 + len(channels), encoded((b"SUBSCRIBE", *channels)))
            self._redis.send_packed_command((command,), check_health=False)
            for _ in channels:
                self._redis.read_response()

    def heard(self) -> list[bytes]:
        """Return the messages that came since, without waiting. StoreAway if the connection broke."""
        messages = []
        with translated(self._place):
            if self.over:
                raise wrong.ConnectionError("the connection was closed")
            while self._redis.can_read(timeout=0):
                answer = self._redis.read_response()
                if isinstance(answer, list) and answer[0] == b"message":
                    messages.append(answer[2])
        return messages

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when something comes."""
        return int(self._redis._sock.fileno())

    def close(self) -> None:
        """Close it; a forked child only lets go of it."""
        self.over = True
        self._redis.disconnect()


# ---- errors -----------------------------------------------------------------------------------------------------------


class translated:  # noqa: N801  (it is used like a function)
    """Raises the errors of redis-py and of sockets as those of a store. A class: a generator costs three times as much."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and not isinstance(error, PywheelError):
            found = _ours(error, self._place)
            if found is not None:
                raise found from None


def _ours(error: BaseException, place: Place) -> StoreError | None:
    """Return the error as a store's, None if it is none of the server's."""
    server, text = place.server, place.address.hide(error)
    match error:
        case wrong.AuthenticationError() | wrong.AuthorizationError() | wrong.AuthenticationWrongNumberOfArgsError():
            return NotAStore(f"{server} refuses the user name or password: give them as redis://user:password@host")
        case wrong.NoPermissionError():
            return NotAStore(f"{server}: the user lacks a right ({text}): docs/stores-redis.md lists those it needs")
        case wrong.OutOfMemoryError():
            return StoreFull(f"{server} has reached its maxmemory: purge finished jobs, or raise it")
        case wrong.ReadOnlyError():
            return StoreReadOnly(f"{server} is a replica, and cannot be written to: give the address of its master")
        case wrong.BusyLoadingError():
            return StoreAway(f"{server} is loading its data: it answers when that is done")
        case wrong.TimeoutError() | TimeoutError():
            return StoreAway(f"{server} did not answer within {place.timeout:g} s: see whether it is overloaded")
        case wrong.ConnectionError() | OSError():
            return StoreAway(f"{server} is away ({text}): start it, or check the address")
        case wrong.ResponseError():
            return _refused(text, server)
        case wrong.RedisError():
            return StoreError(f"{server}: {text}")
    return None


def _refused(text: str, server: str) -> StoreError:
    word = text.partition(" ")[0]
    match word:
        case "OOM":
            return StoreFull(f"{server} has reached its maxmemory: purge finished jobs, or raise it")
        case "MISCONF":
            return StoreFull(f"{server} cannot write to its disk and takes no more ({text})")
        case "READONLY":
            return StoreReadOnly(f"{server} is a replica, and cannot be written to: give the address of its master")
        case "NOREPLICAS":
            return StoreReadOnly(f"{server} has too few replicas to take writes (min-replicas-to-write)")
        case "BUSY":
            return StoreBusy(f"{server} is busy with somebody's script: try again, or end that by SCRIPT KILL")
        case "MASTERDOWN" | "LOADING" | "CLUSTERDOWN" | "TRYAGAIN":
            return StoreAway(f"{server} cannot serve now ({text})")
        case "MOVED" | "ASK" | "CROSSSLOT":
            return NotAStore(f"{server} is a node of a cluster that has the store elsewhere ({text}): give that address")
        case "NOAUTH" | "WRONGPASS":
            return NotAStore(f"{server} refuses the user name or password: give them as redis://user:password@host")
        case "NOPERM":
            return NotAStore(f"{server}: the user lacks a right ({text}): docs/stores-redis.md lists those it needs")
        case "WRONGTYPE":
            return NotAStore(f"{server} has other data under this prefix: give another one, ?prefix=name")
    if "DB index" in text:
        return NotAStore(f"{server} has no database of this number ({text})")
    return StoreError(f"{server}: {text}")
