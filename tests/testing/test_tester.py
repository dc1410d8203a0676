"""A program's queue in a test: in memory, by a clock that the test moves."""

import asyncio
import threading
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from pywheel import (
    BadBody,
    BadJob,
    BadOption,
    Fixed,
    GiveUp,
    JobQueue,
    Keyring,
    Ladder,
    ManualClock,
    RetryLater,
    StoreClosed,
    Timers,
)
from pywheel.jobs import State
from pywheel.testing import QueueTester

DAY = 86_400


def seconds(tester):
    return tester.clock.time()


# ---- time -----------------------------------------------------------------------------------------------------------


def test_each_job_finds_the_clock_at_its_own_due_time(tester, queue):
    seen = []
    queue.handler("a")(lambda job: seen.append((job.json(), seconds(tester))))
    for minutes in (30, 10, 20, 40):
        queue.put("a", minutes, delay=f"{minutes}m")
    assert tester.advance("30m") == 3
    assert seen == [(10, 600), (20, 1_200), (30, 1_800)]
    assert seconds(tester) == 1_800
    assert tester.advance(599.999) == 0
    assert tester.advance(0.001) == 1


def test_what_handlers_put_is_due_in_its_turn(tester, queue):
    seen = []

    @queue.handler("chain")
    def chain(job):
        seen.append(("chain", seconds(tester)))
        queue.put("end", delay="5m")
        if job.json():
            queue.put("chain", job.json() - 1, delay="10m")

    queue.handler("end")(lambda job: seen.append(("end", seconds(tester))))
    queue.put("chain", 2, delay="10m")
    assert tester.advance("1h") == 6
    assert seen == [("chain", 600), ("end", 900), ("chain", 1200), ("end", 1500), ("chain", 1800), ("end", 2100)]


def test_retries_climb_their_ladder_on_the_way(tester, queue):
    seen = []

    @queue.handler("a", retry=Ladder("5s", "1m", "1h"))
    def fails(job):
        seen.append(seconds(tester))
        raise ValueError(job.attempt)

    queue.put("a")
    assert tester.advance("3d") == 4
    assert seen == [0, 5, 65, 3_665]
    [dead] = tester.dead("a")
    assert dead.last_error == "ValueError: 4"
    assert [str(error) for _, error in tester.failures] == ["1", "2", "3", "4"]
    assert [job.attempt for job, _ in tester.failures] == [1, 2, 3, 4]


def test_timers_on_the_clock_and_jobs_take_turns(tester, queue):
    seen, timers = [], Timers(tester.clock)
    queue.handler("a")(lambda job: seen.append(("job", seconds(tester))))
    timers.call_later(10, lambda: (seen.append(("timer", seconds(tester))), queue.put("a", delay=5)))
    timers.call_later(20, lambda: seen.append(("timer", seconds(tester))))
    queue.put("a", delay=12)
    assert tester.advance(30) == 2
    assert seen == [("timer", 10), ("job", 12), ("job", 15), ("timer", 20)]


def test_a_schedule_comes_at_each_tick_after_the_clock_was_ahead_for_a_while(tester, queue):
    ran = []
    queue.every("1m", name="s")(lambda: ran.append(seconds(tester)))
    tester.clock.step(3_600)
    tester.advance("5m")
    tester.clock.step(-3_600)
    ran.clear()
    tester.advance("50m")
    assert len(ran) == 50


def test_a_paused_topic_waits_and_neither_it_nor_what_nobody_handles_stops_anybody(tester, queue):
    queue.handler("a")(lambda job: None)
    queue.handler("b")(lambda job: None)
    for delay, topic in enumerate(("a", "nobody's", "b"), 1):
        queue.put(topic, delay=delay)
    queue.topics.pause("a")
    assert tester.advance("1000d") == 1
    assert seconds(tester) == 1000 * DAY
    queue.topics.resume("a")
    assert tester.run_due() == 1


@pytest.mark.parametrize("start", [0, 123.456789, 4_000_000.000000001])
def test_a_clock_between_milliseconds_comes_to_each_due_time(start):
    with QueueTester(clock=ManualClock(start, wall=1_700_000_000_123)) as tester:
        tester.queue.handler("a")(lambda job: None)
        for ms in range(1, 50, 7):
            tester.queue.put("a", delay=ms / 1000)
        assert tester.advance(1) == 7


