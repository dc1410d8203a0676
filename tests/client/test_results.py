"""Results of handlers, and waiting for them."""

import asyncio
import json
import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pywheel import BadBody, BadJob, JobQueue, NoSuchJob, Result, RetryLater, State, StoreAway, StoreClosed, WaitTimeout
from pywheel.jobs import Fixed
from pywheel.jobs.commands import RESULT_MOST
from pywheel.jobs.queries import GetStates, ListWorkers, Member
from pywheel.testing import run_due
from tests.asked import when_asked
from tests.jobs.waiting import LIMIT, until, working
from tests.stores.servers import Redis


@pytest.fixture
def queue():
    with JobQueue("memory:") as queue:
        yield queue


@pytest.fixture
def pool():
    """Threads in which somebody waits; all have ended after the test."""
    with ThreadPoolExecutor(8) as pool:
        yield pool


def refused(value):
    raise ValueError(f"not {value}")


# ---- what is kept ---------------------------------------------------------------------------------------------------


def test_what_a_handler_returns_is_kept_if_it_is_asked_for(queue):
    longest = b"x" * RESULT_MOST
    values = {"json": {"a": [1, None]}, "text": "é", "nothing": None, "bytes": b"\0\xff", "longest": longest}
    queue.handler("kept", results=True)(lambda job: values[job.json()])
    queue.handler("dropped")(lambda job: values[job.json()])
    ids = {name: queue.put("kept", name) for name in values}
    dropped = queue.put("dropped", "json")
    assert run_due(queue) == 6
    for name in ("json", "text", "nothing"):
        assert queue.result(ids[name]).json() == values[name]
    assert queue.result(ids["bytes"]) == Result(ids["bytes"], State.DONE, b"\0\xff")
    assert queue.result(ids["longest"]).result == longest
    assert queue.result(dropped) == Result(dropped, State.DONE)
    assert queue.jobs.history(ids["text"])[-1].result == '"é"'.encode()


def test_a_worker_keeps_results_of_threads_and_of_coroutines(queue):
    @queue.handler("coroutine", results=True)
    async def coroutine(job):
        await asyncio.sleep(0)
        return job.json() + 2

    queue.handler("plain", results=True)(lambda job: job.json() + 1)
    queue.handler("returned", results=True)(lambda job: coroutine(job))
    ids = [queue.put(topic, 40) for topic in ("plain", "coroutine", "returned")]
    with working(queue):
        assert [queue.wait(id, 60).json() for id in ids] == [41, 42, 42]


def test_what_cannot_be_kept_makes_the_job_dead_at_once(queue):
    values = [object(), float("nan"), b"x" * (RESULT_MOST + 1)]
    queue.handler("t", results=True, retry=Fixed(0, attempts=5))(lambda job: values[job.json()])
    for number, said in enumerate(["which cannot be written as JSON", "cannot be written as JSON", "65536 are kept"]):
        id = queue.put("t", number)
        run_due(queue)
        found = queue.result(id)
        assert (found.state, found.result) == (State.DEAD, None)
        assert "BadResult: the handler returned" in found.error
        assert said in found.error
        assert len(queue.jobs.history(id)) == 1


def test_a_result_says_what_it_is_not(queue):
    queue.handler("t", results=True)(lambda job: b"\xff")
    queue.handler("unkept")(lambda job: 5)
    id, other, unkept = queue.put("t"), queue.put("t", delay="1h"), queue.put("unkept")
    run_due(queue)
    with pytest.raises(BadBody, match=f"the result of job {id} is not JSON"):
        queue.result(id).json()
    with pytest.raises(BadBody, match=rf"job {unkept} is done and has no result: .*handler\(results=True\)"):
        queue.result(unkept).json()
    with pytest.raises(BadBody, match=f"job {other} is delayed and has no result yet: wait for it with queue.wait"):
        queue.result(other).json()
    assert not queue.result(other).ended
    queue.cancel(other)
    with pytest.raises(BadBody, match=f"job {other} is cancelled and has no result: only a job that is done has one"):
        queue.result(other).json()
    with pytest.raises(NoSuchJob):
        queue.result(10**9)


