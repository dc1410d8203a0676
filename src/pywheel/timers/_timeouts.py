"""Picks the implementation of timeouts: the same as the core's. The twin is asyncio's own."""

from typing import TYPE_CHECKING

from ..core import implementation

__all__ = ["timeout", "timeout_at"]

if TYPE_CHECKING or implementation == "native":
    from ._timeout import timeout, timeout_at
else:
    from asyncio import timeout, timeout_at
