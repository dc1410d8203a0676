"""timeout on asyncio's loop and uvloop: all on a wheel, for which the loop has one timer."""

import asyncio
import gc
import itertools
import time
import weakref
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from unittest import mock

import pytest

from tests.interrupts import at_each_place, interrupt, traced
from tests.timers.loops import make_loop

FAR = 1_000.0  # seconds, which nobody waits for
SOON = 0.001


@pytest.fixture
def pywheel(pywheel):
    """The native package alone."""
    if pywheel.implementation != "native":
        pytest.skip("the twin is asyncio's own")
    return pywheel


@pytest.fixture
def loop(foreign):
    """A loop that is not ours."""
    return foreign


@pytest.fixture
def asyncios():
    """asyncio's loop, which shows its timers."""
    loop = asyncio.SelectorEventLoop()
    yield loop
    loop.close()


def whens(loop):
    """When the loop's timers are due that were not cancelled."""
    return sorted(handle.when() for handle in loop._scheduled if not handle.cancelled())


async def hang(timeout):
    """Wait until time is up; return True."""
    try:
        async with timeout:
            await asyncio.get_running_loop().create_future()
    except TimeoutError:
        return True


# ---- what the loop sees ----------------------------------------------------------------------------------------------


async def test_the_loop_has_one_timer_for_all_timeouts(pywheel, asyncios):
    async with pywheel.timeout(FAR) as first, pywheel.timeout(2 * FAR), pywheel.timeout(3 * FAR) as last:
        last.reschedule(last.when() + FAR)
        assert whens(asyncios) == pytest.approx([first.when()], abs=1e-8)
        async with pywheel.timeout(FAR / 2) as sooner:
            assert whens(asyncios) == pytest.approx([sooner.when()], abs=1e-8)


async def test_timeouts_that_ended_in_time_wake_the_loop_at_most_once(pywheel, asyncios):
    for number in range(100):
        async with pywheel.timeout(SOON + number * SOON / 10):
            pass
    with mock.patch.object(asyncios._selector, "select", wraps=asyncios._selector.select) as select:
        await asyncio.sleep(30 * SOON)
    assert select.call_count <= 4  # that one, the end of the sleep, and each may be a nanosecond early
    assert whens(asyncios) == []


async def test_no_timeout_ends_before_the_loops_time_has_come(pywheel, loop):
    async def one(delay):
        timeout = pywheel.timeout(delay)
        await hang(timeout)
        return loop.time() - timeout.when()

    assert min(await asyncio.gather(*(one(number / 7_000) for number in range(200)))) >= 0


async def test_of_a_crowd_no_turn_ends_more_than_its_share(pywheel, loop):
    async def turns(delay):
        """Return how many had ended after each turn; None if the crowd has not entered in time."""
        when = loop.time() + delay
        timeouts = [pywheel.timeout_at(when) for _ in range(5_000)]
        tasks = [loop.create_task(hang(timeout)) for timeout in timeouts]
        await asyncio.sleep(0)
        in_time = loop.time() < when
        while loop.time() <= when:
            pass
        ended = [0]
        while ended[-1] < len(timeouts):
            await asyncio.sleep(0)
            ended.append(sum(timeout.expired() for timeout in timeouts))
        await asyncio.wait(tasks)
        return ended if in_time else None

    delay = 50 * SOON
    while (ended := await turns(delay)) is None:
        delay *= 2
    assert max(after - before for before, after in itertools.pairwise(ended)) == 1_000


async def test_a_task_that_is_ready_as_its_time_comes_leaves_in_time(pywheel, asyncios):
    """Also if an alarm comes in that very turn, for a timeout that has ended."""

    async def late(done):
        entered_in_time = False
        timeout = pywheel.timeout(SOON)
        with suppress(TimeoutError):
            async with timeout:
                entered_in_time = asyncios.time() < timeout.when()
                time.sleep(2 * SOON)
                await asyncio.sleep(0)
        done.set_result(timeout.expired() if entered_in_time else None)

    async def expired():
        """Return whether it did; None if it fell due before its block began."""
        done = asyncios.create_future()
        async with pywheel.timeout(SOON):
            pass
        time.sleep(2 * SOON)
        asyncios.call_soon(asyncio.create_task, late(done))  # it begins in the turn in which the alarm comes
        await asyncio.sleep(0)
        return await asyncio.wait_for(done, 60)

    while (found := await expired()) is None:
        pass
    assert found is False


