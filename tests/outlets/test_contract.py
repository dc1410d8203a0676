"""The common part of all outlets: one connection a loop, opened with the first job and closed with the worker."""

import asyncio
import re

import pytest

from pywheel import GiveUp
from pywheel.jobs import Job, State
from pywheel.outlets.contract import Outlet, delivery_id
from pywheel.testing import run_due
from tests.jobs.waiting import finished, working
from tests.outlets.loops import on_a_loop

JOB = Job(id=7, topic="t", body=b"x", due=5, created=1_700_000_000_000, state=State.RUNNING, claims=3)


class Recorded(Outlet):
    """Delivers into a list."""

    kind = "recorded"

    def __init__(self, name=None):
        super().__init__(name)
        self.opened, self.closed, self.delivered = [], [], []
        self.failing = []

    async def open(self):
        await asyncio.sleep(0)
        if self.failing:
            raise self.failing.pop()
        self.opened.append(object())
        return self.opened[-1]

    async def deliver(self, connection, job):
        if job.body == b"bad":
            raise GiveUp("bad")
        self.delivered.append((connection, job.id))
        return "ok"

    async def close(self, connection):
        self.closed.append(connection)


@on_a_loop
async def test_the_last_answer_is_kept():
    outlet = Recorded("mine")
    await outlet(JOB)
    assert (outlet.answers.last.status, outlet.answers.last.error) == ("ok", None)
    with pytest.raises(GiveUp):
        await outlet(JOB._replace(body=b"bad"))
    assert outlet.answers.last.error == "pywheel.jobs.handler.GiveUp: bad"
    await outlet.aclose()


def test_each_worker_opens_it_once_and_closes_it_and_so_does_run_due(queue):
    outlet = Recorded()
    queue.handler("t", concurrency=5)(outlet)
    for workers in (1, 2):
        with working(queue):
            for id in queue.put_many(queue.job("t", n) for n in range(20)):
                assert finished(queue, id).state is State.DONE
        assert len(outlet.opened) == workers
        assert outlet.closed == outlet.opened
    queue.put("t")
    assert [run_due(queue), run_due(queue)] == [1, 0]  # without a job it opens nothing
    assert len(outlet.closed) == len(outlet.opened) == 3
    assert outlet.name == "t"


@on_a_loop
async def test_a_connection_that_cannot_be_opened_fails_those_that_wait_and_the_next_job_tries_again():
    outlet = Recorded()
    outlet.failing = [OSError("away")]
    answers = await asyncio.gather(*(outlet(JOB) for _ in range(3)), return_exceptions=True)
    assert {str(answer) for answer in answers} == {"away"}
    await outlet(JOB)
    await outlet.aclose()
    assert len(outlet.opened) == 1


@on_a_loop
async def test_one_that_cannot_be_opened_in_time_is_a_failed_attempt():
    class Hanging(Recorded):
        open_timeout = 0.01

        async def open(self):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await Hanging()(JOB)


@on_a_loop
async def test_jobs_that_come_at_once_share_one_connection_though_one_of_them_is_cancelled():
    outlet = Recorded()
    first, *others = [asyncio.create_task(outlet(JOB)) for _ in range(11)]
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(*others)
    assert outlet.closed == []
    await outlet.aclose()
    assert outlet.closed == outlet.opened
    assert (len(outlet.opened), len(outlet.delivered)) == (1, 10)


@on_a_loop
async def test_a_connection_that_was_dropped_is_closed_and_another_one_opened():
    outlet = Recorded()
    await outlet(JOB)
    for _ in range(2):
        outlet.drop(outlet.opened[0])
    await outlet(JOB)
    outlet.drop(outlet.opened[0])  # not the one that is open
    await outlet(JOB)
    await outlet.aclose()
    assert len(outlet.opened) == 2
    assert sorted(map(id, outlet.closed)) == sorted(map(id, outlet.opened))


@pytest.mark.parametrize("wrong", [OSError("no"), None])
def test_one_that_cannot_be_closed_holds_up_no_worker(queue, caplog, wrong):
    class Stubborn(Recorded):
        async def close(self, connection):
            if wrong is None:
                await asyncio.Event().wait()
            raise wrong

    queue.handler("t")(Stubborn())
    with working(queue):
        finished(queue, queue.put("t"))
    assert ("could not be closed" in caplog.text) == (wrong is not None)


def test_a_deliverys_id_is_that_of_its_job_at_every_attempt():
    ids = {delivery_id(JOB._replace(claims=n, attempt=n, due=n, lost=n % 3)) for n in range(5)}
    assert len(ids) == 1
    assert re.fullmatch(r"job_7_[0-9a-f]+_[0-9a-f]{16}", ids.pop())
    assert delivery_id(JOB._replace(id=8)) != delivery_id(JOB) != delivery_id(JOB._replace(created=JOB.created + 1))


def test_jobs_of_two_stores_with_one_id_that_were_put_in_the_same_ms_have_deliveries_of_two_ids():
    others = [{"topic": "s"}, {"body": b"y"}, {"key": "k"}, {"headers": {"tenant": "acme"}}]
    assert len({delivery_id(JOB._replace(**other)) for other in ({}, *others)}) == 5
