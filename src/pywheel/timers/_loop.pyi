"""The contract of both implementations: `_pure_loop` has the same classes."""

import asyncio
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import Any, TypeVarTuple, final

from typing_extensions import disjoint_base

from ..clock import Clock

_Ts = TypeVarTuple("_Ts")

__pyx_capi__: dict[str, Any]  # what `_timeout` calls

@final
class TimerHandle(asyncio.TimerHandle):
    def cancel(self) -> None: ...

@disjoint_base
class WheelScheduling(asyncio.BaseEventLoop):
    _closed: bool
    _debug: bool
    _ready: Any
    _selector: Any
    _stopping: bool
    @property
    def _scheduled(self) -> list[TimerHandle]: ...
    @_scheduled.setter
    def _scheduled(self, handles: Iterable[asyncio.TimerHandle]) -> None: ...
    def __init__(self, *args: Any, clock: Clock | None = None, limit: int = 1_000, **kwargs: Any) -> None: ...
    def time(self) -> float: ...
    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle: ...
    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle: ...
    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle: ...
    def close(self) -> None: ...
    @property
    def _touched(self) -> int: ...
    def _check(self) -> None: ...
    def _run_once(self) -> None: ...
