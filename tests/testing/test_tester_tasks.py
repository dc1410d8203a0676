"""Tasks of a program in a test: found by their arguments, run by the clock, with all middleware."""

import asyncio
from datetime import timedelta

import pytest

from pywheel import BadArguments, BadOption, Fixed


def test_puts_are_found_by_their_arguments(tester, queue):
    @queue.task("order.close", key=lambda order_id: f"order-{order_id}")
    def close(order_id: int, reason: str = "unpaid"):
        pass

    close.options(delay="30m").put(7)
    close.put(order_id=8, reason="fraud")
    [first] = tester.assert_put(close, 7, count=1, delay=timedelta(minutes=30), key="order-7")
    assert first.json() == {"order_id": 7}
    tester.assert_put(close, count=2)
    tester.assert_put(close, order_id=8)
    tester.assert_put(close, reason="fraud", count=1)
    tester.assert_put(close, 7, "unpaid", count=1)  # what a put leaves to its default
    tester.assert_put(close, 7, "fraud", count=0)
    assert [job.id for job in tester.jobs(close, "delayed")] == [1, 2]
    with pytest.raises(AssertionError, match=r"no job was put with topic 'order.close', order_id 9, key 'order-9'"):
        tester.assert_put(close, 9, key="order-9")


def test_a_name_that_means_two_things_is_refused(tester, queue):
    @queue.task("t")
    def order(count: int, key: str = "none") -> None: ...

    order.put(99)
    for said in ({"count": 1}, {"key": "k"}):
        with pytest.raises(BadOption, match="give the argument by its place"):
            tester.assert_put(order, **said)
    assert len(tester.assert_put(order, 99, delay=0)) == 1
    for args, kwargs in [((1, "2", 3), {}), ((), {"m": 1})]:
        with pytest.raises(BadArguments):
            tester.assert_put(order, *args, **kwargs)


def test_what_was_put_by_topic_and_is_no_call_is_none(tester, queue):
    @queue.task("t")
    def task(n: int): ...

    queue.put("t", {"n": "five"})
    queue.put("t", b"{")
    tester.assert_put(task, count=2)
    tester.assert_put(task, 5, count=0)


def test_tasks_run_by_the_clock_plain_and_async(tester, queue):
    seen = []

    @queue.task()
    async def second(n: int):
        await asyncio.sleep(0)
        seen.append((n, tester.clock.time()))

    @queue.task()
    def first(n: int):
        second.options(delay="10m").put(n + 1)

    first.options(delay="30m").put(1)
    assert tester.advance("1h") == 2
    assert seen == [(2, 2_400)]

    async def program():
        await first.aio.put(5)
        assert await tester.aadvance("10m") == 2

    asyncio.run(program())
    assert seen[1:] == [(6, 4_200)]


@pytest.mark.parametrize("coroutine", [False, True])
def test_a_dead_job_is_told_wherever_the_test_runs(tester, queue, coroutine, caplog):
    seen = []

    @queue.on_dead
    async def bury(job):
        await asyncio.sleep(0)
        seen.append(job.last_error)

    @queue.on_dead
    async def fails(job):
        raise OSError("nobody listens")

    queue.handler("t", retry=Fixed("1m", attempts=1))(lambda job: 1 / 0)
    queue.put("t")
    if coroutine:
        assert asyncio.run(tester.arun_due()) == 1
    else:
        assert tester.run_due() == 1
    assert seen == ["ZeroDivisionError: division by zero"]
    assert "on_dead failed" in caplog.text
