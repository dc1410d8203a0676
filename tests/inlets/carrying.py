"""A running bridge beside a test."""

import asyncio
from contextlib import asynccontextmanager

from pywheel.inlets.bridge import Bridge

__all__ = ["carrying", "until"]


@asynccontextmanager
async def carrying(jobs, source, topic="t"):
    bridge = Bridge(jobs, topic, source)
    task = asyncio.create_task(bridge.run())
    try:
        yield bridge
    finally:
        bridge.stop()
        await task


async def until(fact):
    """Wait until a fact holds; fail if it does not within a minute."""
    async with asyncio.timeout(40):
        while not fact():
            await asyncio.sleep(0.01)
