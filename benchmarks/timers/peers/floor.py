"""The floor: a compiled class with the wheel's signatures whose methods do nothing."""

from __future__ import annotations

from typing import Any

from benchmarks.timers.peers import empty_call
from benchmarks.timers.peers.wheels import Keys, Wheel


class Floor(Wheel):
    """TimingWheel's calls, empty."""

    @property
    def kind(self) -> Any:
        return empty_call.load().Floor


class KeyFloor(Keys):
    """KeyWheel's calls, empty."""

    @property
    def kind(self) -> Any:
        return empty_call.load().KeyFloor
