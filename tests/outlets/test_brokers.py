"""The common behaviour of outlets into brokers, on real ones."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from pywheel import GiveUp
from pywheel.outlets.broker import NotConfirmed
from pywheel.outlets.contract import delivery_id
from tests.jobs.waiting import LIMIT
from tests.outlets.jobs import a_job
from tests.outlets.loops import on_a_loop
from tests.stores.network import Proxy

pytestmark = pytest.mark.servers


@asynccontextmanager
async def by_proxy(broker, name="", **options):
    """Give an outlet, and what it reaches the broker by."""
    with Proxy(broker.server, tcp=broker.kind != "redis") as proxy:
        async with broker.outlet(name, via=proxy, **options) as deliver:
            yield deliver, proxy


@on_a_loop
async def test_a_second_attempt_has_the_same_id_and_adds_nothing_where_repeats_are_dropped(broker):
    job = a_job()
    async with broker.outlet(broker.name) as deliver:
        await deliver(job)
        first = deliver.answers.last.status
        await deliver(job._replace(attempt=2, claims=2))
        assert deliver.answers.last.status == first
    ids = [id for id, _ in await broker.messages()]
    assert ids == [delivery_id(job)] * (1 if broker.drops_repeats else 2)


@on_a_loop
async def test_many_jobs_are_under_way_on_one_connection_in_their_order(broker):
    async with by_proxy(broker) as (deliver, proxy):
        await asyncio.gather(*(deliver(a_job(b"%d" % number, to=broker.name)) for number in range(1_200)))
        assert proxy.links == 1
    assert [int(body) for _, body in await broker.messages()] == list(range(1_200))


@on_a_loop
async def test_a_job_chooses_no_other_place_unless_that_is_allowed(broker):
    jobs = [a_job(), a_job(to=broker.name), a_job(to=broker.other)]
    async with broker.outlet(broker.name) as deliver:
        *right, wrong = await asyncio.gather(*map(deliver, jobs), return_exceptions=True)
    assert (right, type(wrong), "allow" in str(wrong)) == ([None, None], GiveUp, True)
    assert (len(await broker.messages()), await broker.messages(broker.other)) == (2, [])
    async with broker.outlet(broker.name, allow=[broker.other]) as deliver:
        await deliver(jobs[2])
    assert len(await broker.messages(broker.other)) == 1


@on_a_loop
async def test_a_connection_that_breaks_fails_what_was_under_way_at_once_and_the_next_job_connects(broker):
    async with by_proxy(broker, broker.name, timeout=120) as (deliver, proxy):
        await deliver(a_job())
        proxy.stall(requests=False)
        jobs = [a_job() for _ in range(5)]
        under_way = [asyncio.create_task(deliver(job)) for job in jobs]
        while await broker.count() < 6:
            await asyncio.sleep(0.01)
        proxy.cut_once()
        proxy.heal()
        ends = await asyncio.gather(*under_way, return_exceptions=True)
        assert {type(end) for end in ends} == {NotConfirmed}, ends
        await asyncio.gather(*map(deliver, jobs))
    assert len(await broker.messages()) == (6 if broker.drops_repeats else 11)


@on_a_loop
async def test_a_network_that_loses_all_is_a_failed_attempt_and_then_another_connection(broker):
    async with by_proxy(broker, broker.name) as (deliver, proxy):
        await deliver(a_job(b"1"))
        proxy.stall()
        deliver.timeout = 0.5
        job = a_job(b"2")
        with pytest.raises(NotConfirmed, match=r"did not confirm within 0\.5 s"):
            await deliver(job)
        proxy.cut_once()
        proxy.heal()
        deliver.timeout = 30
        await deliver(job._replace(attempt=2, claims=2))
    assert {body for _, body in await broker.messages()} == {b"1", b"2"}


@on_a_loop
async def test_who_still_waits_when_it_is_closed_gets_an_error(broker):
    async with by_proxy(broker, broker.name, timeout=120) as (deliver, proxy):
        await deliver(a_job())
        proxy.stall()
        waiting = [asyncio.create_task(deliver(a_job())) for _ in range(3)]
        await asyncio.sleep(0.01)
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(end) for end in ends} == {NotConfirmed}, ends


@on_a_loop
async def test_a_broker_that_restarts_costs_the_jobs_that_wait_no_attempt_nor_their_order(broker):
    await asyncio.to_thread(broker.kill)
    async with broker.outlet(broker.name, timeout=LIMIT) as deliver:
        waiting = [asyncio.create_task(deliver(a_job(b"%d" % number))) for number in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(broker.server.start)
        await asyncio.gather(*waiting)
    assert [int(body) for _, body in await broker.messages()] == list(range(20))
