"""Tests that are coroutine functions."""

import asyncio
import functools

__all__ = ["on_a_loop"]


def on_a_loop(test):
    """Run a test on a loop of its own."""

    @functools.wraps(test)
    def run(*arguments, **fixtures):
        asyncio.run(test(*arguments, **fixtures))

    return run
