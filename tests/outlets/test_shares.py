"""Fair shares: a slow or hanging target holds a part of the room, and no more; a failing one gets no calls."""

import asyncio
import itertools
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywheel import Fixed, NotNow, RetryLater
from pywheel.jobs import Outcome, State
from pywheel.outlets.shares import Shares
from tests.jobs.waiting import finished, until, working
from tests.outlets.conftest import a_job, inside
from tests.outlets.endpoint import Endpoint, answer, hang, once
from tests.outlets.loops import on_a_loop

JOB = a_job()


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def patient(monkeypatch):
    """Let jobs wait here for as long as this host needs."""
    monkeypatch.setattr("pywheel.outlets.shares._PATIENCE", 60.0)


async def delay_of(shares, job):
    """Return for how many seconds a job is given back."""
    with pytest.raises(NotNow) as later:
        await shares.enter("a", job)
    return later.value.delay / 1000


def all_idle(shares):
    return all(target.idle for target in shares._targets.values())


@on_a_loop
async def test_a_target_has_so_many_calls_and_no_more(clock):
    shares = Shares(3, clock=clock)
    calls = [await shares.enter("a", JOB) for _ in range(3)]
    clock.now += 5  # they hang
    with pytest.raises(NotNow, match="3 deliveries to a are under way"):
        await shares.enter("a", JOB)
    await shares.enter("b", JOB)
    calls[0].answered()
    await shares.enter("a", JOB)


@on_a_loop
async def test_those_that_are_given_back_have_their_turns_one_after_the_other(clock):
    """At the rate at which the target takes them: they do not come all at once, nor again and again."""
    shares = Shares(2, clock=clock)
    for _ in range(2):
        await shares.enter("a", JOB)
    clock.now += 10
    delays = [await delay_of(shares, a_job(claims=30, attempt=1)) for _ in range(100)]
    assert delays[0] < 1
    assert 300 <= max(delays) <= 331  # not for ever: it may be quick again
    assert all(later > sooner for sooner, later in itertools.pairwise(delays[:40:5]))
    assert delays[40] > 35 * 5


@on_a_loop
async def test_a_job_comes_soon_at_first_and_seldom_once_it_was_given_back_often(clock):
    """A target that only paused takes all at once; one that hangs is not asked for each of its jobs again and again."""
    shares = Shares(1, clock=clock)
    await shares.enter("a", JOB)
    clock.now += 10
    jobs = [a_job(claims=1 + times, attempt=1) for times in range(20)]
    longest = [[await delay_of(shares, job) for _ in range(40)][-1] for job in jobs]
    assert longest[0] < 0.3
    assert all(delay >= 250 for delay in longest[11:])


@pytest.mark.usefixtures("patient")
@on_a_loop
async def test_a_job_waits_here_for_a_target_that_is_quick(clock):
    shares = Shares(2, clock=clock)
    for _ in range(8):
        call = await shares.enter("a", JOB)
        clock.now += 0.001
        call.answered()
    first, second = [await shares.enter("a", JOB) for _ in range(2)]
    waiting = [asyncio.create_task(shares.enter("a", JOB)) for _ in range(3)]
    await asyncio.sleep(0)
    first.answered()
    third = await waiting[0]
    second.ended()
    third.answered()
    for call in [await waiting[1], await waiting[2]]:
        call.answered()
    assert all_idle(shares)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("moment", ["waits", "was given a place"])
@on_a_loop
async def test_a_job_that_is_cancelled_while_it_waits_leaves_its_place_to_the_next(clock, moment):
    shares = Shares(1, clock=clock)
    call = await shares.enter("a", JOB)
    first, second = [asyncio.create_task(shares.enter("a", JOB)) for _ in range(2)]
    await asyncio.sleep(0)
    if moment == "was given a place":
        call.answered()
    first.cancel()
    if moment == "waits":
        await asyncio.sleep(0)
        call.answered()
    (await second).answered()
    assert all_idle(shares)


@on_a_loop
async def test_who_waited_in_vain_says_so_to_the_others(clock):
    shares = Shares(1, clock=clock)
    call = await shares.enter("a", JOB)
    await delay_of(shares, JOB)  # after a moment
    assert shares._targets["a"].stalled
    await delay_of(shares, JOB)  # at once
    call.answered()
    (await shares.enter("a", JOB)).answered()
    assert all_idle(shares)


