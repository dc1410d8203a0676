"""All requests of a loop's tasks within one turn go to the store together."""

import asyncio
import gc
import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from pywheel import JobQueue, OutcomeUnknown, StoreAway, StoreBusy, StoreClosed, StoreError, StoreFull
from pywheel.events import JobsPut
from pywheel.jobs import Counts, NewJob
from pywheel.jobs.commands import Cancel, Put
from pywheel.stores import open
from pywheel.stores.contract import Locked
from pywheel.testing import FaultyStore
from tests.jobs.waiting import LIMIT, until


def commits_of(queue):
    """Return the list of how many commands each commit had."""
    sizes = []
    apply = queue.store.apply
    queue.store.apply = lambda commands: sizes.append(len(commands)) or apply(commands)
    return sizes


def held_up(queue):
    """Let each commit wait; return the events that say that one has begun, and that they may go on."""
    begun, gate, apply = threading.Event(), threading.Event(), queue.store.apply

    def slow(commands):
        begun.set()
        gate.wait(60)
        return apply(commands)

    queue.store.apply = slow
    return begun, gate


async def gathered(*calls):
    """Return what calls of one turn come to, errors too."""
    return await asyncio.gather(*calls, return_exceptions=True)


async def applied(queue, *commands):
    """Return the outcomes of commands of one turn, errors too."""
    return await gathered(*map(queue.calls.aapply, commands))


async def begun_in(queue, call):
    """Return a task, once the commit that it is in has begun, and what lets the commit go on."""
    begun, gate = held_up(queue)
    task = asyncio.create_task(call)
    await asyncio.to_thread(begun.wait, 60)
    return task, gate


def test_what_tasks_ask_for_again_goes_along_in_one_commit(queue):
    commits = commits_of(queue)

    async def put_thrice(n):
        return [await queue.aio.put("t", n) for _ in range(3)]

    assert len({id for ids in asyncio.run(gathered(*map(put_thrice, range(20)))) for id in ids}) == 60
    assert commits == [20, 20, 20]


def test_a_cancelled_task_changes_nothing_for_the_others_of_its_turn(queue):
    async def program():
        tasks = [asyncio.create_task(queue.aio.put("t", n)) for n in range(3)]
        await asyncio.sleep(0)  # each has asked
        tasks[1].cancel()
        return await asyncio.wait_for(gathered(*tasks), 60)

    first, second, third = asyncio.run(program())
    assert isinstance(second, asyncio.CancelledError)
    assert first != third
    assert queue.topics.counts() == {"t": Counts(delayed=3)}


def test_what_comes_during_a_commit_shares_the_next(queue):
    commits = commits_of(queue)

    async def program():
        first, gate = await begun_in(queue, queue.aio.put("t"))
        later = [asyncio.create_task(queue.aio.put("t")) for _ in range(5)]
        await asyncio.sleep(0.01)
        gate.set()
        await asyncio.gather(first, *later)

    asyncio.run(program())
    assert commits == [1, 5]


def test_loops_in_several_threads_all_get_their_own(queue):
    def put():
        return asyncio.run(gathered(*(queue.aio.put("t") for _ in range(50))))

    with ThreadPoolExecutor(4) as pool:
        seen = [id for ids in [pool.submit(put) for _ in range(4)] for id in ids.result(60)]
    assert len(set(seen)) == 200
    assert queue.topics.counts() == {"t": Counts(delayed=200)}


def test_a_store_that_fails_fails_each_of_them_and_works_again(queue):
    faulty = FaultyStore(queue.store)
    queue = JobQueue(faulty)
    faulty.away = True
    failed = asyncio.run(gathered(*(queue.aio.put("t") for _ in range(3))))
    faulty.away = False
    assert [isinstance(error, StoreError) for error in failed] == [True] * 3
    assert queue.get(asyncio.run(queue.aio.put("t")))


