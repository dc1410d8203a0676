"""A check that `make test` is true on any machine: a test of it that starts a process, sends a signal or sleeps fails.

Such a test is marked `stress`, if a `ManualClock`, a thread or an event does not do. The work of session fixtures
counts for no test, and sleeps of the product itself are retries.
"""

import sys
import time
from contextlib import contextmanager, nullcontext

import pytest

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"}
SENDS = {"os.kill", "os.killpg", "signal.pthread_kill"}
LONGEST = 0.005  # of a sleep between two looks at a fact

_sleep = time.sleep
_seen: list[str] = []
_session = 0  # how deep in `for_all`
_tests = ""  # their folder


def pytest_configure(config):
    """Watch a run that leaves out what is marked `stress`."""
    global _tests
    if "not stress" in config.option.markexpr:
        _tests = str(config.rootpath / "tests")
        sys.addaudithook(_look)
        time.sleep = sleep
        config.pluginmanager.register(Watch())


def _look(event, arguments):
    if event in STARTS and not _session:
        _seen.append("starts a process")
    elif event in SENDS and arguments[1] and not _session:  # 0 asks whether it is there
        _seen.append("sends a signal")


def sleep(seconds, /):
    """Sleep, and note it if a test sleeps for longer than between two looks at a fact."""
    if seconds > LONGEST and not _session and sys._getframe(1).f_code.co_filename.startswith(_tests):
        _seen.append(f"sleeps for {seconds:g} s")
    _sleep(seconds)


@contextmanager
def for_all():
    """Make something for all tests: what that takes is no part of the present one."""
    global _session
    _session += 1
    try:
        yield
    finally:
        _session -= 1


class Watch:
    """Fails a test of which something was seen."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.argname.endswith("_server"):
            _seen.append(f"asks for a {fixturedef.argname.removesuffix('_server')} server")
        with for_all() if fixturedef.scope == "session" else nullcontext():
            return (yield)

    def pytest_runtest_setup(self):
        _seen.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self):
        yield
        if _seen:
            pytest.fail(f"{', '.join(dict.fromkeys(_seen))}: mark it stress, or let it do without", pytrace=False)
