"""Fills a new store with jobs in every state, and prints what can be read of it: `python fill.py URL`.

It is run with the pywheel of each version, so it imports nothing else, and leaves out what that does not have yet.
"""

import json
import sys
from dataclasses import fields
from datetime import timedelta

from pywheel.clock import ManualClock
from pywheel.jobs import NewJob
from pywheel.jobs import commands as c
from pywheel.jobs.commands import Terms
from pywheel.stores import Filter, open

NOW = 1_700_000_000_000
HOUR = 3_600_000
TERMS = {"ttr": 10 * HOUR, "max_attempts": 3}


def knows(kind, name):
    """Whether a command or record of this version has such a part."""
    names = getattr(kind, "_fields", None) or [field.name for field in fields(kind)]
    return name in names


class Filler:
    """Does to a store what a busy day does."""

    def __init__(self, url):
        self.clock = ManualClock(wall=NOW)
        self.store = open(url, clock=self.clock)

    def apply(self, command):
        [outcome] = self.store.apply([command])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def put(self, topic="t", body=b"b", due=NOW, **more):
        [id] = self.apply(c.Put((NewJob(topic, body, due, **more),)))
        return id

    def reserve(self, topic, limit=1, **terms):
        return self.apply(c.Reserve(topic, limit, Terms(**{**TERMS, **terms}), "worker 1"))

    def fill(self):
        self.waiting()
        self.finished()
        self.again()
        self.taken()
        self.newer()
        self.clock.advance(timedelta(minutes=1))

    def waiting(self):
        """Jobs that wait, due and not, some with a key; a topic that is paused, and one that is empty."""
        self.put("far", b"far", NOW + 10 * HOUR, key="far", ttr=5_000, max_attempts=7, headers={"h": "\N{SNOWMAN}"})
        for n in range(3):
            self.put("due", b"" if n else bytes(range(256)), NOW - n, key=f"k{n}" if n else None)
        self.put("due", b"created long ago", NOW - 40 * HOUR)
        self.put("a: \N{SNOWMAN}", b"", NOW + HOUR, key="k: \N{SNOWMAN}")
        self.put("paused", b"paused", NOW)
        self.apply(c.Pause("paused", True))
        self.apply(c.Pause("resumed", True))
        self.apply(c.Pause("resumed", False))
        self.apply(c.Delete(self.put("empty")))

    def finished(self):
        """Jobs that are done, dead and cancelled, after one attempt or several."""
        for n, error in enumerate(("boom", None, "\N{SNOWMAN}")):
            self.put("t", b"%d" % n, key=f"k{n}")
            self.clock.advance(timedelta(seconds=1))
            [job] = self.reserve("t")
            self.apply(c.Ack(job.id, job.claims))
            self.put("t", b"%d" % n, key=f"k{n}")
            [job] = self.reserve("t")
            self.apply(c.Nack(job.id, job.claims, None, error))
        self.put("t", b"twice")
        for delay in (0, None):
            self.clock.advance(timedelta(seconds=1))
            [job] = self.reserve("t")
            self.apply(c.Nack(job.id, job.claims, delay, f"after {delay}"))
        self.apply(c.Cancel(self.put("t", b"cancelled", NOW + HOUR, key="cancelled")))

    def again(self):
        """Jobs that wait after they were retried, lost, released and failed."""
        self.put("t", b"retried")
        [job] = self.reserve("t")
        self.apply(c.Ack(job.id, job.claims))
        self.apply(c.Retry(job.id, NOW + 2 * HOUR))
        self.put("t", b"failed", max_attempts=2)
        [job] = self.reserve("t")
        self.apply(c.Nack(job.id, job.claims, HOUR, "not yet"))
        self.put("lost", b"lost")
        self.reserve("lost", ttr=10, backoff=(HOUR,))
        self.clock.advance(timedelta(seconds=1))
        self.apply(c.Expire(100))
        self.put("released", b"released")
        [job] = self.reserve("released")
        self.apply(c.Release(job.id, job.claims))

    def taken(self):
        """Jobs that run: begun, held, over without that anybody noticed, and one whose key has a successor."""
        self.put("run", b"running")
        self.reserve("run")
        held = self.put("run", b"held")
        self.apply(c.Claim("run", (held,), Terms(**TERMS, hold=5 * HOUR), "worker 2", 0))
        self.put("over", b"over")
        self.reserve("over", ttr=10)
        self.put("chain", b"parent", key="chain")
        [job] = self.reserve("chain")
        self.put("chain", b"successor", NOW + HOUR, key="chain", parent=(job.id, job.claims))

    def newer(self):
        """What not every version had."""
        if knows(c.Put, "nonce"):
            self.apply(c.Put((NewJob("nonce", b"once", NOW + HOUR),), "nonce 1"))
        if knows(c.Ack, "result"):
            self.put("result", b"result")
            [job] = self.reserve("result")
            self.apply(c.Ack(job.id, job.claims, b"\0result"))
        if hasattr(c, "Keep"):
            self.apply(c.Keep("for ever", b"\0value"))
            self.apply(c.Keep("for a day", b"", 24 * HOUR))
        if knows(NewJob, "priority"):
            for priority in (-1, 0, 9, 9, 3):
                self.put("lanes", b"%d" % priority, priority=priority)
            self.put("lanes", b"later", NOW + 3 * HOUR, priority=5)
            self.reserve("lanes")
        if knows(Terms, "limits") and self.store.keeps_limits:
            from pywheel.jobs.limits import Limits

            for n in range(3):
                self.put("limited", b"%d" % n)
            self.reserve("limited", 3, limits=Limits(1))

    def read(self):
        """Return all that can be read, by names."""
        jobs = self.store.jobs(Filter(), 0, 1_000)
        readings = {
            "now": self.clock.wall(),
            "jobs": [job._asdict() for job in jobs],
            "histories": {job.id: [row._asdict() for row in self.store.history(job.id)] for job in jobs},
            "counts": {topic: counts._asdict() for topic, counts in self.store.counts().items()},
            "topics": [topic._asdict() for topic in self.store.topics()],
        }
        if hasattr(c, "Keep"):
            readings["notes"] = dict(self.store.notes(""))
        return readings


def plain(value):
    """Return what JSON has no form for."""
    if isinstance(value, bytes):
        return {"bytes": value.decode("latin-1")}
    if hasattr(value, "items"):
        return dict(value)
    return list(value)


if __name__ == "__main__":
    filler = Filler(sys.argv[1])
    filler.fill()
    print(json.dumps(filler.read(), default=plain))
    filler.store.close()
