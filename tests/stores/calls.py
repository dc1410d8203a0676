"""The calls of a store, for tests of the layers in between, and what many tests do."""

import itertools
from concurrent.futures import ThreadPoolExecutor

from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs import queries as q
from pywheel.jobs.commands import ClaimPolicy
from pywheel.stores import Filter

__all__ = ["CALLS", "QUERIES", "TERMS", "ended", "in_threads", "listening", "put", "put_many", "settle"]

TERMS = ClaimPolicy(60_000, 3)
SERIAL = itertools.count()


def put(store, *jobs, nonce=None):
    [outcome] = store.apply([ops.Put(jobs or (NewJob("t", b"x", 0),), nonce)])
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def put_many(store, count=1, topic="t", due=0, **options):
    """Put so many jobs; return their ids."""
    return put(store, *[NewJob(topic, b"b", due, **options)] * count)


def settle(notifier):
    """Take in all that has been said until now."""
    while notifier.wait(0):
        pass
    notifier.hints()


def listening(store, *topics, name="w"):
    """Return a notifier that has announced topics, is to hear of all their jobs, and has heard all until now."""
    notifier = store.notifier(name)
    store.apply([ops.Announce(notifier.worker, topics or ("t",))])
    notifier.publish(2**45)
    settle(notifier)
    return notifier


def ended(call):
    """Return what a call in a thread returned or raised."""
    return call.exception(60) or call.result()


def in_threads(*works):
    """Call functions at once, each in a thread of its own; return what they return, or raise what one raises."""
    with ThreadPoolExecutor(len(works)) as threads:
        return [call.result() for call in [threads.submit(work) for work in works]]


QUERIES = {
    type(query): query
    for query in (
        q.GetJob(1),
        q.ListJobs(Filter("t"), 0, 9),
        q.GetPage(Filter("t")),
        q.GetHistories([1, 2]),
        q.GetStates([1, 2]),
        q.CountJobs(),
        q.ListTopics(),
        q.GetForecast([0, 9]),
        q.ListEnded("t", 0, 9),
        q.GetNote("n"),
        q.ListNotes("n"),
        q.GetNextLease(),
        q.GetNextDues(["t"]),
        q.ListFirstDue("t", 9),
        q.ListClaims("w"),
        q.ListWorkers(),
    )
}
"""One query of each kind."""

SENT = (q.CountJobs, q.GetPage, q.GetNextLease, q.ListWorkers)  # all other queries go the way of the first two

CALLS = {
    "put": put,
    "put with a key": lambda store: put(store, NewJob("t", b"x", 0, f"k{next(SERIAL)}")),
    "put of a new topic": lambda store: put(store, NewJob(f"t{next(SERIAL)}", b"x", 0)),
    "cancel": lambda store: store.apply([ops.Cancel(1)]),
    "reserve": lambda store: store.apply([ops.Reserve("t", 1, TERMS, "w")]),
    "rewrite": lambda store: store.apply([ops.Rewrite(1, b"x", b"x")]),
    "keep": lambda store: store.apply([ops.SetNote("n", b"v", 10**6)]),
    "get by key": lambda store: store.ask(q.GetJob(("t", "k"))),
    **{kind.__name__: lambda store, query=QUERIES[kind]: store.ask(query) for kind in SENT},
    "pause": lambda store: store.apply([ops.Pause("t", True)]),
    "quiet": lambda store: store.quiet("t", 1),
    "notifier": lambda store: store.notifier("w"),  # last: `quiet` would wait for it
}
