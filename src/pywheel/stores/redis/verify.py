"""Checks of jobs and their places: a few hundred a call, so that nobody waits. Each job is checked at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from .. import verify as faults
from ..verify import Fault, Finding, verified
from .records import pairs, parts

if TYPE_CHECKING:
    from .store import RedisStore

_SOME: Final = 100  # places looked at by one call
_FAULTS: Final = (
    Fault(faults.NOWHERE.what, "delayed again, due as their last claim left it, or at once if they have none"),
    faults.TWICE,
    faults.NO_JOB,
    faults.INDEXES,
    faults.KEYS,
    faults.KEYLESS,
    faults.HISTORY,
    faults.IDS,
    Fault(faults.TOPICS.what, "listed again"),
    faults.NOTES,
)
"""The faults, as the function numbers them."""


def verify(store: RedisStore, *, repair: bool) -> list[Finding]:
    """Return the faults, by up to three walks through all keys of the server's database."""
    return verified(lambda: _walk(store, mend=False), (lambda: _walk(store, mend=True)) if repair else None)


def _walk(store: RedisStore, *, mend: bool) -> list[Finding]:
    found: dict[int, set[Any]] = {}  # ids, or names of notes
    for kind, name, members in _parts(store):
        for number, id in pairs(
            store.run("mend" if mend else "verify", name, *members, mend=mend, kind=kind.decode())[1]
        ):
            found.setdefault(number, set()).add(id.decode() if isinstance(id, bytes) else id)
    return [finding for number in sorted(found) for finding in _FAULTS[number - 1].found(sorted(found[number]))]


def _parts(store: RedisStore) -> Iterator[tuple[bytes, bytes, list[bytes]]]:
    """Yield the parts for one call each: the kind of key, its name, and members.

    Wrong entries are removed before missing ones are added: jobs come last.
    """
    prefix = store.server.prefix + b":"
    for kind in (b"k", b"o", b"d", b"f", b"l", b"g"):
        for key in _found(store, b"SCAN", match=prefix + kind + b":*"):
            for some in parts(_members(store, b"HSCAN" if kind == b"k" else b"ZSCAN", key), _SOME):
                yield kind, key[len(prefix) + 2 :], some
    for scan, key in ((b"HSCAN", b"e"), (b"ZSCAN", b"c"), (b"ZSCAN", b"c:ends")):
        for some in parts(_members(store, scan, prefix + key), _SOME):
            yield b"e", b"", some
    keys = _found(store, b"SCAN", match=prefix + b"h:*")
    for some in parts((key[len(prefix) + 2 :] for key in keys), _SOME):
        yield b"h", b"", some
    for kind in (b"s", b"r", b"j"):
        for key in _found(store, b"SCAN", match=prefix + kind + b":*"):
            for some in parts(store.call(b"HKEYS", key), _SOME):
                yield kind, key[len(prefix) + 2 :], some


def _found(store: RedisStore, *scan: bytes, match: bytes = b"*") -> Iterator[bytes]:
    """Yield the results of a scan; some may come twice."""
    cursor = b"0"
    while True:
        cursor, found = store.call(*scan, cursor, b"MATCH", match, b"COUNT", b"1000")
        yield from found
        if cursor == b"0":
            return


def _members(store: RedisStore, *scan: bytes) -> Iterator[bytes]:
    """Yield the members of a set, or the fields of a hash, without scores or values."""
    return islice(_found(store, *scan), 0, None, 2)
