"""EventLoop in programs with threads, and what is left of one that is dropped. The rest are CPython's own tests."""

import asyncio
import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

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


async def test_many_threads_call_soon_threadsafe_and_each_call_comes_once(ours):
    def call(thread):
        for number in range(500):
            ours.call_soon_threadsafe(calls.append, (thread, number))

    calls = []
    with ThreadPoolExecutor(8) as pool:
        for thread in range(8):
            pool.submit(call, thread)
        while len(calls) < 4_000:
            await asyncio.sleep(0.001)
    assert len(set(calls)) == 4_000
    for thread in range(8):
        assert [number for each, number in calls if each == thread] == list(range(500))


@pytest.mark.parametrize("each_loop", ["EventLoop"], indirect=True)
async def test_timers_misused_from_other_threads_do_no_harm(each_loop):
    """Not allowed, and not promised to come in time; but nothing may break."""

    def misuse():
        for _ in range(100):
            handles = [each_loop.call_later(number % 5 * 0.000_1, lambda *_: None, number) for number in range(50)]
            for handle in handles[::2]:
                handle.cancel()

    threads = [threading.Thread(target=misuse) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or each_loop._scheduled:
        await asyncio.sleep(0)
        for handle in each_loop._scheduled[:20]:
            handle.cancel()


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
