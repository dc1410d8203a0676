"""The end of the interpreter with timers pending: soon, with exit code 0, and without a word."""

import os
import signal
import subprocess
import sys

import pytest

from tests.implementations import CORES
from tests.isolated.child import environment, run, run_well

pytestmark = pytest.mark.stress

COMMON = """
import faulthandler, sys, threading, time
import pywheel
faulthandler.dump_traceback_later(30, exit=True)  # one that hangs says where
timers = pywheel.ThreadTimers()

def hold(seconds):
    entered = threading.Event()
    def callback():
        entered.set()
        time.sleep(seconds)
    timers.call_later(0, callback)
    assert entered.wait(60)
"""

CASES = {
    "pending": "timers.call_later(1000, print); timers.call_every(0.001, int)",
    "many pending": "for number in range(100_000): timers.call_later(number % 977, int)",
    "a callback that blocks for ever": "hold(10**6)",
    "a callback that is running": "hold(0.1)",
    "a callback that runs Python code for ever": """
def spin():
    entered.set()
    while True:
        sum(range(100))
entered = threading.Event()
timers.call_later(0, spin)
entered.wait(60)
""",
    "a callback that waits for a lock that nobody releases": """
lock, entered = threading.Lock(), threading.Event()
lock.acquire()
timers.call_later(0, lambda: (entered.set(), lock.acquire()))
entered.wait(60)
""",
    "zero delay again and again": """
def again():
    timers.call_later(0, again)
again()
""",
    "made in another thread": """
def main():
    global others
    others = pywheel.ThreadTimers()
    others.call_later(1000, print)
    others.call_every(0.001, int)
thread = threading.Thread(target=main)
thread.start()
thread.join()
""",
    "a thread that schedules to the end": """
def main():
    try:
        while True:
            timers.call_later(0, int)
            time.sleep(0)
    except pywheel.TimersStopped:
        pass
threading.Thread(target=main, daemon=True).start()
time.sleep(0.01)
""",
    "many drivers with a callback that blocks": """
many = [pywheel.ThreadTimers() for _ in range(20)]
for timers in many:
    hold(10**6)
""",
    "in a cycle": "timers.me = timers; timers.call_later(1000, timers.stop); del timers",
    "in a module": "sys.modules['nowhere'] = timers; timers.call_later(1000, timers.stop); del timers",
    "stopped": "timers.call_later(1000, print); timers.stop()",
    "unused": "",
    "on a manual clock": "timers = pywheel.ThreadTimers(clock=pywheel.ManualClock()); timers.call_later(1, print)",
    "by hand": "timers = pywheel.Timers(); timers.call_later(1000, print)",
    "in a loop that was not closed": """
import asyncio
async def main():
    global timers
    timers = pywheel.AsyncTimers()
    timers.call_later(1000, print)
    timers.call_every(0.001, asyncio.sleep, 0)
    await asyncio.sleep(0.01)
    timers.stop()
    timers = pywheel.AsyncTimers()
    timers.call_later(1000, print)
asyncio.run(main())
""",
    "sys.exit() in a callback": "timers.call_later(0, sys.exit, 3); timers.call_later(1000, print)",
}


def pure(name):
    return {"PYWHEEL_PURE": "1" if name == "pure" else "", "PYWHEEL_REQUIRE_NATIVE": ""}


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_interpreter_exits_quietly(name, case):
    code = COMMON + CASES[case] + "\nprint('bye', flush=True)\n"
    assert run_well("-c", code, timeout=40, **pure(name)) == "bye\n"


@pytest.mark.parametrize("name", CORES)
def test_the_interpreter_exits_when_the_work_of_another_thread_is_done(name):
    """Timers fire as long as a thread is at work that the interpreter waits for."""
    code = """
def main():
    for number in range(5):
        done = threading.Event()
        timers.call_later(0.005, done.set)
        assert done.wait(60)
    print("bye", flush=True)
threading.Thread(target=main).start()
"""
    assert run_well("-c", COMMON + code, timeout=40, **pure(name)) == "bye\n"


@pytest.mark.parametrize("name", CORES)
def test_an_exit_code_and_an_error_are_kept(name):
    code = COMMON + "hold(10**6); timers.call_later(1000, print); sys.exit(7)"
    result = run("-c", code, timeout=40, **pure(name))
    assert (result.returncode, result.stdout, result.stderr) == (7, "", "")
    result = run("-c", COMMON + "timers.call_later(1000, print); 1 / 0", timeout=40, **pure(name))
    assert result.returncode == 1
    assert result.stderr.rstrip().endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize("name", CORES)
def test_a_driver_that_an_exit_handler_uses_was_stopped_or_is_new(name):
    """Handlers run last in, first out: this one runs after the one that stops the drivers."""
    code = """
import atexit
@atexit.register
def late():
    import pywheel
    try:
        timers.call_later(0, print)
    except pywheel.TimersStopped:
        print("stopped", flush=True)
import pywheel
timers = pywheel.ThreadTimers()
timers.call_later(1000, print)
"""
    assert run_well("-c", code, timeout=40, **pure(name)) == "stopped\n"


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="there are no such signals here")
@pytest.mark.parametrize("name", CORES)
def test_an_interrupted_program_ends_as_one_without_timers(name):
    ends = [
        interrupt(name, f"{COMMON}{line}\nprint('ready', flush=True)\nwhile True: time.sleep(0.01)\n")
        for line in ("timers.call_every(0.001, int); timers.call_later(1000, int)", "")
    ]
    assert ends[0][0] == ends[1][0]  # the exit code
    for _, output, errors in ends:
        assert output == ""
        assert "KeyboardInterrupt" in errors
        assert "pywheel" not in errors


def interrupt(name, code):
    """Interrupt a program when it is ready; return its exit code and what it wrote."""
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment(**pure(name)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=40)
    finally:
        child.kill()
        child.wait()
    return child.returncode, output, errors


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be suspended here")
@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("driver", ["thread", "asyncio"])
def test_a_suspended_process_sees_one_jump(name, driver):
    """What fell due meanwhile runs by deadline; "skip" calls once for it, "burst" makes up for each call."""
    child = subprocess.Popen(
        [sys.executable, os.path.join(os.path.dirname(__file__), "timers_suspended_child.py"), driver],  # noqa: PTH118, PTH120
        env=environment(**pure(name)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.6)
        child.send_signal(signal.SIGCONT)
        output, errors = child.communicate("\n", timeout=40)
    finally:
        child.kill()
        child.wait()
    assert (child.returncode, output, errors) == (0, "well\n", "")
