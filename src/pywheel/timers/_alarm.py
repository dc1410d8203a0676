"""The one call that a driver or a queue has from an asyncio loop at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import Context
from typing import Any
from weakref import ref


class Alarm:
    """Asks a loop for a call of `ring`. An interrupt at any place may add a call, and never loses one.

    The loop owns its handle, and the alarm knows it weakly. A loop drops its handle without the call if an interrupt
    comes between the two, and when it is closed: the alarm then asks again.

    Args:
        loop: any loop, of whose thread the alarm is.
        ring: what the loop is to call.
        again: called if `ring` was interrupted: it asks for the next call.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], Any], again: Callable[[], Any]) -> None:
        self._loop = loop
        self._ring = ring
        self._again = again
        self._handle: ref[asyncio.Handle] | None = None
        self._asked_soon = False

    def ask(self, call: Callable[..., asyncio.Handle], *when: float) -> None:
        """Ask by `call`, a method of the loop, for a call instead of the one that was asked for before.

        It runs in a context of its own: the caller's would live on.
        """
        last, self._handle = self.handle(), self._asked(call, *when)
        if last is not None:
            last.cancel()  # only now: an interrupt leaves one of the two

    def ask_soon(self) -> None:
        """Ask for a call in the loop's next turn, from any thread. One is enough for all who ask until it comes."""
        if self._asked_soon:
            return
        self._asked_soon = True
        try:
            with suppress(RuntimeError):  # the loop is closed
                self._handle = self._asked(self._loop.call_soon_threadsafe)
        except BaseException:
            self._asked_soon = False
            raise

    def cancel(self) -> None:
        """Have no call until the next is asked for."""
        last, self._handle = self.handle(), None
        if last is not None:
            last.cancel()

    def handle(self) -> asyncio.Handle | None:
        """Return the loop's handle of the call, None without one."""
        return None if self._handle is None else self._handle()

    def _asked(self, call: Callable[..., asyncio.Handle], *when: float) -> ref[asyncio.Handle]:
        calls = self._calls()
        next(calls)
        return ref(call(*when, next, calls, context=Context()), self._dropped)

    def _calls(self) -> Generator[None, None, None]:
        """Call `ring`, or `again` if it is interrupted.

        A function is interrupted as soon as it begins, before any `try` in it, and uvloop holds signals back until
        then; the loop has forgotten its handle by that time. But a generator goes on in the midst of a `try`.
        """
        try:
            while True:
                yield
                self.cancel()  # the one that rings, unless that was one too many
                self._asked_soon = False
                self._ring()
        except GeneratorExit:
            pass
        except BaseException:
            self._asked_soon = False
            self._again()
            raise

    def _dropped(self, handle: ref[asyncio.Handle]) -> None:
        if handle is self._handle:
            self._asked_soon = False
            self.ask_soon()
