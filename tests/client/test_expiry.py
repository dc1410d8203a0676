"""Jobs that are worthless a given time after their due time."""

import asyncio
import threading

import pytest

from pywheel import Fixed, JobQueue, Keyring, StoreError
from pywheel.events import JobSkipped
from pywheel.jobs import State
from pywheel.jobs.commands import Release, Reserve
from pywheel.testing import run_due
from tests.jobs.fixtures import NOW


@pytest.fixture
def calls(queue):
    ran = []
    queue.handler("t", retry=Fixed("1h"))(lambda job: ran.append(job.id))
    return ran


def test_a_job_that_comes_too_late_is_cancelled_and_its_handler_is_not_called(queue, clock, calls):
    skipped = []
    queue.events.listen(lambda event: skipped.append(event) if isinstance(event, JobSkipped) else None)
    late = queue.put("t", delay="1m", expires="10s")
    kept, just = queue.put("t", delay="1m"), queue.put("t", delay=60.001, expires="10s")
    clock.advance(70.001)
    run_due(queue)
    assert calls == [kept, just]
    job = queue.get(late)
    assert (job.state, job.attempt, job.expires) == (State.CANCELLED, 0, 10_000)
    assert [(event.job.id, "expired" in event.reason) for event in skipped] == [(late, True)]


def test_a_retry_has_a_due_time_of_its_own(queue, clock):
    times = []

    @queue.handler("t", retry=Fixed("1h"))
    def fails(job):
        times.append(job.attempt)
        raise ValueError

    id = queue.put("t", expires="10s")
    run_due(queue)
    clock.advance(3_605)
    run_due(queue)
    clock.advance(3_611)
    run_due(queue)
    assert (times, queue.get(id).state) == ([1, 2], State.CANCELLED)


def test_an_edit_gives_it_more_time_or_all_time(queue, clock, calls):
    longer, forever = (queue.put("t", expires="10s") for _ in range(2))
    assert queue.jobs.edit(longer, expires="1h")
    assert queue.jobs.edit(forever, expires=None)
    clock.advance(3_599)
    run_due(queue)
    assert sorted(calls) == [longer, forever]


@pytest.fixture(params=["plain", "async"])
def reserve(request, queue):
    if request.param == "plain":
        return queue.reserve
    return lambda *arguments: asyncio.run(queue.aio.reserve(*arguments))


def test_a_reserve_cancels_what_has_expired_and_gives_what_is_behind_it(queue, clock, reserve):
    late = queue.put_many(queue.job("t", expires="1s") for _ in range(7))
    kept = queue.put_many(queue.job("t", delay=1) for _ in range(3))
    clock.advance(2)
    assert [job.id for job in reserve("t", 2)] == kept[:2]
    assert [queue.get(id).state for id in late] == [State.CANCELLED] * 7
    assert [job.id for job in reserve("t", 9)] == kept[2:]
    assert queue.jobs.history(late[0])[-1].outcome == "cancelled"


def test_a_reserve_looks_past_what_has_expired_and_what_it_cannot_read(queue, clock, reserve):
    sealing = JobQueue(queue.store, encryption=Keyring({"a": b"1" * 32}))
    late = queue.put("t", expires="1s")
    sealed = sealing.put("t", "secret", delay=0.5)
    kept = queue.put("t", delay=1)
    clock.advance(2)
    assert [job.id for job in reserve("t", 3)] == [kept]
    assert [queue.get(id).state for id in (late, sealed)] == [State.CANCELLED, State.DELAYED]


class Failing:
    """Lets the store fail once, at the transaction that begins with a command of a kind, after so many of them."""

    def __init__(self, queue, kind, after):
        self._apply, self._kind, self._left = queue.store.apply, kind, after
        queue.store.apply = self

    def __call__(self, commands):
        if self._left is not None and isinstance(commands[0], self._kind):
            self._left -= 1
            if self._left < 0:
                self._left = None
                raise StoreError("no room")
        return self._apply(commands)


def test_a_reserve_that_fails_after_some_jobs_gives_them_back(queue, clock, reserve):
    late, kept = queue.put("t", expires="1s"), queue.put("t", delay=1)
    clock.advance(2)
    Failing(queue, Reserve, 1)
    with pytest.raises(StoreError, match="no room"):
        reserve("t", 3)
    assert (queue.get(late).state, queue.get(kept).state) == (State.CANCELLED, State.DELAYED)


def test_a_reserve_gives_the_jobs_that_it_got_though_the_expired_ones_cannot_be_dropped(queue, clock, reserve):
    late, kept = queue.put("t", expires="1s"), queue.put("t", delay=1)
    clock.advance(2)
    Failing(queue, Release, 0)
    assert [job.id for job in reserve("t", 2)] == [kept]
    clock.advance(90)  # its lease is over, and it has another due time, which is too long ago
    assert [job.id for job in reserve("t", 2)] == [kept]
    assert queue.get(late).state is State.CANCELLED


def test_a_cancelled_reserve_gives_back_what_it_got_and_drops_what_has_expired(queue, clock):
    late, kept = queue.put("t", expires="1s"), queue.put("t", delay=1)
    sealed = JobQueue(queue.store, encryption=Keyring({"a": b"1" * 32})).put("t", "secret", delay=1)
    clock.advance(2)

    async def cancelled():
        task = asyncio.create_task(queue.aio.reserve("t", 3))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert [queue.get(id).state for id in (late, kept, sealed)] == [State.CANCELLED, State.DELAYED, State.DELAYED]
    assert (queue.get(late).due, queue.get(kept).attempt, queue.get(sealed).attempt) == (NOW, 0, 0)


def test_a_reserve_of_one_asks_for_more_while_all_have_expired_and_gives_back_what_is_too_much(
    queue, clock, reserve, monkeypatch
):
    monkeypatch.setattr("pywheel.client.claims._MOST_LATE", 50)
    late = queue.put_many(queue.job("t", expires="1s") for _ in range(90))
    kept = queue.put_many(queue.job("t", delay=1) for _ in range(70))
    clock.advance(2)
    asked = []
    apply = queue.store.apply
    queue.store.apply = lambda commands: asked.extend(c for c in commands if isinstance(c, Reserve)) or apply(commands)
    assert [job.id for job in reserve("t")] == kept[:1]
    assert len(asked) < 15
    found = {job.id: (job.state, job.attempt) for job in queue.jobs.list(limit=10_000)}
    assert {found[id] for id in late} == {(State.CANCELLED, 0)}
    assert {found[id] for id in kept[1:]} == {(State.DELAYED, 0)}


def test_a_reserve_that_is_cancelled_while_it_drops_what_has_expired_gives_back_what_it_got(queue, clock):
    late, kept = queue.put("t", expires="1s", priority=-1), queue.put("t", delay=1)
    clock.advance(2)

    async def cancelled():
        task = asyncio.create_task(queue.aio.reserve("t", 2))
        apply = queue.store.apply

        def cancel_at_drop(commands):
            if isinstance(commands[0], Release):
                loop.call_soon_threadsafe(lambda: (task.cancel(), done.set()))
                done.wait(60)
            return apply(commands)

        loop, done = asyncio.get_running_loop(), threading.Event()
        queue.store.apply = cancel_at_drop
        with pytest.raises(asyncio.CancelledError):
            await task
        queue.store.apply = apply

    asyncio.run(cancelled())
    assert (queue.get(late).state, queue.get(kept).state) == (State.CANCELLED, State.DELAYED)
