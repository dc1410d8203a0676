"""Waiting for facts, never for a time: a limit ends a test that hangs, and asserts nothing."""

import time

LIMIT = 60


def until(fact, limit=LIMIT):
    """Wait until a fact holds; fail if it does not within a minute."""
    end = time.monotonic() + limit
    while not fact():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)
