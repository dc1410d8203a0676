"""A worker on the program's own loop."""

import asyncio
import contextlib
import contextvars
import gc
import signal
import threading

import pytest

from pywheel import (
    AsyncJobQueue,
    AsyncWorker,
    BadOption,
    EventLoop,
    Fixed,
    JobQueue,
    State,
    StoreClosed,
    StoreError,
)
from pywheel.jobs import Outcome
from pywheel.jobs.managed import ManagedHandler
from tests.jobs.waiting import LIMIT, until
from tests.outlets.loops import on_a_loop

LOOPS = {"asyncio": asyncio.new_event_loop, "pywheel": EventLoop}
try:
    import uvloop
except ImportError:
    pass
else:
    LOOPS["uvloop"] = uvloop.new_event_loop

ONCE = Fixed(0, attempts=1)


@pytest.fixture
def aqueue():
    queue = JobQueue("memory:")
    yield queue.aio
    queue.close()


@pytest.fixture(autouse=True)
def no_thread_is_left():
    """Each worker ends its thread before its program has it back; those of plain handlers end when they are idle."""
    yield
    until(no_worker)


def no_worker():
    return not [thread for thread in threading.enumerate() if thread.name == "pywheel-worker"]


def run(main, loop="asyncio"):
    """Run a coroutine as a program does; one that hangs fails."""

    async def limited():
        return await asyncio.wait_for(main, LIMIT)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(limited())


async def handled(queue, topic):
    """Put a job; return its end."""
    return await queue.wait(await queue.put(topic), timeout=LIMIT)


def noting(seen):
    async def handle(job):
        await asyncio.sleep(0)
        seen.add(job.id)

    return handle


# ---- where things run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
def test_coroutine_handlers_run_on_the_loop_of_the_program_and_plain_ones_in_threads(aqueue, loop):
    seen = {}

    @aqueue.handler("coroutine")
    async def coroutine(job):
        await asyncio.sleep(0)
        seen["coroutine"] = asyncio.get_running_loop()

    async def later():
        seen["returned"] = asyncio.get_running_loop()

    aqueue.handler("returns")(lambda job: later())

    @aqueue.handler("plain")
    def plain(job):
        seen["plain"] = threading.current_thread().name

    async def main():
        async with AsyncWorker(aqueue):
            for topic in ("coroutine", "returns", "plain"):
                assert (await handled(aqueue, topic)).state is State.DONE
        return asyncio.get_running_loop()

    loop = run(main(), loop)
    assert seen == {"coroutine": loop, "returned": loop, "plain": "pywheel-handlers"}


@on_a_loop
async def test_what_stands_around_handlers_runs_on_the_loop_of_the_program(aqueue):
    seen, told = {}, asyncio.Event()

    class Managed(ManagedHandler):
        async def __call__(self, job):
            seen["managed"] = asyncio.get_running_loop()

        def attach(self, topic, notes, concurrency):
            pass

        async def aclose(self):
            seen["closed"] = asyncio.get_running_loop()

    @aqueue.provide
    async def connection():
        seen["opened"] = asyncio.get_running_loop()
        yield 7

    @aqueue.task("task", retry=ONCE)
    async def task(connection):
        raise ValueError(connection)

    @aqueue.on_dead
    async def dead(job):
        seen["dead"] = asyncio.get_running_loop()
        told.set()

    aqueue.before(lambda job: seen.setdefault("before", asyncio.get_running_loop()))
    aqueue.after(lambda job, error: seen.setdefault("after", asyncio.get_running_loop()))
    aqueue.handler("managed")(Managed())
    async with AsyncWorker(aqueue):
        await handled(aqueue, "managed")
        assert (await aqueue.wait(await task.put(), timeout=LIMIT)).error == "ValueError: 7"
        await told.wait()
    words = ("managed", "closed", "opened", "dead", "before", "after")
    assert seen == dict.fromkeys(words, asyncio.get_running_loop())


