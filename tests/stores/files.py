"""Stores in files, for tests."""

from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import ClaimPolicy
from pywheel.stores import open

__all__ = ["NOW", "TERMS", "put", "reopened"]

NOW = 1_700_000_000_000
TERMS = ClaimPolicy(1_000, 3)


def put(store, body=b"b", topic="t", **options):
    """Put a job that is due; return its id, or raise the refusal."""
    [outcome] = store.apply([ops.Put((NewJob(topic, body, 0, **options),))])
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome[0]


def reopened(path, clock=None):
    return open(f"sqlite:///{path}", clock=clock)
