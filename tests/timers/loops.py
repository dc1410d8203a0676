"""The common helpers of the tests of loops."""

import asyncio
import selectors

import pytest


def nothing(*_):
    """A callback."""


def make_loop(pywheel, kind):
    """Return a new loop: EventLoop, asyncio's, or uvloop's."""
    if kind == "EventLoop":
        return pywheel.EventLoop()
    return asyncio.SelectorEventLoop() if kind == "asyncio" else pytest.importorskip("uvloop").new_event_loop()


def turn(loop):
    """Run one turn, without waiting."""
    loop.call_soon(loop.stop)
    loop.run_forever()


class Impatient(selectors.SelectSelector):
    """Keeps the timeouts, and never waits."""

    def __init__(self):
        super().__init__()
        self.timeouts = []

    def select(self, timeout=None):
        self.timeouts.append(timeout)
        return super().select(0)


async def sleep(driver, seconds):
    """Sleep on the driver's own clock, so that nothing due before is still to come."""
    done = asyncio.Event()
    driver.call_later(seconds, done.set)
    await done.wait()


class Told:
    """A clock that shows the nanoseconds that it was told, and may go back."""

    def __init__(self, now=0):
        self.now = now

    def time_ns(self):
        return self.now