@on_a_loop
async def test_coroutine_handlers_have_the_context_of_who_runs_the_worker_and_none_has_that_of_another(aqueue):
    who = contextvars.ContextVar("who", default="nobody")
    seen = []

    @aqueue.handler("t", concurrency=1)
    async def handle(job):
        seen.append(who.get())
        who.set("a handler")

    who.set("the program")
    async with AsyncWorker(aqueue):
        who.set("another")
        for _ in range(3):
            await handled(aqueue, "t")
    assert seen == ["the program"] * 3


def test_two_workers_share_the_loop_of_any_thread(aqueue):
    other, seen = JobQueue("memory:").aio, [set(), set()]

    async def main():
        async with other, AsyncWorker(aqueue), AsyncWorker(other):
            ids = [await queue.put_many([queue.job("t")] * 50) for queue in (aqueue, other)]
            for queue, mine in zip((aqueue, other), ids, strict=True):
                await asyncio.gather(*(queue.wait(id, timeout=LIMIT) for id in mine))
        assert seen == [*map(set, ids)]
        ended.append(threading.current_thread())

    for queue, mine in zip((aqueue, other), seen, strict=True):
        queue.handler("t")(noting(mine))
    ended, thread = [], threading.Thread(target=lambda: run(main()))
    thread.start()
    thread.join(LIMIT)
    assert ended == [thread]


# ---- how it begins --------------------------------------------------------------------------------------------------


@on_a_loop
async def test_nothing_is_opened_before_it_begins():
    opened = []
    queue = AsyncJobQueue(lambda: opened.append("opened") or "memory:")
    queue.handler("t")(print)
    worker = AsyncWorker(queue)
    assert opened == []
    async with worker:
        assert opened == ["opened"]
    await queue.close()


@on_a_loop
async def test_what_is_wrong_is_said_as_it_begins(aqueue):
    def away():
        raise StoreError("away")

    nowhere = AsyncJobQueue(away)
    nowhere.handler("t")(print)
    with pytest.raises(BadOption, match="there are no handlers"):
        await AsyncWorker(aqueue).__aenter__()
    aqueue.handler("t")(print)
    with pytest.raises(BadOption, match="did you mean"):
        await AsyncWorker(aqueue, topics=["tt"]).__aenter__()
    with pytest.raises(TypeError, match="'topic' is not an option of an AsyncWorker, did you mean topics"):
        AsyncWorker(aqueue, topic=["t"])
    with pytest.raises(TypeError, match="a worker works for a JobQueue"):
        AsyncWorker("memory:")
    with pytest.raises(StoreError, match="away"):
        await AsyncWorker(nowhere).__aenter__()


@on_a_loop
async def test_a_worker_works_once(aqueue):
    aqueue.handler("t")(print)
    async with AsyncWorker(aqueue) as worker:
        pass
    for begin in (worker.run, worker.__aenter__):
        with pytest.raises(RuntimeError, match="works once"):
            await begin()


# ---- how it ends ----------------------------------------------------------------------------------------------------


class Slow:
    """A handler that begins, and goes on until it may end; what became of it is noted."""

    def __init__(self):
        self.said = []
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def handle(self, job):
        self.begun.set()
        try:
            await self.may_end.wait()
            self.said.append("returned")
        except asyncio.CancelledError:
            self.said.append("cancelled")
            raise


@pytest.fixture
def slow(aqueue):
    slow = Slow()
    aqueue.handler("slow", retry=Fixed("1h"))(slow.handle)
    return slow


async def begun(queue, slow):
    id = await queue.put("slow")
    await slow.begun.wait()
    return id


def given_back(queue, slow, id):
    """Whether the handler was cancelled, and its job given back unspent."""
    job = queue.sync.get(id)
    return (job.state, job.attempt, slow.said) == (State.DELAYED, 0, ["cancelled"])


async def alone(queue):
    await AsyncWorker(queue, grace="1h").run()


async def block(queue):
    async with AsyncWorker(queue, grace="1h"):
        await asyncio.Event().wait()


both_ways = pytest.mark.parametrize("work", [alone, block])