@on_a_loop
async def test_a_target_that_failed_again_and_again_is_left_alone_and_then_tried_once(clock):
    shares = Shares(10, trips=3, clock=clock)
    for _ in range(3):
        (await shares.enter("a", JOB)).failed()
    with pytest.raises(NotNow, match="failed 3 times in a row"):
        await shares.enter("a", JOB)
    (await shares.enter("b", JOB)).answered()
    clock.now += 1.2
    probe = await shares.enter("a", JOB)
    with pytest.raises(NotNow):  # one at a time
        await shares.enter("a", JOB)
    probe.failed()
    clock.now += 1.2
    with pytest.raises(NotNow):  # for longer than before
        await shares.enter("a", JOB)
    clock.now += 1.2
    (await shares.enter("a", JOB)).answered()
    for _ in range(5):
        await shares.enter("a", JOB)


@on_a_loop
async def test_one_that_answers_now_and_then_is_not_left_alone_and_none_is_for_long(clock):
    shares = Shares(10, trips=3, clock=clock)
    for _ in range(10):
        for end in ("failed", "failed", "answered"):
            getattr(await shares.enter("a", JOB), end)()
    for _ in range(30):
        (await shares.enter("a", JOB)).failed()
        clock.now += 70


@on_a_loop
async def test_a_job_is_not_given_back_for_ever_in_the_end_it_has_failed_too(clock):
    shares = Shares(10, trips=1, clock=clock)
    (await shares.enter("a", JOB)).failed()
    with pytest.raises(NotNow):
        await shares.enter("a", a_job(claims=9, attempt=2))
    with pytest.raises(RetryLater) as later:
        await shares.enter("a", a_job(claims=10, attempt=2))
    assert later.value.least


@on_a_loop
async def test_what_is_remembered_is_bounded_and_what_is_under_way_is_not_forgotten(clock, monkeypatch):
    monkeypatch.setattr("pywheel.outlets.shares._TARGETS", 100)
    shares = Shares(1, clock=clock)
    await shares.enter("held", JOB)
    for number in range(250):
        (await shares.enter(f"t{number}", JOB)).answered()
    assert len(shares._targets) <= 101
    clock.now += 5
    with pytest.raises(NotNow):
        await shares.enter("held", JOB)


@on_a_loop
async def test_targets_that_never_answer_are_forgotten_in_the_end_and_remembered_while_they_get_no_calls(
    clock, monkeypatch
):
    monkeypatch.setattr("pywheel.outlets.shares._TARGETS", 100)
    shares = Shares(1, trips=2, clock=clock)
    for number in range(120):
        clock.now += 100
        for _ in range(2):
            (await shares.enter(f"t{number}", JOB)).failed()
    assert len(shares._targets) <= 101
    with pytest.raises(NotNow, match="t119 has failed 2 times in a row"):
        await shares.enter("t119", JOB)


@on_a_loop
async def test_targets_that_never_answered_or_failed_leave_room_for_those_that_answer(clock):
    shares = Shares(20, room=8, clock=clock)
    (await shares.enter("good", JOB)).answered()
    for name in ("d", "e"):
        (await shares.enter(name, JOB)).failed()
    for number in range(4):
        await shares.enter(f"new{number}", JOB)
    clock.now += 5  # they hang
    for name in ("d", "e"):  # half of the room is not for those that failed last
        with pytest.raises(NotNow, match="what is left is for targets that answer"):
            await shares.enter(name, JOB)
    for number in range(4, 6):
        await shares.enter(f"new{number}", JOB)
    with pytest.raises(NotNow, match="what is left is for targets that answer"):
        await shares.enter("new6", JOB)
    for _ in range(2):
        await shares.enter("good", JOB)


@pytest.mark.usefixtures("patient")
@on_a_loop
async def test_a_new_target_waits_here_while_the_others_are_quick(clock):
    """Many new endpoints at once are no reason to give their jobs back."""

    shares = Shares(20, room=4, clock=clock)
    for number in range(8):
        call = await shares.enter(f"t{number}", JOB)
        clock.now += 0.001
        call.answered()
    first, second, third = [await shares.enter(f"n{number}", JOB) for number in range(3)]
    fourth = asyncio.create_task(shares.enter("n4", JOB))
    await asyncio.sleep(0)
    assert not fourth.done()
    second.answered()
    for call in (await fourth, first, third):
        call.answered()
    assert not shares._started


