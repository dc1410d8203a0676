"""AsyncTimers: errors, interrupts, coroutines, context variables."""

import asyncio
import gc
import weakref
from contextvars import ContextVar, copy_context

import pytest

from tests.core.items import Item
from tests.timers.loops import sleep

variable = ContextVar("variable", default="nobody's")


@pytest.fixture
def reports(foreign):
    """What the loop's exception handler is told."""
    reports = []
    foreign.set_exception_handler(lambda _, report: reports.append(report))
    return reports


def fail(error):
    raise error


async def fail_later(error):
    await asyncio.sleep(0)
    raise error


@pytest.mark.parametrize("callback", [fail, fail_later])
@pytest.mark.parametrize("error", [ValueError("broken"), asyncio.CancelledError(), GeneratorExit()], ids=repr)
async def test_an_error_goes_to_the_loops_exception_handler_and_the_others_fire(
    pywheel, foreign, reports, callback, error
):
    if callback is fail_later and not isinstance(error, ValueError):
        pytest.skip("a task takes it for its own end")

    calls = []
    async with pywheel.AsyncTimers() as timers:
        timer = timers.call_later(0, callback, error)
        timers.call_later(0, calls.append, 1)
        while not reports or not calls:
            await asyncio.sleep(0)
    [report] = reports
    assert report["exception"] is error
    assert report["timer"] is timer
    assert "timer" in report["message"]


async def test_an_error_goes_to_on_error_instead_if_there_is_one(pywheel, foreign, reports):
    errors, error = [], ValueError("broken")
    async with pywheel.AsyncTimers(on_error=lambda *args: errors.append(args)) as timers:
        timer = timers.call_later(0, fail, error)
        task = timers.call_later(0, fail_later, error)
        await sleep(timers, 0.002)
        while len(errors) < 2:
            await asyncio.sleep(0)
    assert errors == [(timer, error), (task, error)]
    assert reports == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_from_a_coroutine_is_raised_by_the_loop_and_reported_no_second_time(
    pywheel, foreign, reports, kind
):
    timers, calls = pywheel.AsyncTimers(foreign), []
    timers.call_later(0, fail_later, kind())
    timers.call_later(0.003, calls.append, 1)
    with pytest.raises(kind):
        foreign.run_forever()
    timers.call_later(0.004, foreign.stop)
    foreign.run_forever()
    assert calls == [1]
    assert reports == []
    timers.stop()


async def test_a_coroutine_function_runs_as_a_task_that_is_kept(pywheel, foreign):
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
        assert task in asyncio.all_tasks(foreign)
        hold.set()
        await task
        await asyncio.sleep(0)
        assert results == [7]
        assert timers._tasks == set()


async def test_a_task_that_is_cancelled_is_no_error(pywheel, foreign, reports):
    async with pywheel.AsyncTimers() as timers:
        timers.call_later(0, asyncio.sleep, 100)
        await sleep(timers, 0.002)
        [task] = timers._tasks
        task.cancel()
        while timers._tasks:
            await asyncio.sleep(0)
    assert reports == []


async def test_a_periodic_coroutine_runs_again_though_it_fails_or_is_still_running(pywheel, foreign, reports):
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


async def test_tasks_go_on_when_the_driver_is_stopped(pywheel, foreign):
    done = asyncio.Event()

    async def callback():
        await asyncio.sleep(0.002)
        done.set()

    async with pywheel.AsyncTimers() as timers:
        timers.call_later(0, callback)
        while not timers._tasks:
            await asyncio.sleep(0)
    await done.wait()


async def test_a_callback_sees_the_context_in_which_it_was_scheduled(pywheel, foreign):
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


async def test_the_drivers_wake_up_call_keeps_no_callers_context(pywheel, foreign):
    async def request(timers):
        variable.set(item := Item())
        timers.call_later(1000, print).cancel()
        return weakref.ref(item)

    async with pywheel.AsyncTimers() as timers:
        gone = await asyncio.create_task(request(timers))
        await asyncio.sleep(0)
        assert gone() is None


async def test_a_timer_that_its_callback_resets_runs_in_the_same_context_again(pywheel, foreign):
    seen = []

    def callback():
        seen.append(variable.get())
        variable.set(len(seen))
        if len(seen) < 3:
            timer.reset(0.001)
        else:
            done.set()

    variable.set("outer")
    done = asyncio.Event()
    async with pywheel.AsyncTimers() as timers:
        timer = timers.call_later(0.001, callback)
        await done.wait()
    assert variable.get() == "outer"
    assert seen == ["outer", 1, 2]
