"""Stores in files, for tests."""

import sqlite3
import time
from contextlib import closing, contextmanager

import pytest

from pywheel.jobs import NewJob
from pywheel.jobs.commands import ClaimPolicy
from pywheel.stores import open
from pywheel.stores.sql import engine
from pywheel.stores.sqlite.connection import BUSY_SECONDS
from tests.stores import calls

__all__ = [
    "NOW", "TERMS", "connection_of", "execute", "interrupted", "locked", "plan_of", "put", "put_many", "reopened",
    "traced",
]  # fmt: skip

NOW = 1_700_000_000_000
TERMS = ClaimPolicy(1_000, 3)


def put(store, body=b"b", topic="t", **options):
    """Put a job that is due; return its id, or raise the refusal."""
    return calls.put(store, NewJob(topic, body, 0, **options))[0]


def put_many(store, count, size):
    """Put jobs that are due, with bodies of so many bytes, in one transaction."""
    return calls.put(store, *(NewJob("t", b"x" * size, NOW) for _ in range(count)))


def execute(path, script):
    """Run SQL as another program does."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


@contextmanager
def locked(path):
    """Have another program in the middle of a transaction; yield its connection."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


@contextmanager
def interrupted(kind):
    """Interrupt commands of a kind once their statements have run."""
    real = engine._PARTS[kind]

    def run(*arguments):
        yield from real(*arguments)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engine._PARTS, kind, run)
        with pytest.raises(KeyboardInterrupt):
            yield


def connection_of(store):
    """Return the connection on which a store writes its file."""
    return store._database.open(time.monotonic() + BUSY_SECONDS)


@contextmanager
def traced(store):
    """Yield the statements that are sent by the writing connection within, as they are sent."""
    texts = []
    connection_of(store).set_trace_callback(texts.append)
    try:
        yield texts
    finally:
        connection_of(store).set_trace_callback(None)


def plan_of(store, text):
    """Return how SQLite finds what a statement reads."""
    return [row[3] for row in connection_of(store).execute(f"EXPLAIN QUERY PLAN {text}")]


def reopened(path, clock=None):
    return open(f"sqlite:///{path}", clock=clock)
