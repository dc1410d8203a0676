"""A forked child has a copy of wheels, dicts and queues, begins with no timers, and never hangs; its parent goes on."""

import os
import sys

import pytest

from tests.implementations import CORES
from tests.isolated.child import on, run_well

pytestmark = [pytest.mark.stress, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")]

COMMON = """
import os, signal, sys, threading, time, warnings
import pywheel
warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on, of forking with threads

def fork(function):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that hangs ends so
        try:
            function()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return pid

def wait(pid):
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the child failed or hung"

def hold(lock):
    held = threading.Event()
    def work():
        with lock:
            held.set()
            time.sleep(3600)
    threading.Thread(target=work, daemon=True).start()
    held.wait()

def fires(timers):
    done = threading.Event()
    timers.call_later(0.001, done.set)
    assert done.wait(60), "a timer did not fire"

def use():
    fires(timers)
    assert len(timers) == 0
    far, near = timers.call_later(1000, print), timers.call_later(500, print)
    fires(timers)
    assert timers.pending() == [near, far]
    assert near.cancel() and far.reset(2000)
    assert timers.stop() == [far]
    with pywheel.ThreadTimers() as fresh:
        fires(fresh)

calls = []
timers = pywheel.ThreadTimers()
"""

CASES = {
    "asleep with timers pending": """
timer = timers.call_later(0.3, calls.append, "parent")
timers.call_later(1000, print)
time.sleep(0.01)
def child():
    before = list(calls)  # on a slow machine the parent's timer may have fired by now
    assert len(timers) == 0 and timers.pending() == []
    assert not timer.active() and timer.when() is None and not timer.cancel()
    use()
    assert calls == before
wait(fork(child))
fires(timers)
assert len(timers) == 2 or not timer.active()
while not calls:
    time.sleep(0.001)
fires(timers)
assert len(timers) == 1 and calls == ["parent"]
""",
    "before the first timer": "wait(fork(use)); use()",
    "after it was stopped": """
timers.stop()
def child():
    try:
        timers.call_later(0, print)
    except pywheel.TimersStopped:
        return
    raise AssertionError
wait(fork(child))
""",
    "in the middle of a batch": """
entered, leave = threading.Event(), threading.Event()
def callback():
    entered.set()
    assert leave.wait(60)
gate, opened = threading.Event(), threading.Event()
timers.call_later(0, lambda: (opened.set(), gate.wait(60)))
assert opened.wait(60)
timers.call_later(0, callback)
batch = [timers.call_later(0, calls.append, number) for number in range(100)]
gate.set()
assert entered.wait(60)  # the batch is taken out of the wheel, and held up by its first
def child():
    assert len(timers) == 0 and timers.pending() == []
    assert not any(timer.active() or timer.cancel() or timer.reset() for timer in batch)
    assert len(timers) == 0
    use()
wait(fork(child))
leave.set()
fires(timers)
assert calls == list(range(100))
""",
    "from a callback": """
def callback():
    calls.append(fork(use))
fired = []
timers.call_later(0, callback)
timers.call_later(0.02, fired.append, "parent")
while not calls or not fired:
    time.sleep(0.001)
wait(calls[0])
assert fired == ["parent"]
""",
    "from a callback, whose child goes on in it": """
read, write = os.pipe()
def callback():
    pid = os.fork()
    if pid:
        calls.append(pid)
        return
    signal.alarm(60)
    os.write(write, b"1")
    timers.call_later(0.005, os.write, write, b"2")  # by another thread; nobody else is there then, and the child ends
timers.call_later(0, callback)
timers.call_later(1000, print)
while not calls:
    time.sleep(0.001)
wait(calls[0])
assert os.read(read, 10) == b"12"
fires(timers)
""",
    "from a callback, whose child goes on beside those of its new thread": """
clock = pywheel.ManualClock()
mine = pywheel.ThreadTimers(clock=clock)
read, write = os.pipe()
def callback():
    pid = os.fork()
    if pid:
        calls.append(pid)
        return
    signal.alarm(60)
    entered = threading.Event()
    def first():
        entered.set()
        while not mine._alone:  # until the callback that forked has returned, and its thread has left
            time.sleep(0.001)
        os.write(write, b"1" if mine._running == threading.get_ident() else b"0")
    mine.call_later(1, first)
    mine.call_later(1, os.write, write, b"2")
    clock.jump(1)
    assert entered.wait(60)
mine.call_later(0, callback)
while not calls:
    time.sleep(0.001)
wait(calls[0])
assert os.read(read, 10) == b"12"
mine.stop()
""",
    "with the bell locked": """
timers.call_later(1000, print)
timers._bell._lock.acquire(blocking=False)
with timers._answer, timers._starting:
    def child():
        use()
    pid = fork(child)
wait(pid)
fires(timers)
""",
    "again and again while threads schedule": """
done = threading.Event()
def work():
    while not done.is_set():
        mine = [timers.call_later(number % 3 * 0.001, calls.append, number) for number in range(100)]
        for timer in mine[::3]:
            timer.reset(0.002)
        for timer in mine[::2]:
            timer.cancel()
        time.sleep(0)
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
try:
    for _ in range(25):
        wait(fork(use))
finally:
    done.set()
for thread in threads:
    thread.join()
fires(timers)
""",
    "by multiprocessing": """
import multiprocessing
context = multiprocessing.get_context("fork")
timers.call_later(1000, print)
process = context.Process(target=use)
process.start()
process.join(60)
assert process.exitcode == 0
""",
    "on a manual clock": """
clock = pywheel.ManualClock()
timers = pywheel.ThreadTimers(clock=clock)
timers.call_later(1, calls.append, "parent")
timers.call_later(0, int)
clock.advance(0)
def child():
    clock.advance(5)
    timers.call_later(1, calls.append, "child")
    clock.advance(1)
    assert calls == ["child"]
wait(fork(child))
clock.advance(1)
assert calls == ["parent"]
""",
    "of timers that another thread runs by hand": """
clock = pywheel.ManualClock()
mine, entered, leave = pywheel.Timers(clock), threading.Event(), threading.Event()
mine.call_later(0, lambda: (entered.set(), leave.wait(60)))
mine.call_later(1, calls.append, 1)
running = threading.Thread(target=mine.run_due)
running.start()
assert entered.wait(60)
def child():
    clock.advance(1)
    assert calls == [1]
    assert mine.run_due() == 0
wait(fork(child))
leave.set()
running.join()
clock.advance(1)
assert calls == [1]
""",
    "from a callback of timers run by hand, whose child goes on in it": """
mine, children = pywheel.Timers(), []
def callback():
    children.append(fork(lambda: refused()))
    refused()
def refused():
    try:
        mine.run_due()
    except RuntimeError as error:
        calls.append(str(error))
    assert len(calls) == 1 and "running" in calls[0]
mine.call_later(0, callback)
while not children:
    mine.run_due()
wait(children[0])
assert mine.run_due() == 0
""",
    "of wheels": """
import numpy
timing, keys = pywheel.TimingWheel(5), pywheel.KeyWheel(5)
handles = [[wheel.schedule(10 * number, number) for number in range(100)] for wheel in (timing, keys)]

def use():
    for wheel, mine in zip((timing, keys), handles):
        assert wheel.cancel(mine[50])
        assert wheel.reschedule(mine[51], 5000)
        wheel.schedule(7, 1000)
        assert wheel.advance(990) == [0, 1000, *range(1, 50), *range(52, 100)]
        assert len(wheel) == 1
        wheel._check()
        wheel.clear()

wait(fork(use))
for wheel in (timing, keys):
    assert len(wheel) == 100
    wheel._check()
    assert wheel.advance(990) == list(range(100))
""",
    "of wheels while other threads use them": """
import numpy  # now: a child forked while a thread imports it could never import it
keys, timing, done = pywheel.KeyWheel(), pywheel.TimingWheel(), threading.Event()
ticks = list(range(3000))

def work():
    while not done.is_set():
        keys.schedule_many(ticks, ticks)
        keys.advance_many(3000, 2000)
        keys.reschedule_many(ticks, ticks)
        keys.clear()
        for number in range(50):
            timing.schedule(number, None)
        timing.advance(100, 30)
        timing.clear()

def use():
    try:
        keys.schedule(5, 5)
        keys.advance(5000)
        keys._check()
    except RuntimeError as error:
        assert "fork" in str(error)  # it says what happened
    timing.schedule(5, None)
    timing.advance(5000)
    timing._check()
    fresh = pywheel.KeyWheel()
    fresh.schedule_many([5, 6], [1, 2])
    assert fresh.advance_many(6).tolist() == [1, 2]

keys.schedule_many(ticks, ticks)  # imports NumPy: a child forked during an import waits for that for ever
threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
try:
    for _ in range(40):
        wait(fork(use))
finally:
    done.set()
    for thread in threads:
        thread.join()
""",
    "of a dict whose lock another thread holds": """
d = pywheel.TTLDict(3600)
d.update(a=1, b=2)
hold(d._lock)
def child():
    d["c"] = 3
    assert d == {"a": 1, "b": 2, "c": 3}
    assert d.touch("a", 0)
    assert "a" not in d
wait(fork(child))
""",
    "of a queue whose lock another thread holds and for which others wait": """
q = pywheel.DelayQueue()
q.put("b", 3600)
for _ in range(2):
    threading.Thread(target=q.get, daemon=True).start()
while q._leads_until is None or not q._followers._waiters:
    time.sleep(0.001)
hold(q._lock)
def child():
    assert q.qsize() == 1
    q.put("c", 0.001)
    assert q.get() == "c"
    threading.Thread(target=q.put, args=("d", 0.001)).start()
    assert q.get() == "d"
wait(fork(child))
""",
    "of a queue beside an object that cannot begin anew": """
from pywheel._forks import renew_after_fork
class Broken:
    def _after_fork(self):
        raise MemoryError
broken = Broken()
renew_after_fork(broken)
q = pywheel.DelayQueue()
hold(q._lock)
sys.unraisablehook = calls.append  # in the child, to which Python reports it
def child():
    q.put("a")
    assert q.get() == "a"
    assert [call.exc_type for call in calls] == [MemoryError]
wait(fork(child))
""",
    "of timers beside some that cannot begin anew": """
class Broken(pywheel.ThreadTimers):
    def _after_fork(self):
        raise MemoryError
    def __hash__(self):
        return 0  # so that it comes before the others in a set
broken, other = Broken(), pywheel.ThreadTimers()
for driver in (broken, other):
    driver.call_later(1000, print)
sys.unraisablehook = calls.append  # in the child, to which Python reports it
def child():
    assert (len(broken), len(other)) == (1, 0)
    fires(other)
    assert [call.exc_type for call in calls] == [MemoryError]
wait(fork(child))
""",
    "on a manual clock whose lock another thread holds": """
clock = pywheel.ManualClock()
hold(clock._lock)
def child():
    clock.advance(5)
    assert clock.time() == 5
wait(fork(child))
""",
    "from a callback of an EventLoop, within a timeout": """
import asyncio
def child():
    try:
        pywheel.timeout(1)
    except RuntimeError as error:
        assert str(error) == "no running event loop"
    with asyncio.Runner(loop_factory=pywheel.EventLoop) as runner:
        assert runner.run(asyncio.wait_for(asyncio.sleep(0.001, 7), 20)) == 7
async def main():
    async with pywheel.timeout(1000):
        asyncio.get_running_loop().call_later(0.001, lambda: calls.append(fork(child)))
        await asyncio.sleep(0.01)
for factory in (pywheel.EventLoop, asyncio.new_event_loop):
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    wait(calls.pop())
""",
}


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_child_never_hangs_and_both_sides_timers_work(name, case):
    code = COMMON + CASES[case] + "\ntimers.stop()\nprint('well', flush=True)\n"
    assert run_well("-c", code, **on(name)).splitlines()[-1] == "well"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python warns from 3.12 on")
@pytest.mark.parametrize("name", CORES)
def test_a_fork_beside_the_thread_is_warned_of_by_python_itself(name):
    code = """
import os, warnings, pywheel
timers = pywheel.ThreadTimers()
timers.call_later(1000, print)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    if (pid := os.fork()) == 0:
        os._exit(0)
os.waitpid(pid, 0)
print([warning.category.__name__ for warning in seen])
"""
    assert run_well("-c", code, **on(name)) == "['DeprecationWarning']\n"
