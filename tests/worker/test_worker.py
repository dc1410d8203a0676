"""Handlers at work, on the real clock."""

import asyncio
import logging
import signal
import sys
import threading
from collections import deque
from datetime import timedelta
from itertools import count
from unittest.mock import Mock

import pytest

from pywheel import AsyncWorker, BadOption, EventLoop, Fixed, JobQueue, Ladder, NotNow, Supervisor, Worker
from pywheel.events import JobEnded
from pywheel.jobs import Counts, Outcome, State
from pywheel.jobs.commands import ClaimPolicy, Expired, Reserve
from pywheel.testing import FaultyStore
from pywheel.worker.dispatcher import Dispatcher
from pywheel.worker.executors import threads
from pywheel.worker.executors.coroutines import OwnLoop
from pywheel.worker.leases import Lease, Quarantine
from tests.jobs.waiting import LIMIT, finished, state, until, working
from tests.worker.held import Held


def test_a_coroutine_function_handles_what_is_put_many_at_once(live_queue):
    together, arrived = asyncio.Barrier(10), []

    @live_queue.handler("t", concurrency=10)
    async def handle(job):
        arrived.append(job.id)
        await together.wait()

    ids = live_queue.put_many(live_queue.job("t") for _ in range(10))
    with working(live_queue):
        assert {finished(live_queue, id).state for id in ids} == {State.DONE}
    assert sorted(arrived) == ids


def test_coroutines_run_on_the_loop_that_the_worker_was_told_to_make(live_queue):
    made, seen = [], []

    def factory():
        made.append(EventLoop())
        return made[-1]

    @live_queue.handler("t")
    async def handle(job):
        seen.append(asyncio.get_running_loop())

    with working(live_queue, loop_factory=factory):
        assert finished(live_queue, live_queue.put("t")).state is State.DONE
    assert seen == made
    until(made[0].is_closed)


def test_the_threads_of_a_worker_end_with_it(live_queue, monkeypatch):
    monkeypatch.setattr(threads, "_IDLE", 3600.0)
    used = set()
    live_queue.handler("t")(lambda job: used.add(threading.current_thread()))
    with working(live_queue):
        finished(live_queue, live_queue.put("t"))
    for thread in used:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in used)


def test_functions_run_as_many_at_once_as_asked_and_no_more(live_queue):
    gate = threading.Event()
    running, most = [], []
    live_queue.handler("u")(lambda job: None)

    @live_queue.handler("t", concurrency=3)
    def handle(job):
        running.append(job.id)
        most.append(len(running))
        if job.json() == "slow":
            gate.wait(60)
        running.remove(job.id)

    with working(live_queue):
        for id in live_queue.put_many(live_queue.job("t") for _ in range(100)):  # quick: so others wait in the pool
            finished(live_queue, id)
        ids = live_queue.put_many(live_queue.job("t", "slow") for _ in range(9))
        until(lambda: len(running) >= 3)
        finished(live_queue, live_queue.put("u"))  # by then one more would run, too
        gate.set()
        for id in ids:
            finished(live_queue, id)
    assert max(most) == 3


def test_a_failing_job_climbs_its_ladder_and_dies_with_its_last_error(live_queue, metrics):
    @live_queue.handler("t", retry=Ladder("1ms", "2ms"))
    def handle(job):
        raise ValueError(f"attempt {job.attempt}")

    with working(live_queue):
        job = finished(live_queue, live_queue.put("t"))
    assert (job.state, job.last_error) == (State.DEAD, "ValueError: attempt 3")
    history = live_queue.jobs.history(job)
    assert [attempt.error for attempt in history] == [f"ValueError: attempt {n}" for n in (1, 2, 3)]
    assert metrics.counters["retried", "t"] == 2
    assert metrics.counters["dead", "t"] == 1


@pytest.mark.parametrize(
    ("where", "loop_factory"),
    [
        ("handler", EventLoop),
        ("handler", asyncio.new_event_loop),
        ("within before", asyncio.new_event_loop),
        ("on_dead", asyncio.new_event_loop),
        ("task of its own", asyncio.new_event_loop),
    ],
)
def test_an_exit_on_the_loop_leaves_it_to_the_others(live_queue, where, loop_factory):
    """asyncio lets an exit of a task end the loop, on which all other coroutine handlers are."""

    async def leave(job):
        raise SystemExit(3)

    @live_queue.handler("t", retry=Fixed(0, attempts=1))
    def handle(job):
        if where == "on_dead":
            raise ValueError
        return leave(job)

    @live_queue.handler("coroutine")
    async def coroutine(job):
        if where == "task of its own":
            await asyncio.gather(asyncio.create_task(leave(job)), return_exceptions=True)

    if where == "on_dead":
        live_queue.on_dead(leave)
    if where == "within before":
        live_queue.before(lambda job: None)
    with working(live_queue, loop_factory=loop_factory):
        assert finished(live_queue, live_queue.put("t")).state is State.DEAD
        for _ in range(2):
            assert finished(live_queue, live_queue.put("coroutine")).state is State.DONE


