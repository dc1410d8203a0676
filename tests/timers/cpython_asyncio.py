"""CPython's own tests of asyncio, run on our loop: python -m tests.timers.cpython_asyncio [native] [pure] [test_x ...]

The implementations are tested side by side, each in a process of its own.

Every loop that those tests make has our scheduling: the default loop, BaseEventLoop, and the bases for selectors and
proactors. A test that fails is run again on asyncio's own loop, and counts if it passes there. Exits with 0 if none
counts, or if this Python comes without its tests.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from asyncio import base_events, proactor_events, selector_events
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import repeat
from pathlib import Path

PACKAGE = "test.test_asyncio"
SCHEDULING = {"native": "pywheel.timers._loop", "pure": "pywheel.timers._pure_loop"}
MODULES = """
    test_base_events test_buffered_proto test_context test_eager_task_factory test_events test_free_threading
    test_futures test_futures2 test_graph test_locks test_pep492 test_proactor_events test_protocols test_queues
    test_runners test_selector_events test_sendfile test_server test_sock_lowlevel test_ssl test_sslproto
    test_staggered test_streams test_subprocess test_taskgroups test_tasks test_threads test_timeouts
    test_transports test_unix_events test_waitfor test_windows_events
""".split()

# These tests assert asyncio's heap itself, which is not there.
WHITE_BOX = {
    f"test_base_events.BaseEventLoopTests.{name}": reason
    for name, reason in {
        "test__run_once": "appends handles to the heap",
        "test__run_once_schedule_handle": "appends a handle to the heap",
        "test__run_once_cancelled_event_cleanup": "counts the cancelled handles that are still on the heap",
    }.items()
}


def main(arguments: Sequence[str]) -> int:
    """Run on each implementation named, or on both; return the exit code."""
    if importlib.util.find_spec("test") is None or importlib.util.find_spec(PACKAGE) is None:
        print("this Python comes without test.test_asyncio: nothing is run")
        return 0
    implementations = [name for name in SCHEDULING if name in arguments] or list(SCHEDULING)
    modules = [name for name in arguments if name not in SCHEDULING] or MODULES
    with ThreadPoolExecutor(len(implementations)) as pool:
        verdicts = list(pool.map(judge, implementations, repeat(modules)))
    print(*(report for _, report in verdicts), sep="\n")
    return int(any(bad for bad, _ in verdicts))


def judge(implementation: str, modules: Sequence[str]) -> tuple[bool, str]:
    """Return whether a test fails on our loop that passes on asyncio's, and a report that says which."""
    count, failed = in_a_process(implementation, modules)
    expected = sorted(name for name in failed if name in WHITE_BOX)
    others = sorted(set(failed) - set(expected))
    stock = in_a_process("stock", others)[1] if others else {}
    ours = [name for name in others if name not in stock]
    known = f"{len(expected)} are about asyncio's heap, {len(others) - len(ours)} fail on asyncio's own loop too"
    report = [f"{implementation}: {count} tests, {len(ours)} fail, {known}"]
    for name in ours:
        report += ["=" * 100, f"{implementation}: {name}", failed[name]]
    return bool(ours) or not count, "\n".join(report)


def in_a_process(scheduling: str, names: Sequence[str]) -> tuple[int, dict[str, str]]:
    """Run modules or tests in a process of their own; return how many ran, and the traceback of each that failed."""
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory, "result.json")
        subprocess.run(
            [sys.executable, "-m", "tests.timers.cpython_asyncio", "--run", scheduling, str(result), *names],
            check=True,
            timeout=1_800,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )
        count, failed = json.loads(result.read_text())
        return count, failed


# ---- in the process -------------------------------------------------------------------------------------------------


def run(scheduling: str, result: str, names: Sequence[str]) -> None:
    """Run modules or tests, with our scheduling unless it says stock, and write what came of it."""
    if scheduling == "native":  # the twin of our timeouts is asyncio's
        replace_timeouts()  # they know asyncio's loop, so before that is another
    if scheduling in SCHEDULING:
        replace_loops(importlib.import_module(SCHEDULING[scheduling]).WheelScheduling)
    importlib.import_module("test.support").verbose = False
    suite = unittest.TestSuite()
    for name in names:
        module = f"{PACKAGE}.{name.partition('.')[0]}"
        if importlib.util.find_spec(module) is not None:
            with suppress(unittest.SkipTest):  # of another system
                suite.addTests(unittest.defaultTestLoader.loadTestsFromName(f"{PACKAGE}.{name}"))
    outcome = unittest.TextTestRunner(stream=sys.stderr, verbosity=0, buffer=True).run(suite)
    failed: dict[str, str] = {}
    for test, trace in (*outcome.failures, *outcome.errors):
        whole = getattr(test, "test_case", test)  # of a subtest
        failed[whole.id().removeprefix(f"{PACKAGE}.")] = trace
    for test in outcome.unexpectedSuccesses:
        failed[test.id().removeprefix(f"{PACKAGE}.")] = "unexpected success"
    Path(result).write_text(json.dumps([outcome.testsRun, failed]))


def replace_loops(scheduling: type) -> None:
    """Put our scheduling in front of every loop of asyncio that the tests make or derive from."""
    base, ours = base_events.BaseEventLoop, {}
    for module in (base_events, selector_events, proactor_events, asyncio.unix_events, asyncio):
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and issubclass(value, base):
                if value not in ours:
                    ours[value] = type(value.__name__, (scheduling, value), {"__module__": value.__module__})
                setattr(module, name, ours[value])
    policy = asyncio.unix_events._UnixDefaultEventLoopPolicy
    policy._loop_factory = ours[policy._loop_factory]


def replace_timeouts() -> None:
    """Put our timeouts in the place of asyncio's, for `wait_for` as well."""
    ours = importlib.import_module("pywheel.timers._timeout")
    for module in (asyncio, asyncio.timeouts):
        module.timeout, module.timeout_at = ours.timeout, ours.timeout_at


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        sys.exit(main(sys.argv[1:]))
