"""CPython's own tests of asyncio.timeout, run on ours: python -m tests.timers.cpython_timeouts EventLoop [debug]

Beside EventLoop there are asyncio and uvloop. Those tests ask for debug mode, in which ours goes another way: without
the word they run without it.
"""

import asyncio
import importlib
import sys
import unittest
from functools import partial

from tests.timers.cpython_asyncio import PACKAGE, replace_timeouts

MODULES = ["test_timeouts", "test_waitfor"]

# uvloop counts in whole milliseconds from the present time on: of two timers for one time, either may be the first.
UNDECIDED = {"uvloop": ["test_nested_timeouts"]}


def main(kind: str, debug: bool) -> None:
    """Run them on loops of a kind; the exit code is 1 if one fails."""
    runner = asyncio.Runner
    asyncio.Runner = partial(_runner, runner, _maker(kind), debug)
    replace_timeouts()
    importlib.import_module("test.support").verbose = False
    names = [f"{PACKAGE}.{name}" for name in MODULES if importlib.util.find_spec(f"{PACKAGE}.{name}")]
    suite = unittest.TestSuite()
    for test in _flat(unittest.defaultTestLoader.loadTestsFromNames(names)):
        if test._testMethodName not in UNDECIDED.get(kind, ()):
            suite.addTest(test)
    outcome = unittest.TextTestRunner(verbosity=0).run(suite)
    assert outcome.testsRun > 20
    sys.exit(not outcome.wasSuccessful())


def _flat(suite: unittest.TestSuite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _flat(test)
        else:
            yield test


def _maker(kind: str):
    if kind == "asyncio":
        return asyncio.SelectorEventLoop
    if kind == "uvloop":
        return importlib.import_module("uvloop").new_event_loop
    return importlib.import_module("pywheel").EventLoop


def _runner(runner, maker, wanted, *, debug=None, loop_factory=None):
    return runner(debug=wanted, loop_factory=maker)


if __name__ == "__main__":
    main(sys.argv[1], "debug" in sys.argv)