def test_a_full_pool_leaves_jobs_in_the_store(live_queue):
    held = Held(live_queue, "t", concurrency=2)
    live_queue.put_many(live_queue.job("t") for _ in range(20))
    with working(live_queue):
        until(lambda: live_queue.topics.counts()["t"].running == 2)
        assert live_queue.topics.counts()["t"] == Counts(delayed=18, running=2)
        held.let_go()
        until(lambda: live_queue.topics.counts()["t"].done == 20)


# ---- leases ----------------------------------------------------------------------------------------------------------


def test_a_handler_longer_than_its_ttr_loses_its_job_and_the_winner_stands(live_queue, metrics):
    gate = threading.Event()

    @live_queue.handler("t", concurrency=4, retry=Fixed("1h", attempts=3))
    def handle(job):
        if job.attempt == 1:
            gate.wait(60)

    with working(live_queue):
        id = live_queue.put("t", key="k", ttr=1)
        [lost] = until(lambda: [row for row in live_queue.jobs.history(id) if row.outcome is Outcome.LOST])
        assert live_queue.get(id).due - lost.ended == 3_600_000  # as the policy says
        live_queue.put("t", key="k", replace=True)  # with a longer ttr
        assert finished(live_queue, id).attempt == 2
        gate.set()
        until(lambda: metrics.counters["lease_lost", "t"] == 1)
    assert [row.outcome for row in live_queue.jobs.history(id)] == [Outcome.LOST, Outcome.DONE]


def test_a_handler_may_keep_its_lease_for_as_long_as_it_runs(queue, clock):
    @queue.handler("t", ttr=600, keep_lease=True)
    def handle(job):
        for _ in range(3):
            before = queue.get(job).lease_until
            clock.advance(400)
            queue.put("other")  # which wakes the worker
            until(lambda: queue.get(job).lease_until > before)  # noqa: B023

    queue.handler("other")(lambda job: None)
    with working(queue):
        job = finished(queue, queue.put("t"))
    assert (job.state, job.attempt) == (State.DONE, 1)


def test_a_handler_may_touch_its_job(queue, clock):
    @queue.handler("t", ttr=600)
    def handle(job):
        assert queue.touch(job, "1h")
        clock.advance(1_200)
        finished(queue, queue.put("other"))  # the worker has looked at its leases since

    queue.handler("other")(lambda job: None)
    with working(queue):
        job = finished(queue, queue.put("t"))
    assert (job.state, job.attempt) == (State.DONE, 1)


def test_a_suspects_probation_counts_from_the_answer_to_its_claim():
    quarantine, suspect = Quarantine(), Mock(claimed=10.0, ttr=60_000)
    suspect.job.attempt = 2
    assert quarantine.room(13.0) == 1
    quarantine.begin(suspect, 13.0)  # the answer was under way for three seconds
    assert quarantine.room(13.2) == 0
    assert quarantine.free_at(13.2) == 13.25
    assert quarantine.room(13.3) == 1


# ---- a store that goes away -----------------------------------------------------------------------------------------


def test_a_worker_survives_a_store_that_goes_away_and_keeps_its_acks(live_queue, metrics, caplog):
    store = FaultyStore(live_queue.store)
    queue = JobQueue(store, listeners=[metrics])
    held = Held(queue, "t")
    with working(queue):
        id = live_queue.put("t")
        until(lambda: held.begun)
        with caplog.at_level(logging.CRITICAL, "pywheel.jobs"):
            store.away = True
            held.let_go()
            until(lambda: metrics.counters["store_error", ""] >= 2)
            assert state(live_queue, id) is State.RUNNING
            store.away = False
            job = finished(live_queue, id)
        assert (job.state, job.attempt) == (State.DONE, 1)
        finished(live_queue, live_queue.put("t"))