def test_a_job_whose_lease_ends_on_the_way_runs_at_that_time(tester, queue):
    seen = []
    queue.handler("t")(lambda job: seen.append(seconds(tester)))
    queue.put("t")
    assert queue.reserve("t", ttr="10s")
    assert tester.advance("1m") == 1
    assert seen == [10]


@pytest.mark.parametrize("wrong", ["soon", -1, None])
def test_what_is_no_delay_moves_nothing(tester, wrong):
    with pytest.raises(BadOption):
        tester.advance(wrong)
    assert seconds(tester) == 0


# ---- rates and limits -----------------------------------------------------------------------------------------------


def test_a_rate_lets_jobs_begin_one_after_the_other(tester, queue):
    seen = []
    queue.handler("t", rate="60/m")(lambda job: seen.append(seconds(tester)))
    queue.put_many([queue.job("t") for _ in range(30)])
    assert tester.advance("1h") == 30
    assert min(later - earlier for earlier, later in pairwise(seen)) > 0.9
    assert seen[-1] < 40


def test_a_paused_topic_with_a_rate_costs_no_steps(tester, queue):
    queue.handler("t", rate="600/m")(lambda job: None)
    queue.put("t")
    queue.topics.pause("t")
    assert tester.advance("1000d") == 0


def test_limits_that_an_operator_has_set_stand_instead_of_those_of_the_code(tester, queue):
    seen = []
    queue.handler("t", limit=1)(lambda job: seen.append(seconds(tester)))
    queue.put("t")
    assert queue.reserve("t", ttr="1h")
    queue.put_many([queue.job("t") for _ in range(3)])
    assert tester.advance("1m") == 0
    queue.topics.limit("t", limit=None, rate="1/m")
    assert tester.advance("10m") == 3
    assert seen == [60, 120, 180]
    queue.topics.limit_as_code("t")
    queue.put("t")
    assert tester.advance("10m") == 0


def test_a_limit_that_holds_a_job_back_costs_no_steps_by_the_rate():
    moved, seen = [], []
    with QueueTester(moved=moved.append) as tester:
        queue = tester.queue
        queue.handler("t", limit=1, rate="100/s burst 1")(lambda job: seen.append(seconds(tester)))
        queue.put("t")
        assert queue.reserve("t", ttr="10s")
        queue.put("t")
        assert tester.advance("20s") == 2
        assert seen == [10, 10.01]
        assert len(moved) < 10


def test_a_higher_priority_comes_first_and_a_limit_stands_in_nobodys_way(tester, queue):
    seen = []
    queue.handler("t", limit=1)(lambda job: seen.append(job.json()))
    queue.put("t", "low", delay=5, priority=-1)
    queue.put("t", "high", delay=5, priority=1)
    assert tester.advance(5) == 2
    assert seen == ["high", "low"]


# ---- where handlers run ---------------------------------------------------------------------------------------------


def test_handlers_run_in_the_thread_of_the_test_and_start_no_other(tester, queue):
    seen = []
    before = threading.enumerate()

    @queue.handler("async")
    async def coroutine(job):
        await asyncio.sleep(0)
        seen.append(threading.current_thread())

    queue.handler("plain")(lambda job: seen.append(threading.current_thread()))
    queue.put("plain", delay=1)
    queue.put("async", delay=2)
    assert tester.advance(2) == 2
    assert seen == [threading.current_thread()] * 2
    assert threading.enumerate() == before


def test_in_a_coroutine_handlers_run_on_its_own_loop(tester, queue):
    loops = []

    @queue.handler("a", retry=Fixed("1m", attempts=2))
    async def handle(job):
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        if job.attempt == 1:
            raise ValueError

    async def program():
        await queue.aio.put("a", delay="1h")
        assert await tester.arun_due() == 0
        assert await tester.aadvance("59m") == 0
        assert await tester.aadvance("2m") == 2
        return asyncio.get_running_loop()

    loop = asyncio.run(program())
    assert loops == [loop, loop]
    [job] = tester.jobs("a", "done")
    assert job.attempt == 2


def test_a_coroutine_is_told_what_to_await(tester):
    async def program():
        with pytest.raises(RuntimeError, match="await arun_due"):
            tester.run_due()
        with pytest.raises(RuntimeError, match="aadvance"):
            tester.advance(1)

    asyncio.run(program())