# ---- loops of which nothing is known ---------------------------------------------------------------------------------


async def timers_of(pywheel, loop):
    """Return how many timers the loop has for two timeouts."""
    async with pywheel.timeout(FAR), pywheel.timeout(2 * FAR):
        return len(whens(loop))


@pytest.mark.parametrize("foreign", [type("Loop", (asyncio.SelectorEventLoop,), {})], indirect=True)
async def test_a_subclass_is_asked_for_each(pywheel, foreign):
    assert await timers_of(pywheel, foreign) == 2


async def test_a_loop_in_debug_mode_is_asked_for_each(pywheel, asyncios):
    asyncios.set_debug(True)
    assert await timers_of(pywheel, asyncios) == 2
    asyncios.set_debug(False)
    assert await timers_of(pywheel, asyncios) == 1


@pytest.mark.parametrize("name", ["time", "call_at"])
@pytest.mark.parametrize("where", ["loop", "class", "base"])
async def test_a_loop_with_another_time_or_call_at_is_asked_for_each_as_long_as_it_has_that(
    pywheel, asyncios, name, where
):
    owner = {"loop": asyncios, "class": type(asyncios), "base": asyncio.BaseEventLoop}[where]
    own = getattr(owner, name)
    assert await timers_of(pywheel, asyncios) == 1
    with mock.patch.object(owner, name, lambda *args, **options: own(*args, **options)):
        assert await timers_of(pywheel, asyncios) >= 2
    assert await timers_of(pywheel, asyncios) == 1


@pytest.mark.parametrize("foreign", ["uvloop"], indirect=True)
async def test_uvloop_with_another_time_gives_that(pywheel, foreign):
    for owner in (foreign, type(foreign)):
        with mock.patch.object(owner, "time", return_value=41.0):
            assert pywheel.timeout(1).when() == 42.0


@pytest.mark.parametrize("ahead", [100, -100])
async def test_a_system_clock_that_is_replaced_while_a_block_is_open_counts(pywheel, asyncios, ahead):
    real, turns = time.monotonic, []
    with pytest.raises(TimeoutError) if ahead > 0 else nullcontext():
        async with pywheel.timeout(60 if ahead > 0 else FAR):
            with mock.patch("time.monotonic", side_effect=lambda: real() + ahead):
                for _ in range(10):
                    turns.append(asyncios.time())
                    await asyncio.sleep(0)
    assert len(turns) < 5 if ahead > 0 else len(turns) == 10


@pytest.mark.parametrize("delay", [2.0**32, 1e300, float("inf")])
async def test_a_time_that_nobody_lives_to_see_is_left_to_the_loop(pywheel, loop, delay):
    async with pywheel.timeout(delay), pywheel.timeout(FAR):
        await asyncio.sleep(0)


# ---- what comes in between -------------------------------------------------------------------------------------------


async def test_the_task_is_cancelled_in_the_context_in_which_it_entered(pywheel, loop):
    class Task(asyncio.Task):
        def cancel(self, *args, **options):
            seen.append(variable.get(None))
            return super().cancel(*args, **options)

    async def block():
        variable.set("entering")
        with suppress(TimeoutError):
            async with pywheel.timeout(SOON):
                variable.set("later")
                await loop.create_future()

    seen, variable = [], ContextVar("variable")
    await Task(block(), loop=loop)
    assert seen == ["entering"]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_a_cancellation_that_raises_leaves_the_others(pywheel, loop, error):
    class Failing(asyncio.Task):
        fails = True

        def cancel(self, *args, **options):
            if self.fails:
                self.fails = False
                raise error
            return super().cancel(*args, **options)

    told = []
    loop.set_exception_handler(lambda loop, context: told.append(type(context["exception"])))
    when = loop.time() + SOON
    failing = Failing(hang(pywheel.timeout_at(when)), loop=loop)
    others = [loop.create_task(hang(pywheel.timeout_at(when + number * SOON))) for number in (0, 1)]
    others = asyncio.gather(*others)
    with suppress(KeyboardInterrupt, SystemExit):
        loop.run_until_complete(others)
        assert error is ZeroDivisionError
    assert loop.run_until_complete(others) == [True, True]
    assert told == [error] * (error is ZeroDivisionError)
    failing.cancel()
    loop.run_until_complete(asyncio.wait([failing]))


