"""Threads that share wheels, drivers and loops, for the thread sanitizer: `make tsan`. It needs no test library."""

import asyncio
import gc
import sys
import threading
from contextlib import suppress

import pywheel

ROUNDS = 1_500


def together(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def share_a_wheel(wheel):
    def work():
        for number in range(ROUNDS):
            handle = wheel.schedule(wheel.now + number % 100, number)
            wheel.reschedule(handle, wheel.now + number % 300)
            wheel.deadline(handle), handle in wheel, len(wheel), wheel.next_deadline()
            if number % 2:
                wheel.cancel(handle)
            if number % 20 == 0 and isinstance(wheel, pywheel.TimingWheel):
                wheel.cancel_many(wheel.schedule_many(range(number, number + 30), range(30))[::2])
            if number % 10 == 0:
                with suppress(ValueError):  # another thread was faster
                    wheel.advance(wheel.now + 1, 50)
            if number % 500 == 0:
                list(wheel), sys.getsizeof(wheel), wheel.reserve(1_000), wheel.clear()

    together(*[work] * 3)


class Callee:
    def call(self, *args):
        """A method as callback."""


def share_timers(timers, *drivers):
    def work():
        made = []
        for number in range(ROUNDS):
            timer = timers.call_later(number % 5 * 0.0005, Callee().call, *[number] * (number % 3))
            made.append(timer)
            if number % 3 == 0:
                made[number // 2].reset(0.001)
            if number % 5 == 0:
                made[number // 3].cancel()
            if number % 50 == 0:
                periodic = timers.call_every(0.001, int, missed="burst")
                periodic.reset(0)
                timers.pending(), len(timers), timers.next_deadline(), timers.stopped
                timer.active(), timer.cancelled(), timer.when(), timer.remaining(), timer.callback, timer.args
                periodic.cancel()

    def collect():
        for _ in range(20):
            gc.collect()

    together(work, work, collect, *drivers)
    together(timers.stop, timers.stop, *drivers)


async def look(timers):
    loop = asyncio.get_running_loop()
    handles = [loop.call_later(number % 7 * 0.0003, int) for number in range(30)]
    for handle in handles[::2]:
        handle.cancel()
    made = [timers.call_later(number * 0.0003, Callee().call, number) for number in range(9)]
    made[1].cancel(), made[2].reset(0.001), made[3].remaining(), timers.pending(), timers.next_deadline()
    with suppress(TimeoutError):
        async with pywheel.timeout(0.0005):
            await asyncio.sleep(1)
    async with pywheel.timeout(1):
        await asyncio.sleep(0)


def share_loops(loops):
    """Threads call into loops that run side by side, each with timers and timeouts of its own."""
    ready = threading.Barrier(len(loops) + 3)
    heard = []

    async def turns():
        ready.wait()
        async with pywheel.AsyncTimers() as timers:
            for _ in range(ROUNDS // 15):
                await look(timers)

    def call():
        ready.wait()
        for number in range(ROUNDS):
            loop = loops[number % len(loops)]
            handle = loop.call_soon_threadsafe(heard.append, number)
            if number % 3 == 0:
                handle.cancel()
            if number % 5 == 0:
                loop.call_soon_threadsafe(loop.call_later, 0.0005, heard.append, number)
            if number % 50 == 0:
                loop.time(), loop.is_running(), handle.cancelled(), repr(handle)

    together(*[lambda loop=loop: loop.run_until_complete(turns()) for loop in loops], *[call] * 3)
    for loop in loops:
        loop.close()


def main():
    assert pywheel.implementation == "native"
    assert not sys._is_gil_enabled()
    for wheel_class in (pywheel.TimingWheel, pywheel.KeyWheel):
        share_a_wheel(wheel_class())
    timers = pywheel.Timers()

    def drive():
        for number in range(2 * ROUNDS):
            with suppress(RuntimeError):  # another thread drives
                timers.run_due(number % 50)

    share_timers(timers, drive, drive)
    share_timers(pywheel.ThreadTimers())
    share_loops([pywheel.EventLoop(limit=20), pywheel.EventLoop()])


if __name__ == "__main__":
    main()
