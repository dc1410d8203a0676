"""Stores in files, for tests."""

from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import ClaimPolicy
from pywheel.stores import open

__all__ = ["NOW", "TERMS", "put", "reopened"]

NOW = 1_700_000_000_000
TERMS = ClaimPolicy(1_000, 3)


def put(store, body=b"b", topic="t"):
    [[id]] = store.apply([ops.Put((NewJob(topic, body, NOW),))])
    return id


def reopened(path, clock=None):
    return open(f"sqlite:///{path}", clock=clock)