def test_thousands_of_lost_leases_are_ended_without_a_look_round_in_between(queue, clock, monkeypatch):
    """A look is made a few times a second: the last ones would be due again only after a while."""
    ended, apply, look = [], queue.store.apply, Dispatcher._look_round

    def applied(commands):
        outcomes = apply(commands)
        ended.extend(outcome.ended for outcome in outcomes if isinstance(outcome, Expired))
        return outcomes

    monkeypatch.setattr(queue.store, "apply", applied)
    monkeypatch.setattr(Dispatcher, "_look_round", lambda *words: None if any(ended) else look(*words))
    queue.handler("t", retry=Fixed(0, attempts=9))(lambda job: None)
    queue.put_many([queue.job("x") for _ in range(900)])
    queue.reserve("x", 900)
    clock.advance(1)
    id = queue.put("t")
    queue.reserve("t")
    clock.advance(120)
    with working(queue):
        until(lambda: sum(ended) == 901)
        clock.advance(60)
        assert finished(queue, id).state == State.DONE


# ---- not now ---------------------------------------------------------------------------------------------------------

REFUSED = 3


def refuse(job, seen):
    """Refuse each job three times."""
    seen[job.id] = seen.get(job.id, 0) + 1
    if seen[job.id] <= REFUSED:
        raise NotNow(0.05, "no room")


def plain(seen):
    return lambda job: refuse(job, seen)


def coroutine(seen):
    async def handle(job):
        refuse(job, seen)

    return handle


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("kind", [plain, coroutine])
def test_a_job_that_is_not_for_now_comes_again_with_all_its_attempts(live_queue, metrics, kind):
    seen = {}
    live_queue.handler("t")(kind(seen))
    id = live_queue.put("t", max_attempts=1)
    with working(live_queue):
        job = finished(live_queue, id)
    assert (job.state, job.attempt, seen[id]) == (State.DONE, 1, REFUSED + 1)
    outcomes = [attempt.outcome for attempt in live_queue.jobs.history(id)]
    assert outcomes == [Outcome.RELEASED] * REFUSED + [Outcome.DONE]
    assert metrics.total("released") == REFUSED


# ---- stopping -------------------------------------------------------------------------------------------------------


def told_to_stop(queue, begun, grace):
    """Return the ids of five jobs, and their worker, which is told to stop when the first one has begun."""
    ids = queue.put_many(queue.job("t") for _ in range(5))
    worker = Worker(queue, grace=grace)
    worker.start()
    until(lambda: begun)
    worker.stop()
    return ids, worker


def test_a_thread_that_runs_beyond_the_grace_keeps_its_job_and_settles_it_itself(live_queue):
    """Given back, it would run twice at once with a valid lease: nobody can stop a thread."""
    held = Held(live_queue, "t", concurrency=1)
    [id, *_], worker = told_to_stop(live_queue, held.begun, grace=0)
    assert worker.join(60)
    assert state(live_queue, id) is State.RUNNING
    held.let_go()
    assert finished(live_queue, id).state is State.DONE


@pytest.mark.parametrize("kind", ["function", "coroutine function"])
def test_a_handler_that_fails_beyond_the_grace_is_told_and_on_dead_is_called(live_queue, kind):
    begun, gate, dead, told = [], threading.Event(), [], []
    live_queue.events.listen(lambda event: told.append(event) if isinstance(event, JobEnded) else None)

    @live_queue.handler("t", concurrency=1, retry=Fixed("1h", attempts=1))
    def handle(job):
        begun.append(job)
        gate.wait(60)
        raise ValueError

    async def report(job):
        dead.append(job.id)

    live_queue.on_dead(report if kind == "coroutine function" else lambda job: dead.append(job.id))
    [id, *_], worker = told_to_stop(live_queue, begun, grace=0)
    assert worker.join(60)
    gate.set()
    until(lambda: dead)
    assert dead == [id]
    assert [(event.job.id, event.outcome, event.state) for event in told] == [(id, Outcome.FAILED, State.DEAD)]


def test_a_result_that_is_awaited_beyond_the_grace_has_a_loop_though_that_of_the_worker_is_closed():
    """As a coroutine of `on_dead`."""

    async def answer():
        await asyncio.sleep(0)
        return 42

    loops = []
    loop = OwnLoop(lambda: loops.append(EventLoop()) or loops[-1])
    assert loop.finish(answer()) == 42
    loop.stop()
    until(loops[0].is_closed)
    assert loop.finish(answer()) == 42
    assert loop.finish("no awaitable") == "no awaitable"
    assert [made.is_closed() for made in loops] == [True, True]


def ended_claim(queue):
    """Return a dispatcher that does not step by itself, and a claim of it whose handler has ended."""
    queue.handler("t")(print)
    queue.put("t")
    [[job]] = queue.store.apply([Reserve("t", 1, ClaimPolicy(60_000, 3), "w")])
    dispatcher = Worker(queue).dispatcher
    lease = Lease(job, dispatcher.topics["t"], 0.0, True, started=0.0, ended=1.0)
    dispatcher._completer.leases.add([lease], 0.0)
    return dispatcher, lease


