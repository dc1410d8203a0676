"""A poller: it asks many sources again and again, with a limit for each and for all together.

Each source has a periodic timer with a coroutine function as callback; a jitter spreads them. A limit on requests a
second is another periodic timer, which hands out permits; a poll that finds none is left out. One source fails: that
is reported, and the others go on.
"""

import argparse
import asyncio
from collections import Counter

import pywheel


class Permits:
    """At most `rate` a second: that many are there, and each tick brings one back."""

    def __init__(self, timers, rate):
        self.most = self.free = max(1, rate // 10)
        timers.call_every(1 / rate, self.refill)

    def refill(self):
        self.free = min(self.most, self.free + 1)

    def take(self):
        """Return whether there was one."""
        if self.free == 0:
            return False
        self.free -= 1
        return True


async def main(arguments):
    """Poll for some seconds, and tell how often."""
    counts = Counter()

    def on_error(timer, error):
        counts["failed"] += 1

    async def poll(source, permits):
        if not permits.take():
            counts["left out"] += 1
            return
        await asyncio.sleep(0.005)  # here would be a request
        if source == 0:
            raise ConnectionError("source 0 is down")
        counts["answered"] += 1

    async with pywheel.AsyncTimers(on_error=on_error) as timers:
        start, permits = timers.time(), Permits(timers, arguments.rate)
        for source in range(arguments.sources):
            first = arguments.interval * source / arguments.sources
            timers.call_every(
                arguments.interval, poll, source, permits, first=first, jitter=arguments.interval / 10, missed="skip"
            )
        print(f"{arguments.sources} sources, each every {arguments.interval:g} s; {arguments.rate} requests a second")
        await asyncio.sleep(arguments.seconds)
        allowed = permits.most + arguments.rate * (timers.time() - start)
    await asyncio.sleep(0.05)  # for those still under way
    for outcome in ("answered", "failed", "left out"):
        print(f"{counts[outcome]:6} {outcome}")
    print(f"{allowed:6.0f} were allowed")


def parse():
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=int, default=100, help="how many (default: %(default)s)")
    parser.add_argument("--interval", type=float, default=0.5, help="seconds between two polls (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=150, help="requests a second, in all (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long it runs (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(parse()))
