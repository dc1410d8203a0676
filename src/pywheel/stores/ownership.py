"""The owners of a topic's shards, and so of its slices of time: they follow from the list of workers alone.

Rendezvous hashing (Thaler and Ravishankar, 1998) with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018): the
highest weights of workers for shards are served first, and a worker that has its part gets no more before all have
theirs. So parts differ by one, and a worker that comes or goes moves one shard or two between the others. Ownership is
advice; the claim decides.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final
from zlib import crc32

from ..jobs.job import SHARDS, SLICE, slice_of

ALL: Final = (1 << SHARDS) - 1
"""The mask of every shard."""
_MIX: Final = 0x9E3779B97F4A7C15
_WORD: Final = 2**64 - 1


def owners(topic: str, workers: Collection[str]) -> tuple[str, ...]:
    """Return the owner of each shard of a topic, by shard; () without workers. O(1) for workers seen before."""
    if not workers:
        return ()
    table = _table(frozenset(workers))
    # Rotated for each topic: else a worker would have the same part of each.
    turn = crc32(topic.encode("utf-8", "surrogatepass")) % SHARDS
    return table[turn:] + table[:turn]


def shards_of(worker: str, topic: str, workers: Collection[str]) -> int:
    """Return the mask of the shards of a topic that a worker owns. O(1) for workers seen before."""
    return sum(1 << shard for shard, owner in enumerate(owners(topic, workers)) if owner == worker)


def turn(shards: int, due: int, late: int) -> int:
    """Return when a worker with these shards asks for a job that is due then: at once in a slice of its own.

    Otherwise it asks when its own next slice begins: the owner went first, and any worker with room may take the rest.
    Or after `late` ms, if that is sooner.
    """
    shard = slice_of(due)
    if shards >> shard & 1:
        return due
    begin = due - due % SLICE
    for ahead in range(1, min(SHARDS, late // SLICE)):
        if shards >> (shard + ahead) % SHARDS & 1:
            return begin + ahead * SLICE
    return due + late


@lru_cache(maxsize=64)
def _table(workers: frozenset[str]) -> tuple[str, ...]:
    """Return an owner for each of the shards. O(shards x workers), some 200 ns each for workers seen before."""
    wishes = sorted(
        ((weight, shard, name) for name in workers for shard, weight in enumerate(_weights(name))), reverse=True
    )
    owner: dict[int, str] = {}
    parts = dict.fromkeys(workers, 0)
    for part in (SHARDS // len(workers), -(-SHARDS // len(workers))):
        for _, shard, name in wishes:
            if shard not in owner and parts[name] < part:
                owner[shard] = name
                parts[name] += 1
    return tuple(owner[shard] for shard in range(SHARDS))


@lru_cache(maxsize=4096)
def _weights(worker: str) -> tuple[int, ...]:
    seed = crc32(worker.encode()) | crc32(worker.encode(), _MIX & 0xFFFFFFFF) << 32
    return tuple(_weight(seed, shard) for shard in range(SHARDS))


def _weight(seed: int, shard: int) -> int:
    """Mix two numbers into one that looks random (the finaliser of MurmurHash3)."""
    word = (seed + shard * _MIX) & _WORD
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _WORD
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _WORD
    return word ^ word >> 33
