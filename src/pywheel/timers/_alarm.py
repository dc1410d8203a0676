"""The single call that a driver or a queue requests from an asyncio loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import Context
from typing import Any
from weakref import ref


class Alarm:
    """Asks a loop for a call of `ring`. An interrupt at any place may add a call, and never loses one.

    The loop owns its handle; the alarm has a weak reference to it. A loop drops the handle without calling it when it
    is closed, or when an interrupt comes between the two. The alarm then asks again.

    Args:
        loop: any loop. The alarm belongs to its thread.
        ring: the function that the loop calls.
        again: called if `ring` was interrupted, to ask for the next call.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], Any], again: Callable[[], Any]) -> None:
        self._loop = loop
        self._ring = ring
        self._again = again
        self._handle: ref[asyncio.Handle] | None = None
        self._asked_soon = False

    def ask(self, call: Callable[..., asyncio.Handle], *when: float) -> None:
        """Ask by `call`, a method of the loop, for a call that replaces the one before.

        The call has a context of its own: the caller's context would live on.
        """
        last, self._handle = self.handle(), self._asked(call, *when)
        if last is not None:
            last.cancel()  # not earlier: an interrupt then leaves one of the two

    def ask_soon(self) -> None:
        """Ask for a call in the loop's next turn, from any thread. Requests until then share one call."""
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
        """Cancel the call until the next request."""
        last, self._handle = self.handle(), None
        if last is not None:
            last.cancel()

    def handle(self) -> asyncio.Handle | None:
        """Return the loop's handle of the call; None if there is none."""
        return None if self._handle is None else self._handle()

    def _asked(self, call: Callable[..., asyncio.Handle], *when: float) -> ref[asyncio.Handle]:
        calls = self._calls()
        next(calls)
        return ref(call(*when, next, calls, context=Context()), self._dropped)

    def _calls(self) -> Generator[None, None, None]:
        """Call `ring`, or `again` if it is interrupted.

        An interrupt can hit a function as soon as it begins, before any `try` in it, and uvloop holds signals back
        until then. The loop has forgotten its handle by that time. A generator, however, resumes inside its `try`.
        """
        try:
            while True:
                yield
                self.cancel()  # the call that rings now, unless it was a surplus one
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