@pytest.mark.parametrize("seconds", [SOON, 0])
def test_an_interrupt_at_any_place_of_asking_for_a_timer_leaves_the_other_timeouts(pywheel, asyncios, seconds):
    async def main(intrusion):
        others = [asyncios.create_task(hang(pywheel.timeout(number * SOON))) for number in (3, 4)]
        await asyncio.sleep(0)
        sooner = pywheel.timeout(seconds)
        with suppress(KeyboardInterrupt), traced(intrusion):
            async with sooner:
                pass
        assert await asyncio.wait_for(asyncio.gather(*others), 60) == [True, True]

    for intrusion in at_each_place(("asyncio/base_events.py", "asyncio/events.py"), interrupt):
        asyncios.run_until_complete(main(intrusion))


@pytest.mark.usefixtures("no_collector")
def test_an_interrupt_at_any_place_of_a_turn_leaves_the_other_timeouts(pywheel):
    """The loop itself loses the handle that it holds then, and a task the cancellation that has begun."""

    now = 0.0

    def turn():
        nonlocal now
        now += SOON / 2
        loop.call_soon(loop.stop)
        loop.run_forever()

    for intrusion in at_each_place("asyncio/base_events.py", interrupt):
        loop = asyncio.SelectorEventLoop()
        loop.time = lambda: now
        loop.set_exception_handler(lambda loop, context: None)
        timeouts = [pywheel.timeout_at(loop.time() + number * SOON) for number in (1, 2, 3)]
        tasks = [loop.create_task(hang(timeout)) for timeout in timeouts]
        turn()
        with suppress(KeyboardInterrupt, RuntimeError), traced(intrusion):
            while not timeouts[-1].expired():
                turn()
        for _ in range(100):
            turn()
        assert sum(timeout.expired() for timeout in timeouts) >= 2, intrusion
        for task in tasks:
            task.cancel()
        turn()
        loop.close()


async def test_a_handle_that_somebody_has_cancelled_is_asked_for_again_in_the_next_turn(pywheel, asyncios):
    task = asyncios.create_task(hang(pywheel.timeout(20 * SOON)))
    await asyncio.sleep(0)
    for handle in asyncios._scheduled:
        handle.cancel()
    assert await asyncio.wait_for(task, 60)


async def test_a_loop_that_runs_within_another_is_the_running_one(pywheel, foreign):
    async def inner():
        return await hang(pywheel.timeout(SOON))

    other = asyncio.SelectorEventLoop()
    async with pywheel.timeout(FAR):
        asyncio._set_running_loop(None)
        try:
            with pytest.raises(RuntimeError, match="no running event loop"):
                pywheel.timeout(1)
            assert other.run_until_complete(inner())
        finally:
            asyncio._set_running_loop(foreign)
    assert await inner()
    other.close()


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_loop_that_was_closed_is_gone_without_the_garbage_collector(pywheel, kind):
    async def use():
        async with pywheel.timeout(FAR):
            await asyncio.sleep(0)

    loop = make_loop(pywheel, kind)
    loop.run_until_complete(use())
    alive = weakref.ref(loop)
    gc.collect()
    gc.disable()
    try:
        loop.close()
        del loop
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("kind", "how"), [("asyncio", "closed"), ("asyncio", "dropped"), ("uvloop", "closed")])
def test_a_loop_with_an_open_block_is_collected_and_the_block_with_it(pywheel, kind, how):
    loop = make_loop(pywheel, kind)
    loop.set_exception_handler(lambda loop, context: None)
    timeout = pywheel.timeout_at(loop.time() + FAR)
    task = loop.create_task(hang(timeout))
    loop.call_soon(loop.stop)
    loop.run_forever()
    alive = [weakref.ref(each) for each in (loop, task, timeout)]
    if how == "closed":
        loop.close()
    del loop, task, timeout
    gc.collect()
    assert [each() for each in alive] == [None] * 3


async def test_a_pending_timeout_keeps_its_task_alive(pywheel, loop):
    """As the loop's own timer does: nobody else holds this task."""

    async def alone():
        ended.append(await hang(pywheel.timeout(10 * SOON)))

    ended = []
    loop.create_task(alone())
    await asyncio.sleep(0)
    gc.collect()
    while not ended:
        await asyncio.sleep(SOON)
