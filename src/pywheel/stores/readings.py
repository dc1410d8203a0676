"""What stores share in answering queries of what is coming, and of what has just ended."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import pairwise

from ..jobs.queries import Ended

__all__ = ["in_buckets", "latest"]


def in_buckets(dues: Iterable[int], edges: Sequence[int]) -> list[int]:
    """Return how many due times lie between each two edges."""
    ordered = sorted(dues)
    places = [bisect_left(ordered, edge) for edge in edges]
    return [after - before for before, after in pairwise(places)]


def latest(found: Iterable[Ended], limit: int) -> list[Ended]:
    """Return those that ended last, the last one first."""
    return nlargest(limit, found, key=lambda one: (one.ended, one.id))
