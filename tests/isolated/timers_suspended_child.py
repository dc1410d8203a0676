"""Run timers in a process that is suspended: what they saw must fit together, whatever time it took."""

import asyncio
import sys
import threading

import pywheel

INTERVAL = 0.01


class Records:
    """Periodic timers of each policy, and twenty single ones."""

    def __init__(self, timers):
        self.timers = timers
        self.start = timers.time()
        self.calls = {"skip": [], "burst": [], "once": []}
        self.once = [timers.call_later(0.02 * number, self.record, "once", number) for number in range(20)]
        self.periodic = {
            missed: timers.call_every(INTERVAL, self.record, missed, first=0.2, missed=missed)
            for missed in ("skip", "burst")
        }
        self.first = {missed: timer.when() for missed, timer in self.periodic.items()}

    def record(self, kind, number=0):
        self.calls[kind].append((self.timers.time() - self.start, number))

    def check(self):
        """Compare, in a callback, so that nothing runs meanwhile."""
        assert [number for _, number in self.calls["once"]] == list(range(20))
        assert all(when >= 0.02 * number for when, number in self.calls["once"])
        skip, burst = self.calls["skip"], self.calls["burst"]
        assert all(when >= 0.2 + INTERVAL * number for number, (when, _) in enumerate(burst)), "early"
        assert abs(self.planned("burst") - len(burst)) < 0.2, "a call was not made up for"
        assert abs(self.planned("skip") - round(self.planned("skip"))) < 0.2, "not at a planned time"
        assert len(burst) >= len(skip) + 20, "the jump was more than one call for the one that skips"
        print("well", flush=True)

    def planned(self, missed):
        """Return the number of the next call, by its time."""
        return (self.periodic[missed].when() - self.first[missed]) / INTERVAL


def wait_for_the_parent():
    print("ready", flush=True)
    sys.stdin.readline()


def with_a_thread():
    with pywheel.ThreadTimers() as timers:
        records, done = Records(timers), threading.Event()
        wait_for_the_parent()
        timers.call_later(0.5, lambda: (records.check(), done.set()))
        assert done.wait(60)


async def with_asyncio():
    async with pywheel.AsyncTimers() as timers:
        records, done = Records(timers), asyncio.Event()
        await asyncio.to_thread(wait_for_the_parent)
        timers.call_later(0.5, lambda: (records.check(), done.set()))
        await asyncio.wait_for(done.wait(), 60)


if sys.argv[1] == "thread":
    with_a_thread()
else:
    asyncio.run(with_asyncio())
