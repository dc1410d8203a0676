"""EventLoop under whole programs: everything else of asyncio works on it as on the loop it replaces."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.isolated.child import environment
from tests.jobs.waiting import LIMIT

ON_UNIX = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals on Windows")


# ---- running ---------------------------------------------------------------------------------------------------------


def test_it_is_a_loop_factory(pywheel):
    async def main():
        await asyncio.sleep(0.001)
        return type(asyncio.get_running_loop())

    if sys.version_info >= (3, 12):
        assert asyncio.run(main(), loop_factory=pywheel.EventLoop) is pywheel.EventLoop
    with asyncio.Runner(loop_factory=pywheel.EventLoop, debug=True) as runner:
        assert runner.run(main()) is pywheel.EventLoop


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_many_threads_call_soon_threadsafe_and_each_call_comes_once(run_ours):
    async def main():
        loop, calls = asyncio.get_running_loop(), []
        with ThreadPoolExecutor(8) as pool:
            for thread in range(8):
                pool.submit(
                    lambda thread=thread: [loop.call_soon_threadsafe(calls.append, (thread, n)) for n in range(500)]
                )
            while len(calls) < 4_000:
                await asyncio.sleep(0.001)
        assert len(set(calls)) == 4_000
        for thread in range(8):
            assert [number for each, number in calls if each == thread] == list(range(500))

    run_ours(main())


def test_timers_misused_from_other_threads_do_no_harm(pywheel):
    """Not allowed, and not promised to come in time; but nothing may break."""

    def misuse():
        for _ in range(100):
            handles = [loop.call_later(number % 5 * 0.000_1, lambda *_: None, number) for number in range(50)]
            for handle in handles[::2]:
                handle.cancel()

    async def main():
        threads = [threading.Thread(target=misuse) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) or loop._scheduled:
            await asyncio.sleep(0)
            for handle in loop._scheduled[:20]:
                handle.cancel()

    loop = pywheel.EventLoop()
    loop.run_until_complete(asyncio.wait_for(main(), None))
    assert loop._scheduled == []
    loop.close()


# ---- files and processes -----------------------------------------------------------------------------------------


@pytest.mark.stress
def test_subprocesses_with_a_timeout_that_fires_and_one_that_does_not(run_ours):
    async def main():
        echo = "import sys; print(sys.stdin.readline().strip()[::-1])"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", echo, **pipes)
        async with asyncio.timeout(LIMIT):
            output, _ = await process.communicate(b"abc\n")
        assert output.strip() == b"cba"
        assert process.returncode == 0
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(600)")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), 0.01)
        process.kill()
        assert await process.wait() != 0

    run_ours(main())


# ---- signals ---------------------------------------------------------------------------------------------------------


@pytest.mark.stress
@ON_UNIX
def test_a_signal_handler_runs_though_the_loop_sleeps(run_ours):
    async def main():
        loop, got = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, got.set)
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        await got.wait()
        assert loop.remove_signal_handler(signal.SIGUSR1)

    run_ours(main())


INTERRUPTED = """
import asyncio, sys
import pywheel

async def main():
    try:
        print("ready", flush=True)
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        print("cancelled")
        raise

async def busy():
    print("ready", flush=True)
    while True:
        await asyncio.sleep(0)

with asyncio.Runner(loop_factory=pywheel.EventLoop) as runner:
    try:
        runner.run(main() if sys.argv[1] == "sleeping" else busy())
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.stress
@ON_UNIX
@pytest.mark.parametrize("what", ["sleeping", "busy"])
def test_ctrl_c_ends_a_program_as_it_does_on_asyncios_loop(pywheel, what):
    pure = "1" if pywheel.implementation == "pure" else None
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, what],
        env=environment(PYWHEEL_PURE=pure, PYWHEEL_REQUIRE_NATIVE=None),
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=LIMIT)
    assert output.split() == ["cancelled", "interrupted"][what == "busy" :]
    assert process.returncode == 0


# ---- ends ------------------------------------------------------------------------------------------------------------


def test_a_loop_that_is_dropped_warns_and_is_closed(pywheel):
    loop = pywheel.EventLoop()
    loop.call_later(600, print, loop)
    gone = weakref.ref(loop)
    del loop
    with pytest.warns(ResourceWarning, match="unclosed"):
        gc.collect()
    assert gone() is None
    gc.collect()
