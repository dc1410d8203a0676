"""How much is measured. BENCH=quick measures the same things with less patience."""

from __future__ import annotations

import os

QUICK = os.environ.get("BENCH", "") == "quick"

SIZES = (1_000, 100_000, 1_000_000)
_ROUNDS = {1_000: 11, 100_000: 7, 1_000_000: 3}
_QUICK_ROUNDS = {1_000: 4, 100_000: 3, 1_000_000: 1}


def rounds(size: int) -> int:
    """Return how often each peer takes its turn."""
    return (_QUICK_ROUNDS if QUICK else _ROUNDS)[size]


def bulk_size(most: int) -> int:
    """Return the size of the largest bulk runs."""
    return min(most, 1_000_000) if QUICK else most