# ---- waiting --------------------------------------------------------------------------------------------------------


def test_a_wait_gives_state_result_and_last_error(queue):
    @queue.handler("t", results=True, retry=Fixed(0, attempts=3))
    def handle(job):
        if job.attempt == 1:
            raise RetryLater(0, "first no")
        return job.json()

    queue.handler("dies", retry=Fixed(0, attempts=1))(lambda job: refused(job.json()))
    with working(queue):
        id, dead = queue.put("t", "yes"), queue.put("dies", "yes", key="k")
        assert queue.wait(id, "60s") == Result(id, State.DONE, b'"yes"', "pywheel.jobs.handler.RetryLater: first no")
        assert queue.wait(("dies", "k"), 60) == Result(dead, State.DEAD, None, "ValueError: not yes")
    assert queue.wait(id) == queue.result(id)  # it has ended already


def test_a_wait_hears_of_a_delete(queue, pool):
    id = queue.put("t", delay="1h")
    waiting = pool.submit(queue.wait, id)
    until(lambda: len(queue.calls.waits))
    queue.jobs.delete(id)
    assert isinstance(waiting.exception(60), NoSuchJob)


def test_a_wait_ends_at_its_timeout_and_leaves_nothing(queue):
    id = queue.put("t", delay="1h")
    for wait in (queue.wait, lambda *arguments: asyncio.run(queue.aio.wait(*arguments))):
        with pytest.raises(WaitTimeout, match=f"job {id} of topic 't' has not ended within 0.01 s") as caught:
            wait(id, 0.01)
        assert isinstance(caught.value, TimeoutError)
    assert len(queue.calls.waits) == 0
    with pytest.raises(BadJob, match="timeout must not be negative"):
        queue.wait(id, -1)
    with pytest.raises(NoSuchJob):
        queue.wait(10**9)


def test_a_task_that_is_cancelled_leaves_nothing(queue):
    id = queue.put("t", delay="1h")

    async def main():
        task = asyncio.create_task(queue.aio.wait(id))
        while not len(queue.calls.waits):
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(queue.calls.waits) == 0


def test_many_wait_by_one_thread_and_get_each_its_own(queue, monkeypatch):
    queue.handler("t", results=True)(lambda job: job.json())
    monkeypatch.setattr("pywheel.stores.listener._LINGER", 0.0)

    async def main():
        ids = await queue.aio.put_many([queue.job("t", number, delay=0.2) for number in range(500)])
        waits = [asyncio.create_task(queue.aio.wait(id)) for id in ids]
        while len(queue.calls.waits) < 500:
            await asyncio.sleep(0.001)
        assert len(_listening()) == 1
        with working(queue):
            return [found.json() for found in await asyncio.gather(*waits)]

    assert asyncio.run(main()) == list(range(500))
    assert len(queue.calls.waits) == 0
    until(lambda: not _listening())


def _listening():
    return [thread for thread in threading.enumerate() if thread.name == "pywheel-waits"]


@pytest.mark.parametrize("closes", [False, True])
def test_all_who_wait_for_one_job_are_told_of_its_end_or_that_the_queue_was_closed(queue, pool, closes):
    id = queue.put("t", delay="1h")
    waits = [pool.submit(queue.wait, id) for _ in range(3)]
    until(lambda: queue.calls.waits._waiting and len(queue.calls.waits._waiting[id][1]) == 3)
    if not closes:
        queue.cancel(id)
        assert [wait.result(60) for wait in waits] == [Result(id, State.CANCELLED)] * 3
        return
    queue.close()
    assert {type(wait.exception(60)) for wait in waits} == {StoreClosed}
    with pytest.raises(StoreClosed):
        queue.wait(id)


