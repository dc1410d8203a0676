"""Picks the implementation of timers and their drivers: the same as the core's."""

from typing import TYPE_CHECKING

from ..core import implementation

__all__ = ["Driver", "Timer"]

if TYPE_CHECKING or implementation == "native":
    from ._timers import Driver, Timer
else:
    from ._pure_driver import Driver, Timer
