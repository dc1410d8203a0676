"""One connection to the server, the functions that the server runs for the store, and the errors of both as pywheel's.

redis-py connects: names, TLS, passwords. Commands are packed here and sent as they are: that is twice as fast as its
client, and nothing is retried behind the caller's back.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha1
from importlib.resources import files
from types import TracebackType
from typing import Any, Final

from redis import connection as redis_connection
from redis import exceptions as wrong
from redis.backoff import NoBackoff
from redis.retry import Retry

from ..._errors import NotAStore, PywheelError, StoreAway, StoreBusy, StoreError, StoreFull, StoreReadOnly
from .place import Place

_WORDS: Final = 256  # bytes
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))
_LOOKED: Final = 2.0  # seconds for which a server counts as what it was
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}  # s, s, times


def encoded(values: Sequence[bytes]) -> bytes:
    """Return arguments as they are sent."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(value), value) for value in values])


def _command(*parts: bytes) -> bytes:
    return b"*%d\r\n%b" % (len(parts), encoded(parts))


def as_json(asked: Any) -> bytes:
    """Return the arguments of a function, as they are sent."""
    return _ENCODER.encode(asked).encode()


def given(**values: Any) -> dict[str, Any]:
    """Return the values that are not None: Lua has nil for them, and JSON's null is not nil there."""
    return {name: value for name, value in values.items() if value is not None}


# ---- functions ------------------------------------------------------------------------------------------------------


def _read(parts: str) -> str:
    return "\n".join((files(__package__) / "lua" / f"{part}.lua").read_text() for part in parts.split())


_MAKE: Final = "\n".join(
    (
        "local run",
        # The server has neither `string` nor `pairs` while it loads a library: the first call makes everything.
        "local function make()",
        _read("base jobs places notes hints settle put steps"),
        # Each in a block of its own: Lua allows 200 local names at once.
        *(f"do\n{_read(part)}\nend" for part in ("claim", "manage", "read", "workers", "verify")),
        "return run\nend",
        _read("library"),
    )
)
_VERSION: Final = sha1(_MAKE.encode(), usedforsecurity=False).hexdigest()[:12]
_TEXT: Final = f"#!lua name=pywheel_{_VERSION}\nlocal VERSION = '{_VERSION}'\n{_MAKE}"
_LOAD: Final = _command(b"FUNCTION", b"LOAD", b"REPLACE", _TEXT.encode())
"""Loads the functions. The server compiles a function once, but a script anew for every call."""


@cache
def _name(function: str) -> bytes:
    """Return the server's name of a function, as it is sent."""
    return encoded((f"pywheel_{function}_{_VERSION}".encode(),))


# ---- errors ---------------------------------------------------------------------------------------------------------


class Emptied(StoreError):
    """The store is not there any more, as after FLUSHALL: nothing has happened, and it is to be opened anew."""


_CROWDED: Final = b"max number of clients"
_FEW: Final = "NOREPLICAS"
_Kind = tuple[type[StoreError], str]
_BY_TEXT: Final[dict[str, _Kind]] = {
    _CROWDED.decode(): (StoreBusy, "takes no more connections: raise its maxclients, or let fewer processes connect"),
    "CERTIFICATE_VERIFY": (
        NotAStore,
        "has a certificate that is not trusted ({text}): give ssl_ca_certs=FILE, or its name",
    ),
    "DB index": (NotAStore, "has no database of this number ({text})"),
    "cluster support disabled": (NotAStore, "is not a cluster: write redis:// or rediss://"),
    "MISCONF": (StoreFull, "cannot write to its disk, and takes no more ({text})"),
    _FEW: (StoreReadOnly, "has too few replicas to take writes: see min-replicas-to-write"),
    "BUSY": (StoreBusy, "is busy with somebody's script: try again, or end that by SCRIPT KILL or FUNCTION KILL"),
    "EMPTIED": (Emptied, "has lost this store: try again"),
    "WRONGTYPE": (NotAStore, "has other data under this prefix: give another one, ?prefix=name"),
}
REPLICA: Final = "is a replica, and cannot be written to: give the address of its master"
_BY_CLASS: Final[dict[tuple[type[Exception], ...], _Kind]] = {  # the first that fits
    (wrong.AuthenticationError, wrong.AuthorizationError, wrong.AuthenticationWrongNumberOfArgsError): (
        NotAStore,
        "refuses the user name or password: write redis://user:password@host",
    ),
    (wrong.NoPermissionError,): (
        NotAStore,
        "grants the user too few rights ({text}): docs/stores-redis.md has those needed",
    ),
    (wrong.OutOfMemoryError,): (StoreFull, "has reached its maxmemory: purge finished jobs, or raise it"),
    (wrong.ReadOnlyError,): (StoreReadOnly, REPLICA),
    (wrong.TryAgainError, wrong.ClusterDownError, wrong.MasterDownError): (
        StoreAway,
        "{text}: wait until it serves again",
    ),
    (wrong.BusyLoadingError,): (StoreAway, "it is loading its data: wait until that is done"),
    (wrong.TimeoutError, TimeoutError): (
        StoreAway,
        "no answer within {limit:g} s: see whether it is overloaded, or stopped",
    ),
    (wrong.ConnectionError, OSError): (StoreAway, "{text}"),
}
_ELSEWHERE_NOW: Final = (wrong.AskError, wrong.TryAgainError, wrong.ClusterDownError, wrong.ReadOnlyError)
"""The refusals of a server that does not serve the store now: another one may, which a new connection finds."""
_ELSEWHERE: Final[_Kind] = (NotAStore, "is a node of a cluster, and has not this store: write redis+cluster://")
_MOVED: Final[_Kind] = (StoreAway, "another node has the store by now: wait for it, or look at the cluster")
_MOVING: Final[_Kind] = (StoreAway, "the cluster is moving the store to another node: wait until that is done")


