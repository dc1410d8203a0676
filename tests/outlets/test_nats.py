"""The outlet into NATS, on a real one with JetStream."""

import asyncio
from contextlib import asynccontextmanager

import nats
import pytest

from pywheel import GiveUp
from pywheel.outlets import Nats
from pywheel.outlets.broker import NotConfirmed
from pywheel.outlets.contract import delivery_id
from tests.outlets.brokers import Nats as Server
from tests.outlets.jobs import a_job
from tests.outlets.loops import on_a_loop
from tests.stores.network import Proxy
from tests.stores.servers import started


@pytest.fixture
def own_nats_server():
    """One of a test's own: to be killed."""
    yield from started(Server)


@asynccontextmanager
async def stream_of(server, name):
    """A stream for the subjects below a name."""
    client = await nats.connect(server.url())
    try:
        await client.jetstream().add_stream(name=name, subjects=[f"{name}.>"])
        yield client.jetstream()
    finally:
        await client.close()


@asynccontextmanager
async def outlet(server, subject="", *, via=None, **options):
    made = Nats(server.url(via=via), subject, **options)
    try:
        yield made
    finally:
        await made.aclose()


async def messages(stream, name):
    state = (await stream.stream_info(name)).state
    return [await stream.get_msg(name, number) for number in range(state.first_seq, state.last_seq + 1)]


@on_a_loop
async def test_a_job_becomes_a_message_of_the_stream(nats_server, stream):
    job = a_job(b"x", tenant="acme", content_type="text/plain")
    async with stream_of(nats_server, stream) as there, outlet(nats_server, f"{stream}.a") as deliver:
        await deliver(job)
        [message] = await messages(there, stream)
    assert (message.subject, message.data) == (f"{stream}.a", b"x")
    assert message.headers == {"Nats-Msg-Id": delivery_id(job), "tenant": "acme", "Content-Type": "text/plain"}
    assert deliver.answers.last.status == f"{stream} 1"


@on_a_loop
async def test_the_stream_drops_a_second_attempt(nats_server, stream):
    job = a_job()
    async with stream_of(nats_server, stream) as there, outlet(nats_server, f"{stream}.a") as deliver:
        await deliver(job)
        await deliver(job._replace(attempt=2, claims=2))
        assert len(await messages(there, stream)) == 1


@on_a_loop
async def test_many_jobs_are_under_way_on_one_connection_in_their_order(nats_server, stream):
    with Proxy(nats_server, tcp=True) as proxy:
        async with stream_of(nats_server, stream) as there, outlet(nats_server, via=proxy) as deliver:
            jobs = [a_job(b"%d" % number, to=f"{stream}.b") for number in range(500)]
            await asyncio.gather(*map(deliver, jobs))
            assert proxy.links == 1
            assert [int(message.data) for message in await messages(there, stream)] == list(range(500))


@on_a_loop
async def test_a_subject_that_no_stream_takes_is_a_failed_attempt_that_says_so(nats_server):
    async with outlet(nats_server, "nobody.listens") as deliver:
        with pytest.raises(NotConfirmed, match=r"no stream takes the subject 'nobody\.listens'"):
            await deliver(a_job())


@on_a_loop
async def test_another_stream_than_the_one_that_must_take_it_is_a_failed_attempt(nats_server, stream):
    async with (
        stream_of(nats_server, stream),
        outlet(nats_server, f"{stream}.a", stream="another") as deliver,
    ):
        with pytest.raises(NotConfirmed, match="expected stream does not match"):
            await deliver(a_job())


@pytest.mark.parametrize("subject", ["$JS.API.STREAM.DELETE.S", "a b", "a.*", "a.>", "a..b", ".a", "a\r\nPUB b 0"])
@on_a_loop
async def test_a_job_names_no_subject_of_the_servers_own_and_none_that_is_none(nats_server, subject):
    async with outlet(nats_server) as deliver:
        with pytest.raises(GiveUp, match="no subject to publish to"):
            await deliver(a_job(to=subject))


@pytest.mark.parametrize("headers", [{"a b": "c"}, {"a:b": "c"}, {"a": "b\r\nNats-Msg-Id: c"}, {"Nats-Rollup": "all"}])
@on_a_loop
async def test_a_job_has_no_header_that_would_be_another(nats_server, headers):
    async with outlet(nats_server, "s") as deliver:
        with pytest.raises(GiveUp, match="the header"):
            await deliver(a_job()._replace(headers=headers))


@on_a_loop
async def test_a_connection_that_breaks_fails_what_was_under_way_at_once(nats_server, stream):
    with Proxy(nats_server, tcp=True) as proxy:
        async with (
            stream_of(nats_server, stream) as there,
            outlet(nats_server, f"{stream}.a", via=proxy, timeout=120) as deliver,
        ):
            await deliver(a_job())
            proxy.stall(requests=False)
            jobs = [a_job() for _ in range(5)]
            under_way = [asyncio.create_task(deliver(job)) for job in jobs]
            while (await there.stream_info(stream)).state.messages < 6:
                await asyncio.sleep(0.01)
            proxy.cut_once()
            proxy.heal()
            ends = await asyncio.gather(*under_way, return_exceptions=True)
            assert all("the connection broke" in str(end) for end in ends), ends
            await asyncio.gather(*map(deliver, jobs))
            assert len(await messages(there, stream)) == 6


@on_a_loop
async def test_a_server_that_restarts_costs_the_jobs_that_wait_no_attempt_nor_their_order(own_nats_server):
    async with stream_of(own_nats_server, "S"):
        pass
    own_nats_server.kill()
    async with outlet(own_nats_server, "S.a", timeout=60) as deliver:
        waiting = [asyncio.create_task(deliver(a_job(b"%d" % number))) for number in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(own_nats_server.start)
        await asyncio.gather(*waiting)
    client = await nats.connect(own_nats_server.url())
    assert [int(message.data) for message in await messages(client.jetstream(), "S")] == list(range(20))
    await client.close()
