"""The common helpers of the tests of loops."""

import asyncio
import selectors


def nothing(*_):
    """A callback."""


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