def _kind_of(error: Exception, text: str, place: Place) -> _Kind:
    if isinstance(error, wrong.AskError):
        moved = isinstance(error, wrong.MovedError)
        return (_MOVED if moved else _MOVING) if place.nodes else _ELSEWHERE
    by_text = (kind for words, kind in _BY_TEXT.items() if words in text)
    by_class = (kind for classes, kind in _BY_CLASS.items() if isinstance(error, classes))
    return next(by_text, None) or next(by_class, (StoreError, "says: {text}"))


class _Translated:
    """Raises errors of redis-py and of sockets as pywheel's. A class, as a generator costs thrice as much."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, wrong.RedisError | OSError) and not isinstance(error, PywheelError):
            place, text = self._place, self._place.address.hide(error)
            found, message = _kind_of(error, text, place)
            reason, colon, advice = (part.format(text=text, limit=place.timeout) for part in message.partition(": "))
            if found is StoreAway:
                raise place.outage.away(reason, *filter(None, [advice])) from None
            raise found(f"{place.server} {reason}{colon}{advice}") from None


# ---- connections ----------------------------------------------------------------------------------------------------


class _Hearing:
    """Keeps the server's last message. A server that takes no more clients sends a message and closes at once.

    If it closes before the first command is sent, redis-py finds the connection broken, and reads nothing. In a forked
    child the message is the parent's.
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
    """A connection to the server, for one thread at a time. After any error except a refusal it is unusable."""

    def __init__(self, place: Place) -> None:
        self._translated = _Translated(place)
        kind: Any = _Unix if "path" in place.options else redis_connection.SSLConnection if place.secure else _Tcp
        limits: dict[str, Any] = {"socket_timeout": place.timeout, "socket_connect_timeout": place.timeout}
        if kind is not _Unix:
            options = {getattr(socket, name): value for name, value in _KEEPALIVE.items() if hasattr(socket, name)}
            limits |= {"socket_keepalive": True, "socket_keepalive_options": options}
        with self._translated:
            # RESP2: published messages come only on a connection that listens.
            password = place.address.password
            self._redis = kind(**place.options, **limits, password=password, protocol=2, retry=Retry(NoBackoff(), 0))
            try:
                self._redis.connect()
            except wrong.ConnectionError:
                if _CROWDED in getattr(self._redis, "last_words", b""):
                    raise wrong.ConnectionError(_CROWDED.decode()) from None
                raise
        self.over = False
        self.midway = False
        """Whether an answer has not been read to its end. A second interrupt may come before the first closes it."""
        self.facts: Mapping[str, str] = {}
        """The server's INFO at the beginning."""
        self._looked = time.monotonic()

    def demoted(self) -> bool:
        """Whether the server is a replica by now, as of a look in the last seconds. Replicas answer queries."""
        if time.monotonic() - self._looked < _LOOKED:
            return False
        self._looked = time.monotonic()
        return b"role:slave" in self.call(b"INFO", b"replication")

    def call(self, *parts: bytes) -> Any:
        """Return the server's answer to a command. StoreAway if there is none."""
        with self._translated:
            return self._call(_command(*parts))

    def _call(self, *commands: bytes) -> Any:
        """Send commands at once; return the answer to the last one."""
        self._open()
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
            if unread or isinstance(error, _ELSEWHERE_NOW) or str(error).startswith(_FEW):  # a master that is cut off
                self.close()  # nothing happened, and this connection is of no more use
            raise
        except BaseException:  # also an interrupt: the answer would be taken for the next command's
            self.close()
            raise

    def _open(self) -> None:
        if self.over:  # else redis-py would connect anew
            raise wrong.ConnectionError("the connection was closed")

    def run(self, function: str, prefix: bytes, count: int, arguments: bytes) -> Any:
        """Return a function's answer to `count` encoded arguments. Sends the library if the server does not have it."""
        head = 4 + count, _name(function), len(prefix), prefix
        command = b"*%d\r\n$5\r\nFCALL\r\n%b$1\r\n1\r\n$%d\r\n%b\r\n%b" % (*head, arguments)
        with self._translated:
            try:
                return self._call(command)
            except wrong.ResponseError as error:
                if not str(error).startswith("Function not found"):
                    raise
            # In one transaction: another client may FUNCTION FLUSH in between.
            answer = self._call(_command(b"MULTI"), _LOAD, command, _command(b"EXEC"))[-1]
            if isinstance(answer, Exception):
                raise answer
            return answer

    # ---- listening --------------------------------------------------------------------------------------------------

    def subscribe(self, *channels: bytes) -> None:
        """Listen to channels from now on."""
        with self._translated:
            self._redis.send_packed_command((_command(b"SUBSCRIBE", *channels),), check_health=False)
            for _ in channels:
                self._redis.read_response()

    def heard(self, seconds: float = 0) -> list[tuple[bytes, bytes]]:
        """Return new messages with their channels; wait `seconds` for the first. StoreAway if the connection broke."""
        messages: list[tuple[bytes, bytes]] = []
        with self._translated:
            self._open()
            try:
                while self._redis.can_read(timeout=0 if messages else seconds):
                    answer = self._redis.read_response()
                    if isinstance(answer, list) and answer[0] == b"message":
                        messages.append((answer[1], answer[2]))
            except BaseException:  # also an interrupt: redis-py would connect anew, and nobody has subscribed there
                self.close()
                raise
        return messages

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when a message comes."""
        return int(self._redis._sock.fileno())

    def close(self) -> None:
        """Close the connection; a forked child only lets go of it."""
        self.over = True
        self._redis.disconnect()