@pytest.mark.usefixtures("patient")
@on_a_loop
async def test_a_job_that_must_wait_elsewhere_leaves_its_place_to_the_next(clock):
    shares = Shares(1, room=3, clock=clock)
    calls = [await shares.enter(name, JOB) for name in ("v", "w")]
    first, second, other = [asyncio.create_task(shares.enter(name, JOB)) for name in ("x", "x", "y")]
    await asyncio.sleep(0)
    for call in calls:
        call.ended()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (first.done(), second.done(), other.done()) == (True, False, True)
    for waiting in (first, second, other):
        (await waiting).answered()
    assert all_idle(shares)


@pytest.mark.usefixtures("patient")
@on_a_loop
async def test_a_job_whose_target_failed_while_it_waited_leaves_its_place_to_the_next(clock):
    shares = Shares(2, room=3, trips=1, clock=clock)
    call = await shares.enter("x", JOB)
    await shares.enter("w", JOB)
    refused, other = [asyncio.create_task(shares.enter(name, JOB)) for name in ("x", "y")]
    await asyncio.sleep(0)
    call.failed()
    for _ in range(5):
        await asyncio.sleep(0)
    assert other.done()
    with pytest.raises(NotNow, match="x has failed 1 times in a row"):
        await refused


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["enter", "answered", "failed", "ended", "pass"]))))
def test_no_place_is_lost_and_none_is_given_twice(steps):
    clock = Clock()

    async def step(shares, held, name, what):
        if what == "pass":
            clock.now += 7
        elif what == "enter":
            clock.now += 1  # too long for anybody to wait
            with suppress(NotNow):
                held.append(await shares.enter(name, JOB))
        elif held:
            getattr(held.pop(0), what)()
        assert len(held) <= 2

    async def program():
        shares, calls = Shares(2, trips=3, clock=clock), {name: [] for name in "abc"}
        for name, what in steps:
            await step(shares, calls[name], name, what)
        for call in [call for held in calls.values() for call in held]:
            call.answered()
        for name in {name for name, what in steps if what == "enter"}:
            clock.now += 1_000
            (await shares.enter(name, JOB)).answered()
            for _ in range(2):
                await shares.enter(name, JOB)

    asyncio.run(program())


# ---- by workers -----------------------------------------------------------------------------------------------------


def test_jobs_are_delivered_while_many_endpoints_hang(endpoint, queue):
    """Each within its share: together they would fill the room."""
    with Endpoint(host="0.0.0.0") as hanging:
        hanging.answers["/"] = hang
        queue.handler("t", concurrency=8)(inside(per_host=3, timeout=60))
        known = queue.put("t", to=endpoint.url())
        with working(queue):
            finished(queue, known)
            lost = queue.put_many(queue.job("t", to=hanging.url(host=f"127.0.9.{1 + n % 50}")) for n in range(100))
            until(lambda: len(hanging.requests) == 6)
            others = queue.put_many(queue.job("t", to=endpoint.url()) for _ in range(100))
            assert {finished(queue, id).state for id in others} == {State.DONE}
            assert len(hanging.requests) == 6
            for id in lost:
                queue.cancel(id)
            hanging.close()


def test_jobs_beyond_a_share_keep_their_attempts_and_are_all_delivered(endpoint, queue):
    open = asyncio.Event()
    endpoint.answers["/"] = once(open)
    queue.handler("t", concurrency=20)(inside(per_host=2, timeout=60))
    ids = queue.put_many(queue.job("t", to=endpoint.url(), max_attempts=1) for _ in range(10))
    with working(queue):
        until(lambda: sum(queue.get(id).claims > queue.get(id).attempt for id in ids) == 8)
        endpoint._loop.call_soon_threadsafe(open.set)
        assert {finished(queue, id).state for id in ids} == {State.DONE}
    assert {queue.get(id).attempt for id in ids} == {1}
    assert len(endpoint.requests) == 10


def test_an_endpoint_that_is_away_is_left_alone_after_some_failures_and_gets_all_when_it_is_back(endpoint, queue):
    endpoint.answers["/"] = answer(503)
    queue.handler("t", concurrency=1, retry=Fixed("100ms", attempts=1_000))(inside(endpoint.url()))
    ids = queue.put_many(queue.job("t") for _ in range(20))
    with working(queue):
        until(lambda: any(Outcome.RELEASED in {a.outcome for a in queue.jobs.history(id)} for id in ids))
        asked = len(endpoint.requests)
        assert asked < 15
        del endpoint.answers["/"]
        assert {finished(queue, id).state for id in ids} == {State.DONE}
    assert len(endpoint.requests) - asked >= 20
