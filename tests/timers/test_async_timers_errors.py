"""AsyncTimers: errors, interrupts, coroutines, context variables."""

import asyncio
import gc
from contextvars import ContextVar, copy_context
from importlib.util import find_spec

import pytest

from tests.jobs.waiting import LIMIT
from tests.timers.loops import sleep

NO_UVLOOP = pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed")
variable = ContextVar("variable", default="nobody's")


@pytest.fixture(params=["asyncio", "debug", pytest.param("uvloop", marks=NO_UVLOOP)])
def loop(request):
    """A loop that is closed at the end."""
    loop = __import__("uvloop").new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()
    loop.set_debug(request.param == "debug")
    yield loop
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.fixture
def run(loop):
    """Run a coroutine function in that loop."""
    return lambda main: loop.run_until_complete(asyncio.wait_for(main(), LIMIT))


@pytest.fixture
def reports(loop):
    """What the loop's exception handler is told."""
    reports = []
    loop.set_exception_handler(lambda _, report: reports.append(report))
    return reports


def fail(error):
    raise error


async def fail_later(error):
    await asyncio.sleep(0)
    raise error


@pytest.mark.parametrize("error", [ValueError("broken"), asyncio.CancelledError(), GeneratorExit()], ids=repr)
def test_an_error_goes_to_the_loops_exception_handler_and_the_others_fire(pywheel, run, reports, error):
    async def main():
        calls = []
        async with pywheel.AsyncTimers() as timers:
            timer = timers.call_later(0, fail, error)
            timers.call_later(0, calls.append, 1)
            await sleep(timers, 0.002)
        assert calls == [1]
        [report] = reports
        assert report["exception"] is error
        assert report["timer"] is timer
        assert "timer" in report["message"]

    run(main)


def test_an_error_goes_to_on_error_instead_if_there_is_one(pywheel, run, reports):
    async def main():
        errors, error = [], ValueError("broken")
        async with pywheel.AsyncTimers(on_error=lambda *args: errors.append(args)) as timers:
            timer = timers.call_later(0, fail, error)
            task = timers.call_later(0, fail_later, error)
            await sleep(timers, 0.002)
            while len(errors) < 2:
                await asyncio.sleep(0)
        assert errors == [(timer, error), (task, error)]
        assert reports == []

    run(main)


def test_an_exception_handler_that_raises_does_not_stop_the_others(pywheel, run, loop, caplog):
    async def main():
        calls = []
        loop.set_exception_handler(lambda *args: fail(OSError("handler")))
        async with pywheel.AsyncTimers() as timers:
            timers.call_later(0, fail, ValueError())
            timers.call_later(0, calls.append, 1)
            await sleep(timers, 0.002)
        assert calls == [1]

    run(main)
    assert "handler" in caplog.text


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_leaves_run_forever_and_the_others_fire_when_it_runs_again(pywheel, loop, kind):
    timers, calls = pywheel.AsyncTimers(loop), []
    when = timers.time() + 0.002
    timers.call_at(when, calls.append, 1)
    timers.call_at(when, fail, kind())
    timers.call_at(when, calls.append, 2)
    timers.call_at(when + 0.003, calls.append, 3)
    with pytest.raises(kind):
        loop.run_forever()
    assert calls[0] == 1  # uvloop ends its turn first, so that the second may have come too
    assert len(timers) == 3 - len(calls)
    timers.call_later(0.004, loop.stop)
    loop.run_forever()
    assert calls == [1, 2, 3]
    assert timers.stop() == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_from_a_coroutine_is_raised_by_the_loop_and_reported_no_second_time(pywheel, loop, reports, kind):
    timers, calls = pywheel.AsyncTimers(loop), []
    timers.call_later(0, fail_later, kind())
    timers.call_later(0.003, calls.append, 1)
    with pytest.raises(kind):
        loop.run_forever()
    timers.call_later(0.004, loop.stop)
    loop.run_forever()
    assert calls == [1]
    assert reports == []
    timers.stop()


def test_a_coroutine_function_runs_as_a_task_that_is_kept(pywheel, run, loop):
    async def main():
        results, started, hold = [], asyncio.Event(), asyncio.Event()

        async def callback(number):
            started.set()
            await hold.wait()
            results.append(number)

        async with pywheel.AsyncTimers() as timers:
            timer = timers.call_later(0, callback, 7)
            await started.wait()
            assert not timer.active()
            gc.collect()
            [task] = timers._tasks
            assert task in asyncio.all_tasks(loop)
            hold.set()
            await task
            await asyncio.sleep(0)
            assert results == [7]
            assert timers._tasks == set()

    run(main)