def without_room(queue, others=None):
    """Return a queue on a store that has no room for puts, and the list of what is asked of it."""
    asked = []

    def fault(when, commands):
        if when == "before":
            asked.append(len(commands))
            if any(isinstance(command, Put) for command in commands):
                raise StoreFull("no room") if len(asked) == 1 or others is None else others

    return JobQueue(FaultyStore(queue.store, fault)), asked


def test_where_puts_find_no_room_the_acks_of_their_turn_go_on_without_them(queue):
    queue.put_many([queue.job("t")] * 2)
    jobs = queue.reserve("t", 2)
    full, asked = without_room(queue)
    put, first, again, second = asyncio.run(
        gathered(full.aio.put("t"), full.aio.ack(jobs[0]), full.aio.put("t"), full.aio.ack(jobs[1]))
    )
    assert (first, second) == (True, True)
    assert {type(error) for error in (put, again)} == {StoreFull}
    assert asked == [4, 2, 2, 1, 1]


def test_once_a_full_store_is_away_as_well_the_rest_of_a_turn_is_not_tried(queue):
    full, asked = without_room(queue, StoreAway("gone"))
    errors = asyncio.run(gathered(*(full.aio.put("t") for _ in range(4))))
    assert [type(error) for error in errors] == [StoreAway, StoreAway, StoreFull, StoreFull]
    assert asked == [4, 2]


def test_many_puts_of_a_turn_that_a_full_store_refuses_are_sent_again_a_few_times_only(queue):
    id = queue.put("t")
    full, asked = without_room(queue)
    *errors, cancelled = asyncio.run(gathered(*(full.aio.put("t") for _ in range(1_000)), full.aio.cancel(id)))
    assert cancelled
    assert {type(error) for error in errors} == {StoreFull}
    assert len(asked) < 20


@pytest.mark.parametrize("place", [0, 500, 998])
def test_small_puts_of_a_turn_are_stored_beside_a_large_one_that_has_no_room(queue, place):
    def fault(when, commands):
        if any(b"large" in job.body for command in commands for job in command.jobs):
            raise StoreFull("no room")

    full = JobQueue(FaultyStore(queue.store, fault))
    bodies = [b"large" if n == place else b"small" for n in range(999)]
    outcomes = asyncio.run(gathered(*(full.aio.put("t", body) for body in bodies)))
    assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, StoreFull)] == [place]
    assert queue.topics.counts() == {"t": Counts(delayed=998)}


def test_what_was_put_is_told_once_a_topic_and_a_listener_that_raises_hurts_nobody(queue, caplog):
    seen = []
    queue.events.listen(lambda event: 1 / 0)
    queue.events.listen(seen.append)
    asyncio.run(gathered(*(queue.aio.put(topic) for topic in "abba"), queue.aio.put_many([queue.job("a")] * 3)))
    until(lambda: len(seen) == 2)
    assert sorted(seen) == [JobsPut("a", 5), JobsPut("b", 2)]
    assert "a listener failed" in caplog.text


JOB, KEYED = NewJob("t", b"b", 0), NewJob("t", b"b", 0, "k")


def test_jobs_that_are_put_by_commands_are_told_of(queue):
    told = []
    queue.events.listeners = (told.append,)
    queue.calls.apply(Put((JOB, KEYED)))
    asyncio.run(applied(queue, Put((JOB,)), Put((KEYED,)), Cancel(1)))
    queue.calls.apply(Cancel(1))
    until(lambda: told == [JobsPut("t", 2), JobsPut("t", 1)])  # a thread tells, after the answer


def test_close_while_tasks_put_gives_each_a_result_or_an_error(url):
    async def program():
        with JobQueue(url) as queue:
            putting = [asyncio.create_task(queue.aio.put("t", n)) for n in range(500)]
            await asyncio.sleep(0)
            while not any(task.done() for task in putting):
                await asyncio.sleep(0.001)
            closing = asyncio.create_task(asyncio.to_thread(queue.close))
            putting += [asyncio.create_task(queue.aio.put("t", n)) for n in range(500)]
            results = await asyncio.wait_for(asyncio.gather(*putting, return_exceptions=True), 60)
            await closing
            return results

    results = asyncio.run(program())
    assert {type(result) for result in results} <= {int, StoreClosed}
    assert int in map(type, results)