@on_a_loop
async def test_the_end_of_the_block_drains(aqueue, slow):
    async with AsyncWorker(aqueue):
        id = await begun(aqueue, slow)
        asyncio.get_running_loop().call_later(0.05, slow.may_end.set)
    assert ((await aqueue.get(id)).state, slow.said) == (State.DONE, ["returned"])


@on_a_loop
async def test_stop_ends_what_awaits_run_once_handlers_have_ended(aqueue, slow):
    worker = AsyncWorker(aqueue)
    running = asyncio.create_task(worker.run())
    id = await begun(aqueue, slow)
    worker.stop()
    assert worker.told_to_stop
    await asyncio.sleep(0.05)
    assert not running.done()
    slow.may_end.set()
    await running
    assert ((await aqueue.get(id)).state, slow.said) == (State.DONE, ["returned"])


@on_a_loop
async def test_a_stop_that_comes_before_the_worker_has_begun_counts(aqueue, slow):
    worker = AsyncWorker(aqueue)
    worker.stop()
    await worker.run()


@on_a_loop
async def test_handlers_are_cancelled_at_the_end_of_the_grace_and_their_jobs_given_back_unspent(aqueue, slow):
    async with AsyncWorker(aqueue, grace=0.05):
        id = await begun(aqueue, slow)
    assert given_back(aqueue, slow, id)


@both_ways
@on_a_loop
async def test_a_second_cancellation_ends_the_grace(aqueue, slow, work):
    running = asyncio.create_task(work(aqueue))
    id = await begun(aqueue, slow)
    running.cancel()
    await asyncio.sleep(0.05)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert given_back(aqueue, slow, id)


@both_ways
def test_a_program_that_ends_without_stopping_it_gives_back_unspent_what_runs(aqueue, slow, work):
    """As `asyncio.run` does: it cancels all tasks at once, those of handlers among them."""
    kept = []

    async def main():
        kept.append(asyncio.create_task(work(aqueue)))
        return await begun(aqueue, slow)

    assert given_back(aqueue, slow, run(main()))
    assert kept[0].cancelled()


def test_no_job_begins_once_the_program_ends_though_its_worker_has_not_heard_of_that(aqueue, slow, monkeypatch):
    stop = AsyncWorker.stop

    def stop_late(worker):
        loop = asyncio.get_running_loop()

        def after_the_next_claim():
            until(lambda: aqueue.sync.jobs.list("slow")[0].claims > 1)
            loop.call_soon_threadsafe(slow.may_end.set)
            stop(worker)

        threading.Thread(target=after_the_next_claim).start()

    async def main():
        asyncio.create_task(alone(aqueue))  # noqa: RUF006
        return await begun(aqueue, slow)

    monkeypatch.setattr(AsyncWorker, "stop", stop_late)
    assert given_back(aqueue, slow, run(main()))


@on_a_loop
async def test_a_task_that_went_on_after_it_was_cancelled_can_work(aqueue):
    done = []

    @aqueue.handler("t")
    async def note(job):
        done.append(job.id)

    worker = AsyncWorker(aqueue)

    async def end_after_a_job():
        await handled(aqueue, "t")
        worker.stop()

    asyncio.current_task().cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    ending = asyncio.create_task(end_after_a_job())
    await worker.run()
    await ending
    assert len(done) == 1


@on_a_loop
async def test_a_failing_task_of_a_group_ends_the_worker_beside_it(aqueue, slow):
    async def fail():
        await begun(aqueue, slow)
        raise ValueError("beside")

    async def program():
        async with asyncio.TaskGroup() as group:
            group.create_task(AsyncWorker(aqueue, grace=0).run())
            group.create_task(fail())

    with pytest.raises(ExceptionGroup, match="unhandled errors in a TaskGroup"):
        await program()
    assert slow.said == ["cancelled"]


@on_a_loop
async def test_an_error_of_the_block_goes_on_after_the_drain(aqueue, slow):
    async def program():
        async with AsyncWorker(aqueue, grace=0):
            await begun(aqueue, slow)
            raise ValueError("the program's")

    with pytest.raises(ValueError, match="the program's"):
        await program()
    assert slow.said == ["cancelled"]


