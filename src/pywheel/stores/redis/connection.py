"""One connection to the server.

redis-py connects: names, TLS, passwords. Commands are packed here and sent as they are: that is twice as fast as its
client, and nothing is repeated by itself.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

from redis import connection as redis_connection
from redis.backoff import NoBackoff
from redis.connection import SSLConnection as _Tls
from redis.retry import Retry

from .errors import CROWDED, translated, wrong
from .library import LIBRARY, name_of
from .place import Place

__all__ = ["Connection", "as_json", "encoded", "one"]

_WORDS: Final = 256  # bytes
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}  # s, s, times


def one(value: bytes) -> bytes:
    """Return an argument as it is sent."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def encoded(values: Sequence[bytes]) -> bytes:
    """Return some arguments as they are sent."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(value), value) for value in values])


def as_json(asked: Any) -> bytes:
    """Return what is asked for, without what is None: in Lua that is nil, and null is something."""
    if isinstance(asked, dict):
        asked = {name: value for name, value in asked.items() if value is not None}
    return _ENCODER.encode(asked).encode()


@cache
def _name(function: str) -> bytes:
    """Return what the server calls a function, as it is sent."""
    return one(name_of(function))


_LOAD: Final = b"*4\r\n%b" % encoded((b"FUNCTION", b"LOAD", b"REPLACE", LIBRARY))
_MULTI: Final = b"*1\r\n$5\r\nMULTI\r\n"
_EXEC: Final = b"*1\r\n$4\r\nEXEC\r\n"


class _Hearing:
    """Keeps what the server said last. One that takes no more clients says so and closes at once.

    Where that is before the first command is sent, redis-py finds the connection broken, and reads nothing.
    In a forked child what comes is the parent's.
    """

    last_words = b""

    def disconnect(self, *args: Any, **kwargs: Any) -> None:
        sock: socket.socket | None = getattr(self, "_sock", None)
        if sock is not None and not self.last_words and getattr(self, "pid", None) == os.getpid():
            with suppress(OSError, ValueError):
                sock.settimeout(0)
                self.last_words = sock.recv(_WORDS)
        super().disconnect(*args, **kwargs)  # type: ignore[misc]


class _Tcp(_Hearing, redis_connection.Connection):
    pass


class _Unix(_Hearing, redis_connection.UnixDomainSocketConnection):
    pass


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
            try:
                self._redis.connect()
            except wrong.ConnectionError:
                if CROWDED in getattr(self._redis, "last_words", b""):
                    raise wrong.ConnectionError(CROWDED.decode()) from None
                raise
        self.over = False
        self.midway = False
        """Whether an answer has not been read to its end. A second interrupt may come before the first closes it."""
        self.facts: Mapping[str, str] = {}
        """What the server said of itself at the beginning."""

    def call(self, *parts: bytes) -> Any:
        """Return what the server answers to a command. StoreAway if that is not known."""
        with translated(self._place):
            return self._call(b"*%d\r\n%b" % (len(parts), encoded(parts)))

    def _call(self, *commands: bytes) -> Any:
        """Send commands at once; return what the last one gives."""
        if self.over:  # redis-py would connect anew
            raise wrong.ConnectionError("the connection was closed")
        unread = len(commands)
        try:
            self.midway = True
            self._redis.send_packed_command((b"".join(commands),), check_health=False)
            while unread:
                unread -= 1
                answer = self._redis.read_response()
            self.midway = False
            return answer  # noqa: TRY300
        except wrong.ResponseError as error:
            self.midway = False
            if unread or isinstance(error, wrong.AskError):  # nothing happened, and nothing will here
                self.close()
            raise
        except BaseException:  # an interrupt too: the answer would be taken for that to the next command
            self.close()
            raise

    def run(self, function: str, prefix: bytes, count: int, arguments: bytes) -> Any:
        """Return what a function answers to so many encoded arguments. The library is sent if the server has not it."""
        name = _name(function)
        command = b"*%d\r\n$5\r\nFCALL\r\n%b$1\r\n1\r\n$%d\r\n%b\r\n%b" % (
            4 + count,
            name,
            len(prefix),
            prefix,
            arguments,
        )
        with translated(self._place):
            try:
                return self._call(command)
            except wrong.ResponseError as error:
                if not str(error).startswith("Function not found"):
                    raise
            answer = self._call(_MULTI, _LOAD, command, _EXEC)[-1]  # together: somebody may FUNCTION FLUSH in between
            if isinstance(answer, Exception):
                raise answer
            return answer

    # ---- listening --------------------------------------------------------------------------------------------------

    def subscribe(self, *channels: bytes) -> None:
        """Listen to channels from now on."""
        with translated(self._place):
            command = b"*%d\r\n%b" % (1 + len(channels), encoded((b"SUBSCRIBE", *channels)))
            self._redis.send_packed_command((command,), check_health=False)
            for _ in channels:
                self._redis.read_response()

    def heard(self, seconds: float = 0) -> list[tuple[bytes, bytes]]:
        """Return what was published since, with its channel; wait for the first so long. StoreAway if it broke."""
        messages: list[tuple[bytes, bytes]] = []
        with translated(self._place):
            if self.over:
                raise wrong.ConnectionError("the connection was closed")
            while self._redis.can_read(timeout=0 if messages else seconds):
                answer = self._redis.read_response()
                if isinstance(answer, list) and answer[0] == b"message":
                    messages.append((answer[1], answer[2]))
        return messages

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when something comes."""
        return int(self._redis._sock.fileno())

    def close(self) -> None:
        """Close it; a forked child only lets go of it."""
        self.over = True
        self._redis.disconnect()