def put_for_ever(queue, ended):
    try:
        while True:
            queue.put("t")
    except BaseException as error:
        ended.append(error)


def test_close_while_threads_put_gives_each_a_result_or_an_error(url):
    for _ in range(10):
        queue, ended = JobQueue(url), []
        threads = [threading.Thread(target=put_for_ever, args=(queue, ended)) for _ in range(6)]
        for thread in threads:
            thread.start()
        queue.put("u")
        queue.close()
        for thread in threads:
            thread.join(60)
        assert [type(error) for error in ended] == [StoreClosed] * 6


def test_a_listener_may_close_the_queue(url):
    queue = JobQueue(url)
    queue.events.listen(lambda event: queue.calls.batches.close())
    assert len(asyncio.run(asyncio.wait_for(gathered(*(queue.aio.put("t") for _ in range(5))), 60))) == 5
    until(lambda: queue.calls.batches._closed)
    with pytest.raises(StoreClosed):
        asyncio.run(queue.aio.put("t"))
    queue.close()


def test_many_may_close_at_once(url):
    queue = JobQueue(url)

    async def program():
        await queue.aio.put("t")
        await asyncio.gather(*(asyncio.to_thread(queue.close) for _ in range(8)))

    asyncio.run(asyncio.wait_for(program(), 60))


@pytest.mark.parametrize("closed", [True, False])
def test_a_queue_leaves_no_thread_behind_closed_or_not(closed):
    async def program(queue):
        await queue.aio.put("t")
        queue.events.listen(print)

    before = set(threading.enumerate())
    queue = JobQueue("memory:")
    asyncio.run(program(queue))
    [thread] = set(threading.enumerate()) - before
    if closed:
        queue.close()
    else:
        del queue
        gc.collect()
    until(lambda: not thread.is_alive())


def test_a_loop_that_ended_during_a_commit_holds_nobody_up(queue):
    async def give_up():
        waiting, gate = await begun_in(queue, queue.aio.put("t"))
        waiting.cancel()
        return gate

    asyncio.run(give_up()).set()
    assert asyncio.run(queue.aio.put("t"))
    assert queue.topics.counts() == {"t": Counts(delayed=2)}


# ---- cancelled ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(6))
def test_a_cancelled_reserve_strands_no_job(queue, turns):
    """Whenever it is cancelled: before it was sent, meanwhile, or when the jobs are there and the task is not on."""
    ids = [queue.put("t") for _ in range(3)]

    async def program():
        task = asyncio.create_task(queue.aio.reserve("t", 2))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        return await gathered(task)

    [got] = asyncio.run(program())
    if isinstance(got, asyncio.CancelledError):
        assert queue.topics.counts() == {"t": Counts(delayed=3)}
        assert [job.attempt for job in queue.reserve("t", 5)] == [1, 1, 1]
    else:
        assert [job.id for job in got] == ids[:2]


async def cancelled_when_its_jobs_have_come(queue):
    task = asyncio.create_task(queue.aio.reserve("t"))
    await asyncio.sleep(0)
    end = queue.calls.batches._end
    queue.calls.batches._end = lambda *args: (end(*args), task.cancel(), task.cancel())
    with pytest.raises(asyncio.CancelledError):
        await task


async def cancelled_again_and_again(queue):
    task, gate = await begun_in(queue, queue.aio.reserve("t"))
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def cut_off_by_the_end_of_its_loop(queue):
    task, gate = await begun_in(queue, queue.aio.reserve("t"))
    threading.Timer(0.05, gate.set).start()
    return task


WAYS = [cancelled_when_its_jobs_have_come, cancelled_again_and_again, cut_off_by_the_end_of_its_loop]


