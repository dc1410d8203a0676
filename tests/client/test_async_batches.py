"""What the tasks of a loop ask for within one turn goes to the store together."""

import asyncio
import multiprocessing
import os
import threading

import pytest

from pywheel import JobQueue, StoreError
from pywheel.jobs import Counts
from pywheel.observe import Silent
from pywheel.testing import FaultyStore
from tests.jobs.waiting import until


class Grumpy(Silent):
    def count(self, name, topic, amount=1):
        1 / (topic != "b")


def commits_of(queue):
    """Return the list of how many commands each commit had."""
    sizes = []
    apply = queue.store.apply
    queue.store.apply = lambda ops: sizes.append(len(ops)) or apply(ops)
    return sizes


def test_what_tasks_ask_for_again_goes_along_in_one_commit(queue):
    commits = commits_of(queue)

    async def put_thrice(n):
        return [await queue.aput("t", n) for _ in range(3)]

    async def program():
        return await asyncio.gather(*map(put_thrice, range(20)))

    assert len({id for ids in asyncio.run(program()) for id in ids}) == 60
    assert commits == [20, 20, 20]


def test_what_comes_during_a_commit_shares_the_next(queue):
    commits = commits_of(queue)
    gate, apply = threading.Event(), queue.store.apply
    queue.store.apply = lambda ops: gate.wait(60) and apply(ops)

    async def program():
        first = queue.aput("t")
        await asyncio.sleep(0.01)
        later = [queue.aput("t") for _ in range(5)]
        await asyncio.sleep(0.01)
        gate.set()
        await asyncio.gather(first, *later)

    asyncio.run(program())
    assert commits == [1, 5]


def test_loops_in_several_threads_all_get_their_own(queue):
    seen = []

    async def program():
        seen.extend(await asyncio.gather(*(queue.aput("t") for _ in range(50))))

    threads = [threading.Thread(target=asyncio.run, args=(program(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(seen)) == 200
    assert queue.counts() == {"t": Counts(delayed=200)}


def test_a_store_that_fails_fails_each_of_them_and_works_again(queue):
    faulty = FaultyStore(queue.store)
    queue = JobQueue(faulty)

    async def program():
        faulty.away = True
        failed = await asyncio.gather(*(queue.aput("t") for _ in range(3)), return_exceptions=True)
        faulty.away = False
        return failed, await queue.aput("t")

    failed, id = asyncio.run(program())
    assert [type(error) for error in failed] == [StoreError] * 3
    assert queue.get(id)


def test_metrics_that_raise_fail_their_own_put_alone(queue):
    queue.metrics = Grumpy()

    async def program():
        return await asyncio.gather(*(queue.aput(topic) for topic in "abc"), return_exceptions=True)

    first, second, third = asyncio.run(program())
    assert isinstance(second, ZeroDivisionError)
    assert first != third


def test_after_close_it_says_so(queue):
    async def program():
        await queue.aput("t")
        queue.close()
        with pytest.raises(StoreError, match="closed"):
            await queue.aput("t")

    asyncio.run(program())


def test_a_closed_queue_leaves_no_thread_behind(url):
    def turns():
        return [thread for thread in threading.enumerate() if thread.name == "pywheel-batches"]

    before = len(turns())
    with JobQueue(url) as queue:

        async def program():
            await queue.aput("t")

        asyncio.run(program())
        assert len(turns()) == before + 1
    until(lambda: len(turns()) == before)


def test_a_loop_that_ended_during_a_commit_holds_nobody_up(queue):
    gate, begun, apply = threading.Event(), threading.Event(), queue.store.apply

    def slow(ops):
        begun.set()
        gate.wait(60)
        return apply(ops)

    queue.store.apply = slow

    async def give_up():
        waiting = asyncio.ensure_future(queue.aput("t"))
        await asyncio.to_thread(begun.wait, 60)
        waiting.cancel()

    async def program():
        return await queue.aput("t")

    asyncio.run(give_up())
    gate.set()
    assert asyncio.run(program())
    assert queue.counts() == {"t": Counts(delayed=2)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_puts_as_its_parent_does(tmp_path):
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue:

        async def program():
            return await queue.aput("t")

        def child(results):
            results.put(asyncio.run(program()))

        asyncio.run(program())
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        process = context.Process(target=child, args=(results,))
        process.start()
        assert results.get(timeout=60) == 2
        process.join()
        assert asyncio.run(program()) == 3
