"""What may be asked of a store, for tests of what comes in between."""

import itertools

from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import Terms
from pywheel.stores import Filter

__all__ = ["CALLS", "TERMS", "put"]

TERMS = Terms(60_000, 3)
SERIAL = itertools.count()


def put(store, *jobs, nonce=None):
    [outcome] = store.apply([ops.Put(jobs or (NewJob("t", b"x", 0),), nonce)])
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


CALLS = {
    "put": put,
    "put with a key": lambda store: put(store, NewJob("t", b"x", 0, f"k{next(SERIAL)}")),
    "put of a new topic": lambda store: put(store, NewJob(f"t{next(SERIAL)}", b"x", 0)),
    "cancel": lambda store: store.apply([ops.Cancel(1)]),
    "reserve": lambda store: store.apply([ops.Reserve("t", 1, TERMS, "w")]),
    "rewrite": lambda store: store.apply([ops.Rewrite(1, b"x", b"x")]),
    "keep": lambda store: store.apply([ops.Keep("n", b"v", 10**6)]),
    "note": lambda store: store.note("n"),
    "notes": lambda store: store.notes("n"),
    "get": lambda store: store.get(1),
    "get by key": lambda store: store.get(("t", "k")),
    "jobs": lambda store: store.jobs(Filter("t"), 0, 9),
    "counts": lambda store: store.counts(),
    "topics": lambda store: store.topics(),
    "history": lambda store: store.history(1),
    "histories": lambda store: store.histories([1, 2]),
    "states": lambda store: store.states([1, 2]),
    "next_dues": lambda store: store.next_dues(["t"]),
    "next_lease": lambda store: store.next_lease(),
    "notifier": lambda store: store.notifier("w"),
    "workers": lambda store: store.workers(),
    "pause": lambda store: store.apply([ops.Pause("t", True)]),
    "quiet": lambda store: store.quiet("t", 1),
}