@pytest.mark.parametrize("goes", ["before", "after"])
def test_an_end_is_stored_though_the_dispatcher_goes_just_before_or_after_it_is_noted(queue, goes):
    class Finished(deque):
        def append(self, lease):
            if goes == "after":
                super().append(lease)
            dispatcher.step()
            dispatcher.abandon()
            if goes == "before":
                super().append(lease)

    dispatcher, lease = ended_claim(queue)
    dispatcher._completer._finished = Finished()
    dispatcher._completer.done(lease)
    until(lambda: state(queue, lease.job.id) is State.DONE)


def test_an_end_beyond_the_grace_goes_to_the_store_in_another_thread(queue, monkeypatch):
    """A handler's thread may be the one of the program's loop."""
    threads, apply = [], queue.store.apply
    dispatcher, lease = ended_claim(queue)
    dispatcher.abandon()
    monkeypatch.setattr(
        queue.store, "apply", lambda commands: threads.append(threading.current_thread()) or apply(commands)
    )
    dispatcher._completer.done(lease)
    until(lambda: state(queue, lease.job.id) is State.DONE)
    assert threading.current_thread() not in threads


def test_a_task_that_runs_beyond_the_grace_is_cancelled_and_its_job_goes_back_unspent(live_queue):
    begun = []

    @live_queue.handler("t", concurrency=1)
    async def handle(job):
        begun.append(job)
        await asyncio.sleep(3600)

    [id, *_], worker = told_to_stop(live_queue, begun, grace=0)
    assert worker.join(60)
    job = live_queue.get(id)
    assert (job.state, job.attempt) == (State.DELAYED, 0)
    assert [attempt.outcome for attempt in live_queue.jobs.history(id)] == [Outcome.RELEASED]


def test_workers_show_what_they_work_on():
    with JobQueue("memory:") as queue:
        queue.handler("t")(print)
        worker = Worker(queue, name="app")
        assert repr(worker) == f"<Worker {worker.name} on memory:>"
        assert repr(AsyncWorker(queue)) == "<AsyncWorker of <JobQueue memory:>>"


def test_a_join_waits_for_a_duration_in_any_form(live_queue):
    live_queue.handler("t")(print)
    with working(live_queue) as worker:
        assert [worker.join(time) for time in (0.001, "1ms", timedelta(milliseconds=1))] == [False] * 3
        with pytest.raises(BadOption, match="timeout"):
            worker.join("soon")
    assert worker.join("1m") is True


def test_a_worker_works_once(live_queue):
    """A second thread of one worker would claim and settle beside the first, and `join` wait for the last."""
    live_queue.handler("t")(print)
    with working(live_queue) as worker:
        for begin in (worker.start, worker.run):
            with pytest.raises(RuntimeError, match="a Worker works once: make another one"):
                begin()
    with pytest.raises(RuntimeError, match="a Worker works once"):
        worker.start()


# ---- signals that come in the middle of the handling of a signal, at each step of it ---------------------------------


def with_a_call_at_step(number, call, intruder):
    """Run `call`, and `intruder` once within it, before its line `number`. Return whether it has so many lines."""
    left = number

    def trace(frame, event, argument):
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                intruder()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return left <= 0


@pytest.fixture
def program(live_queue):
    live_queue.handler("t")(print)
    return live_queue


def test_term_signals_that_come_together_leave_a_supervised_worker_its_grace(program):
    for number in count(1):
        worker = Worker(program, grace=30)
        reached = with_a_call_at_step(number, worker.retire, worker.retire)
        assert worker._stopping
        assert worker.grace == 30
        worker.run()
        if not reached:
            break
    assert number > 2


def test_a_signal_at_any_step_of_a_wait_ends_it(program):
    """An Event that a signal handler sets may be locked by the very thread that waits for it."""
    worker = Worker(program)
    before = signal.signal(signal.SIGUSR1, lambda *_: worker._notifier.wake())
    try:
        for number in count(1):
            if not with_a_call_at_step(
                number, lambda: worker._notifier.wait(0.01), lambda: signal.raise_signal(signal.SIGUSR1)
            ):
                break
    finally:
        signal.signal(signal.SIGUSR1, before)
        worker.stop()
        worker.run()
    assert number > 2


# ---- what makes no sense ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"processes": 0}, {"processes": True}, {"processes": "2"}, {"stall": -1}, {"grace": "x"}, {"name": b"x"}],
)
def test_options_of_a_supervisor_that_make_no_sense_are_refused(options):
    with pytest.raises(BadOption):
        Supervisor("shop:queue", **options)