@on_a_loop
async def test_what_ends_the_worker_is_logged_then_and_raised_at_the_end_of_the_block(aqueue, slow, caplog):
    async def program():
        async with AsyncWorker(aqueue):
            await aqueue.close()
            while "stop it before you close its queue" not in caplog.text:
                await asyncio.sleep(0.002)

    with pytest.raises(StoreClosed):
        await program()


# ---- what a loop may suffer -----------------------------------------------------------------------------------------


@on_a_loop
async def test_an_exit_of_a_handler_ends_its_attempt_and_not_the_program(aqueue):
    async def leave(job):
        raise SystemExit(3)

    aqueue.handler("coroutine", retry=ONCE)(leave)
    aqueue.handler("returns", retry=ONCE)(lambda job: leave(job))
    async with AsyncWorker(aqueue):
        assert [(await handled(aqueue, topic)).error for topic in ("coroutine", "returns")] == ["SystemExit: 3"] * 2


@pytest.mark.parametrize("loop", ["asyncio", "pywheel"])
def test_an_interrupt_that_comes_in_a_handler_ends_the_program(aqueue, loop):
    """As where Ctrl-C comes while the handler's own code runs: nobody else would hear of it."""

    @aqueue.handler("t", retry=Fixed("1h"))
    async def handle(job):
        raise KeyboardInterrupt

    aqueue.sync.put("t")
    with pytest.raises(KeyboardInterrupt):
        run(block(aqueue), loop)
    assert aqueue.sync.topics.counts()["t"].delayed == 1


@pytest.fixture
def closes(aqueue):
    """Give a function that works until a handler has begun, and closes the loop under the worker."""
    kept = []

    async def until_it_has(begun):
        kept.append(asyncio.create_task(AsyncWorker(aqueue).run()))
        while not begun.is_set():
            await asyncio.sleep(0.002)

    def closes(begun):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(until_it_has(begun))
        loop.close()

    yield closes
    until(no_worker)
    kept.clear()
    gc.collect()


def test_a_loop_that_is_closed_under_the_worker_ends_it_and_gives_back_what_runs_there(aqueue, slow, closes, caplog):
    id = aqueue.sync.put("slow")
    closes(slow.begun)
    until(lambda: aqueue.sync.get(id).state is State.DELAYED)
    assert aqueue.sync.get(id).attempt == 0
    until(lambda: "the loop was closed under 1 handlers" in caplog.text)
    assert slow.said == []
    assert aqueue.sync.jobs.history(id)[-1].outcome is Outcome.RELEASED


def test_what_a_plain_handler_awaits_fails_when_the_loop_is_closed(aqueue, closes):
    begun = asyncio.Event()

    async def endless():
        begun.set()
        await asyncio.Event().wait()

    aqueue.handler("t", retry=Fixed("1h"))(lambda job: endless())
    id = aqueue.sync.put("t")
    closes(begun)
    until(lambda: "the loop was closed" in (aqueue.sync.get(id).last_error or ""))


# ---- signals --------------------------------------------------------------------------------------------------------


@on_a_loop
async def test_it_takes_no_signal_unless_it_is_asked_to(aqueue, slow):
    def handlers():
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and stays so
    before = handlers()
    try:
        for options, taken in (({}, False), ({"signals": True}, True)):
            worker = AsyncWorker(aqueue)
            running = asyncio.create_task(worker.run(**options))
            await asyncio.sleep(0)
            assert [one is not other for one, other in zip(before, handlers(), strict=True)] == [taken] * 3
            worker.stop()
            await running
            assert handlers() == before
    finally:
        signal.signal(signal.SIGHUP, hang_up)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_signal_drains_and_a_second_one_ends_the_grace(aqueue, slow, loop):
    async def main():
        worker = AsyncWorker(aqueue, grace="1h")
        running = asyncio.create_task(worker.run(signals=True))
        id = await begun(aqueue, slow)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0.05)
        assert worker.told_to_stop
        assert not running.done()
        signal.raise_signal(signal.SIGINT)
        await running
        return id

    assert given_back(aqueue, slow, run(main(), loop))