@pytest.mark.parametrize("program", WAYS, ids=lambda program: program.__name__)
def test_a_reserve_that_is_cancelled_gives_back_its_jobs(queue, program):
    queue.put("t")
    asyncio.run(program(queue))
    assert queue.topics.counts() == {"t": Counts(delayed=1)}


# ---- interrupted ----------------------------------------------------------------------------------------------------


def interrupted_once(monkeypatch, owner, name):
    """Have the next call of a method raise what a signal handler may raise there."""
    method = getattr(owner, name)

    def interrupted(*arguments):
        monkeypatch.setattr(owner, name, method)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)


def put_in(loop, queue):
    return loop.run_until_complete(asyncio.wait_for(queue.aio.put("t"), LIMIT))


def test_an_interrupt_as_a_turn_is_sent_is_told_to_its_tasks_and_later_puts_go_on(queue, monkeypatch):
    interrupted_once(monkeypatch, queue.calls.batches, "_send")
    with closing(asyncio.new_event_loop()) as loop:
        first = loop.create_task(queue.aio.put("t"))
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(first)
        assert put_in(loop, queue)
        with pytest.raises(OutcomeUnknown, match="interrupted"):
            loop.run_until_complete(first)


def test_puts_go_on_after_an_interrupt_as_a_turn_was_to_begin(queue, monkeypatch):
    async def interrupted():
        interrupted_once(monkeypatch, asyncio.get_running_loop(), "call_soon")
        await queue.aio.put("t")

    with closing(asyncio.new_event_loop()) as loop:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(interrupted())
        assert put_in(loop, queue)


# ---- fork -----------------------------------------------------------------------------------------------------------


@pytest.mark.stress
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_the_batches_of_a_forked_child_are_its_own(queue):
    """Whatever the parent's thread and its locks were about; the store's own part is tested with the store."""

    def child(results):
        queue.store.apply = lambda commands: [[4711] for _ in commands]
        results.put(asyncio.run(asyncio.wait_for(queue.aio.put("t"), 60)))

    asyncio.run(queue.aio.put("t"))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    with queue.calls.batches._mutex:  # as if another thread had it at the moment of the fork
        process = context.Process(target=child, args=(results,))
        process.start()
    assert results.get(timeout=60) == 4711
    process.join(60)
    assert asyncio.run(queue.aio.put("t"))


# ---- commands that wait for another program's transaction -----------------------------------------------------------


class Holding(FaultyStore):
    """A store in which keys are locked by another program, until they are tried again."""

    def apply_each(self, commands, *, again=False):
        if again:
            return super().apply_each(commands)
        keyed = [isinstance(one, Put) and one.jobs[0].key is not None for one in commands]
        found = iter(super().apply_each([one for one, waits in zip(commands, keyed, strict=True) if not waits]))
        return [Locked(10) if waits else next(found) for waits in keyed]


@pytest.fixture
def locked_keys(url):
    with JobQueue(lambda: Holding(open(url))) as queue:
        yield queue


def test_a_command_that_waits_for_a_lock_fails_if_the_system_has_no_thread_that_tries_it_again(
    locked_keys, monkeypatch
):
    start = threading.Thread.start

    def refused(thread):
        if thread.name == "pywheel-retries" and not over:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    over = []

    async def program():
        puts = [locked_keys.aio.put("t", key="k"), locked_keys.aio.put("t")]
        found = await asyncio.wait_for(gathered(*puts), 60)
        over.append(True)
        return [*found, await locked_keys.aio.put("t", key="k")]

    busy, *ids = asyncio.run(program())
    assert isinstance(busy, StoreBusy)
    assert all(locked_keys.get(id) for id in ids)


def test_a_listener_may_close_the_queue_after_a_put_that_waited_for_a_lock(locked_keys):
    locked_keys.events.listen(lambda event: locked_keys.close())

    async def program():
        return await locked_keys.aio.put("t", key="k")

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, program()).result(60)
    until(lambda: not any(thread.name == "pywheel-retries" for thread in threading.enumerate()))