def test_an_error_in_a_coroutine_is_reported_with_its_timer(pywheel, run, reports):
    async def main():
        error = ValueError("broken")
        async with pywheel.AsyncTimers() as timers:
            timer = timers.call_later(0, fail_later, error)
            while not reports:
                await asyncio.sleep(0)
        [report] = reports
        assert report["exception"] is error
        assert report["timer"] is timer

    run(main)


def test_a_task_that_is_cancelled_is_no_error(pywheel, run, reports):
    async def main():
        async with pywheel.AsyncTimers() as timers:
            timers.call_later(0, asyncio.sleep, 100)
            await sleep(timers, 0.002)
            [task] = timers._tasks
            task.cancel()
            while timers._tasks:
                await asyncio.sleep(0)
        assert reports == []

    run(main)


def test_a_periodic_coroutine_runs_again_though_it_fails_or_is_still_running(pywheel, run, reports):
    async def main():
        started, hold = [], asyncio.Event()

        async def callback():
            started.append(1)
            if len(started) == 2:
                raise ValueError
            await hold.wait()

        async with pywheel.AsyncTimers() as timers:
            timer = timers.call_every(0.001, callback)
            while len(started) < 5:
                await asyncio.sleep(0)
            assert timer.cancel()
            for _ in range(3):  # a task that was just made begins, and one that has failed is taken out
                await asyncio.sleep(0)
            assert len(timers._tasks) == len(started) - 1
            hold.set()
            while timers._tasks:
                await asyncio.sleep(0)
        assert len(reports) == 1

    run(main)


def test_tasks_go_on_when_the_driver_is_stopped(pywheel, run):
    async def main():
        done = asyncio.Event()

        async def callback():
            await asyncio.sleep(0.002)
            done.set()

        async with pywheel.AsyncTimers() as timers:
            timers.call_later(0, callback)
            while not timers._tasks:
                await asyncio.sleep(0)
        await done.wait()

    run(main)


def test_a_callback_sees_the_context_in_which_it_was_scheduled(pywheel, run):
    async def main():
        seen = []

        async def coroutine():
            seen.append(variable.get())
            await asyncio.sleep(0)
            seen.append(variable.get())

        async with pywheel.AsyncTimers() as timers:
            variable.set("first's")
            timers.call_later(0.001, lambda: seen.append(variable.get()))
            variable.set("second's")
            timers.call_later(0.002, coroutine)
            variable.set("third's")
            context = copy_context()
            context.run(variable.set, "its own")
            timers.call_later(0.003, lambda: seen.append(variable.get()), context=context)
            await sleep(timers, 0.004)
            while timers._tasks:
                await asyncio.sleep(0)
        assert sorted(seen) == ["first's", "its own", "second's", "second's"]

    run(main)


def test_what_a_callback_sets_is_not_seen_by_the_next(pywheel, run):
    async def main():
        seen = []
        async with pywheel.AsyncTimers() as timers:
            timers.call_later(0.001, variable.set, "one's")
            timers.call_later(0.002, lambda: seen.append(variable.get()))
            await sleep(timers, 0.003)
        assert seen == ["nobody's"]

    run(main)


def test_the_drivers_wake_up_call_keeps_no_callers_context(pywheel, run):
    class Value:
        alive = 0

        def __init__(self):
            Value.alive += 1

        def __del__(self):
            Value.alive -= 1

    async def request(timers):
        variable.set(Value())
        timers.call_later(1000, print).cancel()

    async def main():
        async with pywheel.AsyncTimers() as timers:
            await asyncio.create_task(request(timers))
            await asyncio.sleep(0)
            assert Value.alive == 0

    run(main)


def test_a_callback_may_await_nothing_but_start_a_task_of_its_own(pywheel, run):
    async def main():
        done = asyncio.Event()

        async def work():
            done.set()

        tasks = []
        async with pywheel.AsyncTimers() as timers:
            timers.call_later(0, lambda: tasks.append(asyncio.create_task(work())))
            await done.wait()
            await tasks[0]

    run(main)