def test_a_test_that_is_cancelled_leaves_the_job_as_it_was_and_a_handler_that_is_has_failed(tester, queue):
    @queue.handler("a")
    async def hangs(job):
        await asyncio.Event().wait()

    @queue.handler("b", retry=Fixed("1m"))
    async def cancelled(job):
        raise asyncio.CancelledError

    id = queue.put("a", max_attempts=1)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(tester.arun_due(), 0.01))
    job = queue.get(id)
    assert (job.state, job.attempt) == (State.DELAYED, 0)
    queue.cancel(id)
    queue.put("b")
    assert asyncio.run(tester.arun_due()) == 1
    assert len(tester.failures) == 1


# ---- failures -------------------------------------------------------------------------------------------------------


def test_with_raises_the_test_gets_what_the_handler_raised_once_its_job_is_settled(queue, tester):
    tester.raises = True

    @queue.handler("a", retry=Fixed("1m"))
    def fails(job):
        raise ZeroDivisionError("here")

    id = queue.put("a", delay="10m")
    with pytest.raises(ZeroDivisionError, match="here"):
        tester.advance("1h")
    assert seconds(tester) == 600
    assert queue.get(id).last_error == "ZeroDivisionError: here"
    with pytest.raises(ZeroDivisionError):
        tester.advance("1m")
    assert seconds(tester) == 660
    queue.handler("b")(lambda job: job.json())
    queue.put("b", b"{")
    with pytest.raises(BadBody):
        tester.run_due()


@pytest.mark.parametrize("error", [GiveUp("no"), RetryLater("1h")])
def test_what_a_handler_raises_on_purpose_is_no_surprise(queue, tester, error):
    tester.raises = True

    @queue.handler("a")
    def handle(job):
        raise error

    queue.put("a")
    assert tester.run_due() == 1
    assert [failure.error for failure in tester.failures] == [error]


# ---- what was put ---------------------------------------------------------------------------------------------------


def test_puts_are_found_by_all_that_is_said_of_them(tester, queue):
    first = queue.put("order.close", {"order": 7, "n": 1}, delay="30m", key="order-7")
    second = queue.put("order.close", {"order": 8}, delay="30m")
    assert [job.id for job in tester.assert_put("order.close")] == [first, second]
    assert [job.id for job in tester.assert_put("order.close", {"n": 1, "order": 7})] == [first]
    assert [job.id for job in tester.assert_put("order.close", delay=1_800, count=2)] == [first, second]
    assert [job.id for job in tester.assert_put("order.close", key="order-7")] == [first]
    assert [job.id for job in tester.assert_put("order.close", order=7)] == [first]
    assert tester.assert_put("order.close", {"order": 9}, count=0) == []
    assert tester.assert_put("mail", count=0) == []


def test_a_put_counts_whatever_became_of_it(tester, queue):
    @queue.handler("a", retry=Fixed("1d"))
    def handle(job):
        if job.json():
            raise ValueError

    queue.put("a", 0, delay=5)
    queue.put("a", 1, delay=5)
    queue.cancel(queue.put("a", 2, delay=5))
    tester.advance(5)
    assert len(tester.assert_put(handle, delay=5, count=3)) == 3


def test_every_way_to_put_is_seen(tester, queue):
    queue.put_many([queue.job("a", 1), queue.job("a", 2)])
    asyncio.run(queue.aio.put("a", 3))
    asyncio.run(queue.aio.put_many([queue.job("a", 4)]))
    queue.put("a", 5, connection=object())
    assert [job.json() for job in tester.assert_put("a", count=5)] == [1, 2, 3, 4, 5]


def test_a_put_that_replaces_is_the_latest_and_the_first_is_gone(tester, queue):
    first = queue.put("a", "old", delay="1h", key="k")
    queue.put("a", "other")
    tester.clock.advance(60)
    queue.put("a", "new", delay="2h", key="k", replace=True)
    assert [job.json() for job in tester.assert_put("a", count=2)] == ["other", "new"]
    assert [job.id for job in tester.assert_put("a", delay="2h")] == [first]


