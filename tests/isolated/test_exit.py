"""The end of the interpreter with timers pending: soon, with exit code 0, and without a word; and wheels in wheels."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.implementations import CORES, MODULES
from tests.isolated.child import environment, on, run, run_well, script
from tests.jobs.waiting import LIMIT

pytestmark = pytest.mark.stress

COMMON = """
import faulthandler, sys, threading, time
import pywheel
faulthandler.dump_traceback_later(120, exit=True)  # one that hangs says where
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
    "a callback that runs Python code for ever": """
def spin():
    entered.set()
    while True:
        sum(range(100))
entered = threading.Event()
timers.call_later(0, spin)
entered.wait(60)
""",
    "zero delay again and again": """
def again():
    timers.call_later(0, again)
again()
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
    "another thread at work, whose timers fire to its end": """
def main():
    for _ in range(5):
        done = threading.Event()
        timers.call_later(0.005, done.set)
        assert done.wait(60)
threading.Thread(target=main).start()
""",
    "many drivers with a callback that blocks": """
many = [pywheel.ThreadTimers() for _ in range(20)]
for timers in many:
    hold(10**6)
""",
    "in a cycle": "timers.me = timers; timers.call_later(1000, timers.stop); del timers",
    "on a manual clock": "timers = pywheel.ThreadTimers(clock=pywheel.ManualClock()); timers.call_later(1, print)",
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
    "a wheel whose items use it, in a module": """
from pywheel import TimingWheel
class Late:
    def __del__(self):
        if wheel is not None:
            wheel.schedule(5, None)
            wheel.cancel(handle)
            wheel.advance(wheel.now)
wheel = TimingWheel()
handle = wheel.schedule(3, Late())
for number in range(1000):
    wheel.schedule(10 * number, Late())
wheel.schedule(1, wheel)
sys.modules["nowhere"] = wheel  # lives until the modules are torn down
""",
    "a wheel in a traceback": """
def begin():
    wheel = pywheel.TimingWheel()
    wheel.schedule(5, wheel)
    raise ValueError
try:
    begin()
except ValueError as error:
    sys.kept = error  # and its traceback the wheel, until the last collection of all
""",
    "event loops": """
import asyncio
loop = pywheel.EventLoop(); loop.call_later(600, print, loop); loop.close()
loop = pywheel.EventLoop(); [loop.call_later(600, print, n) for n in range(1_000)]; loop.close(); del loop
loop = pywheel.EventLoop(); handle = loop.call_later(600, print); loop.close(); handle.cancel(); del loop
asyncio.Runner(loop_factory=pywheel.EventLoop).__enter__().close()
import warnings
warnings.simplefilter("ignore", ResourceWarning)
loop = pywheel.EventLoop(); loop.call_later(600, print, loop)
""",
}


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_interpreter_exits_quietly(name, case):
    code = COMMON + CASES[case] + "\nprint('bye', flush=True)\n"
    assert run_well("-c", code, **on(name)) == "bye\n"


@pytest.mark.parametrize("name", CORES)
def test_an_exit_code_and_an_error_are_kept(name):
    code = COMMON + "hold(10**6); timers.call_later(1000, print); sys.exit(7)"
    result = run("-c", code, **on(name))
    assert (result.returncode, result.stdout, result.stderr) == (7, "", "")
    result = run("-c", COMMON + "timers.call_later(1000, print); 1 / 0", **on(name))
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
    assert run_well("-c", code, **on(name)) == "stopped\n"


NESTED = """
import gc, threading, {module} as core
depth = {depth}
class Mine(core.TimingWheel):
    pass

def chain(cls):
    inner = None
    for _ in range(depth):
        wheel = cls()
        wheel.schedule(5, inner)
        inner = wheel
    return inner

def drop_them():
    for cls in (core.TimingWheel, Mine):
        wheel = chain(cls)
        del wheel  # dealloc after dealloc
        outer = cls()
        assert outer.cancel(outer.schedule(5, chain(cls)))
        outer.schedule(5, chain(cls))
        outer.clear()
        outer.schedule(5, chain(cls))
        del outer
        wheel = last = cls()
        for _ in range(depth):
            outer = cls()
            outer.schedule(5, wheel)
            wheel = outer
        last.schedule(5, wheel)  # one large cycle
        del wheel, last, outer
        gc.collect()
    print("bye")

threading.stack_size({stack} * 1024)
thread = threading.Thread(target=drop_them)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("name", CORES)
def test_thousands_of_wheels_inside_each_other_can_be_dropped(name):
    """Each holds the next as an item, on a stack with 64 bytes for each; 256 in the twin, whose wheels are large.

    From 3.13 on CPython bounds the depth of what it releases by thousands of levels, not by fifty: lists inside each
    other take more than 256 KB there as well.
    """
    depth, stack = {"native": 4000, "pure": 1000}[name], 256
    if sys.version_info >= (3, 13):
        depth, stack = 10 * depth, 128 * stack
    assert run_well("-c", NESTED.format(module=MODULES[name], depth=depth, stack=stack)) == "bye\n"


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


@contextmanager
def started(name, *arguments):
    """Start a program, and give it when it is ready."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    child = subprocess.Popen([sys.executable, *arguments], env=environment(**on(name)), text=True, **pipes)
    try:
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def interrupt(name, code):
    """Interrupt a program when it is ready; return its exit code and what it wrote."""
    with started(name, "-c", code) as child:
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=LIMIT)
        return child.returncode, output, errors


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be suspended here")
@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("driver", ["thread", "asyncio"])
def test_a_suspended_process_sees_one_jump(name, driver):
    """What fell due meanwhile runs by deadline; "skip" calls once for it, "burst" makes up for each call."""
    with started(name, script("timers_suspended_child.py"), driver) as child:
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.6)
        child.send_signal(signal.SIGCONT)
        output, errors = child.communicate("\n", timeout=LIMIT)
        assert (child.returncode, output, errors) == (0, "well\n", "")
