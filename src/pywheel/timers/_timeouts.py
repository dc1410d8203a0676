"""Picks the implementation of timeouts: that of the event loop. The twin is asyncio's own."""

from typing import TYPE_CHECKING

from ..core import takes_native

__all__ = ["timeout", "timeout_at"]

if TYPE_CHECKING or takes_native("._timeout", __package__):
    from ._timeout import timeout, timeout_at
else:
    from asyncio import timeout, timeout_at