def test_what_was_not_put_is_told_with_what_was(tester, queue):
    with pytest.raises(AssertionError, match="nothing was put at all"):
        tester.assert_put("mail", to=5)

    @queue.handler("mail")
    def mail(job):
        raise OSError("no route")

    queue.put("order.close", {"order": 8}, delay="1d 30m", key="order-8")
    queue.put("mail", b"\xff")
    tester.run_due()
    with pytest.raises(AssertionError) as caught:
        tester.assert_put("order.close", {"order": 7}, delay="30m", key="order-7")
    assert str(caught.value).splitlines() == [
        "no job was put with topic 'order.close', body {\"order\":7}, due in 30m, key 'order-7'",
        "what was put:",
        "  order.close {\"order\":8} in 1d 30m, key 'order-8'",
        "  mail \\xff at once",
        "what handlers raised:",
        "  mail 2: OSError('no route')",
    ]
    with pytest.raises(AssertionError, match="1 job was put with topic 'mail', and not 2"):
        tester.assert_put("mail", count=2)


def test_a_put_that_is_nested_too_deep_has_another_body(tester, queue):
    queue.put("a", b"[" * 100_000)
    assert tester.assert_put("a", {"n": 1}, count=0) == tester.assert_put("a", n=1, count=0) == []


def test_what_no_put_can_have_is_refused(tester, queue):
    for wrong in ([1, 2], [{}, {}]):
        with pytest.raises(BadOption, match="one body"):
            tester.assert_put("a", *wrong)
    with pytest.raises(BadJob, match="delay"):
        tester.assert_put("a", delay="soon")
    with pytest.raises(BadOption, match="no topic is handled by"):
        tester.assert_put(print)
    queue.handler("a")(print)
    queue.handler("b")(print)
    with pytest.raises(BadOption, match="2 topics are handled by"):
        tester.jobs(print)


def test_clear_forgets_jobs_puts_and_failures(tester, queue):
    queue.handler("a")(lambda job: 1 / 0)
    queue.put("a")
    queue.put("a", delay="1h")
    tester.run_due()
    tester.clear()
    assert (tester.jobs(), tester.failures) == ([], [])
    tester.assert_put("a", count=0)
    assert tester.advance("2d") == 0


def test_clear_deletes_jobs_that_are_running(tester, queue):
    queue.put("a")
    queue.put("a")
    (claimed,) = queue.reserve("a")
    tester.clear()
    assert tester.jobs() == []
    assert not queue.ack(claimed)


def test_a_handler_may_clear_what_there_is_with_its_own_job(tester, queue):
    queue.handler("a")(lambda job: tester.clear())
    queue.put("a")
    queue.put("a")
    assert tester.run_due() == 1
    assert tester.jobs() == []


def test_bodies_that_the_queue_encrypts_are_read(tmp_path):
    keyring = Keyring({"k1": bytes(range(32))})
    with JobQueue("memory:", encryption=keyring) as queue, QueueTester(queue) as tester:
        queue.handler("a")(lambda job: tester.queue.put("b", job.json() + 1))
        queue.put("a", 1, delay=5)
        tester.advance(5)
        assert tester.assert_put("b", 2, delay=0)


# ---- the queue ------------------------------------------------------------------------------------------------------


def test_a_programs_queue_leaves_its_store_for_good(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    queue = JobQueue(url)
    handled = []
    queue.handler("a")(lambda job: handled.append(job.id))
    with QueueTester(queue) as tester:
        queue.put("a")
        assert tester.run_due() == 1
    with pytest.raises(StoreClosed):
        queue.put("a")
    with JobQueue(url) as again:
        assert again.jobs.list() == []


@pytest.mark.parametrize("words", [{"queue": "memory:"}, {"clock": 5}])
def test_what_is_no_queue_or_clock_is_refused(words):
    with pytest.raises(TypeError, match="QueueTester takes"):
        QueueTester(**words)


def test_who_is_told_where_the_clock_has_moved_knows_it_before_anything_runs():
    told = []
    with QueueTester(moved=told.append) as jobs:
        assert told.pop() == datetime.fromtimestamp(jobs.clock.wall() / 1000, UTC)
        start, seen = jobs.clock.wall(), []
        jobs.queue.handler("mail")(lambda job: seen.append((told[-1].timestamp() * 1000 - start, job.due - start)))
        jobs.queue.put("mail", delay="1h")
        jobs.queue.put("mail", delay="2h")
        jobs.advance("1d")
        assert seen == [(3_600_000, 3_600_000), (7_200_000, 7_200_000)]
        assert told[-1].timestamp() * 1000 == start + 86_400_000