@pytest.mark.usefixtures("redis_server")
def test_a_wait_with_time_left_outlasts_a_server_that_was_away_when_it_began(pool):
    with Redis() as server:
        url = server.url(timeout="1s")
        with JobQueue(url) as queue, JobQueue(url.replace("timeout=1s", "timeout=5m")) as patient:
            id = patient.put("t", delay="1h")
            server.kill()
            for timeout in (None, 0.1):
                with pytest.raises(StoreAway):
                    queue.wait(id, timeout)
            with pytest.raises(StoreAway):
                asyncio.run(queue.aio.wait(id, 0.1))
            ways = [lambda: queue.wait(id, LIMIT), lambda: asyncio.run(queue.aio.wait(id, LIMIT))]
            waits = [pool.submit(way) for way in ways]
            server.start()
            until(lambda: len(queue.calls.waits._waiting.get(id, ("", ()))[1]) == 2)
            patient.cancel(id)
            assert [wait.result(LIMIT) for wait in waits] == [Result(id, State.CANCELLED)] * 2


def test_a_wait_outlasts_its_connections_to_the_server(postgres_server, pool):
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = %s"
    url = postgres_server.url()
    with JobQueue(url) as queue:
        id = queue.put("t", delay="1h")
        waiting = pool.submit(queue.wait, id, 60)
        cut_off = None
        for _ in range(3):
            cut_off = until(lambda before=cut_off: _listens(queue, before))
            with postgres_server.connect() as connection:
                connection.execute(cut, ["client backend"])
        with JobQueue(url) as other:
            other.cancel(id)
        assert waiting.result(60) == Result(id, State.CANCELLED)


def test_a_worker_rings_who_waits_in_another_process(any_url, pool, monkeypatch):
    # Without a ring the caller would look too late.
    monkeypatch.setattr("pywheel.client.completion_listener._LOOKS", (600, 600))
    with JobQueue(any_url) as queue, JobQueue(queue.store if any_url == "memory:" else any_url) as other:
        queue.handler("t", results=True)(lambda job: job.json() + 1)
        queue.handler("dies", retry=Fixed(0, attempts=1))(refused)
        with working(queue) as worker:
            ids = other.put_many([other.job(topic, 41, delay="1h") for topic in ("t", "dies")])
            waits = [pool.submit(other.wait, id) for id in ids]
            until(lambda: worker.dispatcher._completer.waiters.keys() == {"t", "dies"})
            for id in ids:
                other.reschedule(id, 0)
            done, dead = (wait.result(60) for wait in waits)
        assert (done.json(), dead.state) == (42, State.DEAD)
        assert queue.store.verify() == []


@pytest.mark.stress
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_waits_by_a_thread_of_its_own(tmp_path, pool):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with JobQueue(url) as queue:
        id = queue.put("t", delay="1h")
        waiting = pool.submit(queue.wait, id)
        until(lambda: len(queue.calls.waits))

        def child():
            assert len(queue.calls.waits) == 0
            with JobQueue(url) as own:
                assert own.wait(id, 60).state is State.CANCELLED

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        until(lambda: _who_waits(queue))
        queue.cancel(id)
        process.join(60)
        assert process.exitcode == 0
        assert waiting.result(60)


def _listens(queue, before):
    """Return the session by which a queue listens for ends, once it is there and another one than before."""
    session = queue.calls.waits._notifier and queue.calls.waits._notifier._session
    return session if session is not before and _who_waits(queue) else None


def _who_waits(queue):
    notifier = queue.store.notifier("looking")
    try:
        return [one for one in notifier.members() if one.worker.startswith("wait:")]
    finally:
        notifier.close()


def test_who_waits_is_no_worker_for_people_and_none_that_owns_jobs(queue, pool):
    handled = []
    queue.handler("t")(handled.append)
    id = queue.put("t", delay="1h")
    waiting = pool.submit(queue.wait, id)
    until(lambda: _who_waits(queue))
    assert queue.store.ask(ListWorkers()) == []
    with working(queue):
        ids = queue.put_many([queue.job("t") for _ in range(40)])  # of all shards
        until(lambda: len(handled) == len(ids))
        assert len(queue.store.ask(ListWorkers())) == 1
        queue.reschedule(id, 0)
        assert waiting.result(60)


# ---- many that wait -------------------------------------------------------------------------------------------------


