"""Stores in files, for tests."""

from contextlib import contextmanager

from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import ClaimPolicy
from pywheel.stores import open

__all__ = ["NOW", "TERMS", "plan_of", "put", "reopened", "traced"]

NOW = 1_700_000_000_000
TERMS = ClaimPolicy(1_000, 3)


def put(store, body=b"b", topic="t", **options):
    """Put a job that is due; return its id, or raise the refusal."""
    [outcome] = store.apply([ops.Put((NewJob(topic, body, 0, **options),))])
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome[0]


@contextmanager
def traced(store):
    """Yield the statements that are sent by the writing connection within, as they are sent."""
    texts = []
    store._connection.set_trace_callback(texts.append)
    try:
        yield texts
    finally:
        store._connection.set_trace_callback(None)


def plan_of(store, text):
    """Return how SQLite finds what a statement reads."""
    return [row[3] for row in store._connection.execute(f"EXPLAIN QUERY PLAN {text}")]


def reopened(path, clock=None):
    return open(f"sqlite:///{path}", clock=clock)
