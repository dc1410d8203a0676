"""What the errors of redis-py, and of sockets, are called here."""

from __future__ import annotations

from types import TracebackType
from typing import Final

from redis import exceptions as wrong

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

__all__ = ["CROWDED", "translated", "wrong"]

CROWDED: Final = b"max number of clients"
"""What the server says to whom it takes in no more."""

_Kind = tuple[type[StoreError], str]
_PASSWORD: Final[_Kind] = (NotAStore, "refuses the user name or password: write redis://user:password@host")
_RIGHTS: Final[_Kind] = (NotAStore, "grants the user too few rights ({text}): docs/stores-redis.md has those needed")
_FULL: Final[_Kind] = (StoreFull, "has reached its maxmemory: purge finished jobs, or raise it")
_REPLICA: Final[_Kind] = (StoreReadOnly, "is a replica, and cannot be written to: give the address of its master")
_TOO_MANY: Final[_Kind] = (StoreBusy, "takes no more connections: raise its maxclients, or let fewer processes connect")
_LATER: Final[_Kind] = (StoreAway, "{text}: wait until it serves again")
_TIMEOUT: Final[_Kind] = (StoreAway, "no answer within {limit:g} s: see whether it is overloaded, or stopped")
_ELSEWHERE: Final[_Kind] = (NotAStore, "is a node of a cluster, and has not this store: write redis+cluster://")
_MOVED: Final[_Kind] = (StoreAway, "another node has the store by now: wait for it, or look at the cluster")
_MOVING: Final[_Kind] = (StoreAway, "the cluster is moving the store to another node: wait until that is done")

_CLASSES: Final[dict[type[Exception], _Kind]] = {  # the first that fits
    wrong.AuthenticationError: _PASSWORD,
    wrong.AuthorizationError: _PASSWORD,
    wrong.AuthenticationWrongNumberOfArgsError: _PASSWORD,
    wrong.NoPermissionError: _RIGHTS,
    wrong.OutOfMemoryError: _FULL,
    wrong.ReadOnlyError: _REPLICA,
    **dict.fromkeys((wrong.TryAgainError, wrong.ClusterDownError, wrong.MasterDownError), _LATER),
    wrong.BusyLoadingError: (StoreAway, "it is loading its data: wait until that is done"),
    wrong.TimeoutError: _TIMEOUT,
    TimeoutError: _TIMEOUT,
}
_WORDS: Final[dict[str, _Kind]] = {  # that an answer begins with
    "OOM": _FULL,
    "READONLY": _REPLICA,
    "NOAUTH": _PASSWORD,
    "WRONGPASS": _PASSWORD,
    "NOPERM": _RIGHTS,
    "MISCONF": (StoreFull, "cannot write to its disk, and takes no more ({text})"),
    "NOREPLICAS": (StoreReadOnly, "has too few replicas to take writes: see min-replicas-to-write"),
    "BUSY": (
        StoreBusy,
        "is busy with somebody's script: try again, or end that by SCRIPT KILL or FUNCTION KILL",
    ),
    "WRONGTYPE": (NotAStore, "has other data under this prefix: give another one, ?prefix=name"),
}


class translated:  # noqa: N801  (it is used like a function)
    """Raises the errors of redis-py and of sockets as those of a store. A class: a generator costs thrice as much."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, wrong.RedisError | OSError) and not isinstance(error, PywheelError):
            raise _ours(error, self._place) from None


def _ours(error: Exception, place: Place) -> StoreError:
    """Return an error as a store's: one line that says what to do, without passwords."""
    text = place.address.hide(error)
    kind, message = _found(error, text, place)
    if kind is StoreAway:
        reason, _, advice = message.partition(": ")
        return place.outage.away(reason.format(text=text, limit=place.timeout), *filter(None, [advice]))
    return kind(f"{place.server} {message.format(text=text, limit=place.timeout)}")


def _found(error: Exception, text: str, place: Place) -> _Kind:
    if isinstance(error, wrong.AskError):
        moved = isinstance(error, wrong.MovedError)
        return (_MOVED if moved else _MOVING) if place.nodes else _ELSEWHERE
    for known, kind in _CLASSES.items():
        if isinstance(error, known):
            return kind
    if isinstance(error, wrong.ConnectionError | OSError):
        if CROWDED.decode() in text:
            return _TOO_MANY
        if "CERTIFICATE_VERIFY" in text:
            return NotAStore, "has a certificate that is not trusted ({text}): give ssl_ca_certs=FILE, or its name"
        return StoreAway, "{text}"
    if "DB index" in text:
        return NotAStore, "has no database of this number ({text})"
    if "cluster support disabled" in text:
        return NotAStore, "is no cluster: write redis:// or rediss://"
    return _WORDS.get(text.partition(" ")[0], (StoreError, "says: {text}"))