class Crowd:
    """A notifier of a listener, and its clock: at each of its waits, of 1 ms, another caller begins to wait."""

    worker = "wait"

    def __init__(self, queue, *, rings):
        self.queue, self.rings = queue, rings
        self.now = 1_000.0

    def monotonic(self):
        return self.now

    def beat(self, behind):
        pass

    def members(self):
        return (Member(self.worker, frozenset(), 0.0, 0),)

    def wait(self, seconds):
        self.now += 0.001
        self.queue.calls.waits.enter(self.queue.get(self.queue.put("t", delay="1h")))
        return self.rings


@pytest.mark.parametrize(("rings", "most"), [(False, 0.51), (True, 0.01)])
def test_new_callers_do_not_put_off_the_look_for_those_who_wait_already(monkeypatch, rings, most):
    with JobQueue("memory:") as queue:
        waits, crowd = queue.calls.waits, Crowd(queue, rings=rings)
        monkeypatch.setattr(waits, "_begin", lambda: None)
        monkeypatch.setattr("pywheel.client.completion_listener.time", crowd)
        future = waits.enter(queue.get(queue.put("t", delay="1h", key="k")))
        waits._turn(crowd, ("t",), announced=True)
        queue.cancel(("t", "k"))
        began = crowd.now
        while not future.done() and crowd.now < began + 1:
            waits._turn(crowd, ("t",), announced=False)
        assert crowd.now - began <= most


def test_a_close_ends_all_waits_also_if_the_listener_ends_before_it_has_told_them(monkeypatch):
    with JobQueue("memory:") as queue:
        waits = queue.calls.waits
        monkeypatch.setattr(waits, "_begin", lambda: None)
        futures = [waits.enter(queue.get(queue.put("t", delay="1h"))) for _ in range(2)]
        ended = waits._ended

        def ended_beside_the_thread(id, outcome):
            assert waits._over()
            ended(id, outcome)

        monkeypatch.setattr(waits, "_ended", ended_beside_the_thread)
        waits.close()
        for future in futures:
            with pytest.raises(StoreClosed):
                future.result(0)


@pytest.mark.parametrize("within", ["_begin", "_leave"])
def test_a_signal_handler_may_close_the_queue_while_its_thread_begins_or_ends_a_wait(monkeypatch, within):
    with JobQueue("memory:") as queue:
        id, waits, found = queue.put("t", delay="1h"), queue.calls.waits, []
        method = getattr(waits, within)

        def interrupted(*arguments):
            queue.close()
            method(*arguments)

        def program():
            with pytest.raises((StoreClosed, WaitTimeout)) as raised:
                queue.wait(id, 0.001 if within == "_leave" else None)
            found.append(raised.type)

        monkeypatch.setattr(waits, within, interrupted)
        monkeypatch.setattr("pywheel.stores.listener._BACKOFF", (0.05, -1.0))  # the close does not wait for the thread
        thread = threading.Thread(target=program, daemon=True)
        thread.start()
        thread.join(LIMIT)
        assert found == [WaitTimeout if within == "_leave" else StoreClosed]


def test_an_error_that_cannot_be_made_from_its_arguments_ends_all_waits(monkeypatch):
    with JobQueue("memory:") as queue:
        waits = queue.calls.waits
        monkeypatch.setattr(waits, "_begin", lambda: None)
        when_asked(monkeypatch, queue.store, GetStates, lambda query: json.loads("{"))
        futures = [waits.enter(queue.get(queue.put("t", delay="1h"))) for _ in range(2)]
        waits._run()
        for future in futures:
            with pytest.raises(json.JSONDecodeError):
                future.result(0)


def test_a_second_outage_is_told_like_the_first_and_tried_again_as_soon(queue, pool, monkeypatch, caplog):
    looks = []

    def away(query):
        looks.append(query.ids)
        if len(looks) in (1, 2, 3, 5, 6):
            raise StoreAway(f"it does not answer look {len(looks)}")

    id = queue.put("t", delay="1h")
    when_asked(monkeypatch, queue.store, GetStates, away)
    waiting = pool.submit(queue.wait, id)
    until(lambda: len(looks) >= 7)
    queue.cancel(id)
    assert waiting.result(60) == Result(id, State.CANCELLED)
    assert [record.args[1].args[0][-6:] for record in caplog.records] == ["look 1", "look 5"]
