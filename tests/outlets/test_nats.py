"""The outlet into NATS, on a real one with JetStream."""

from contextlib import asynccontextmanager

import nats
import pytest

from pywheel import GiveUp
from pywheel.outlets import Nats
from pywheel.outlets.broker import NotConfirmed
from pywheel.outlets.contract import delivery_id
from tests.outlets.jobs import a_job
from tests.outlets.loops import on_a_loop


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
async def outlet(server, subject="", **options):
    made = Nats(server.url(), subject, **options)
    try:
        yield made
    finally:
        await made.aclose()


@on_a_loop
async def test_a_job_becomes_a_message_of_the_stream(nats_server, stream):
    job = a_job(b"x", tenant="acme", content_type="text/plain")
    async with stream_of(nats_server, stream) as there, outlet(nats_server, f"{stream}.a") as deliver:
        await deliver(job)
        message = await there.get_msg(stream, 1)
    assert (message.subject, message.data) == (f"{stream}.a", b"x")
    assert message.headers == {"Nats-Msg-Id": delivery_id(job), "tenant": "acme", "Content-Type": "text/plain"}
    assert deliver.answers.last.status == f"{stream} 1"


@pytest.mark.parametrize(
    ("options", "said"),
    [({}, "no stream takes the subject 'nobody"), ({"stream": "another"}, "expected stream does not match")],
)
@on_a_loop
async def test_a_subject_that_no_stream_or_another_one_takes_is_a_failed_attempt(nats_server, stream, options, said):
    subject = f"{stream}.a" if options else "nobody.listens"
    async with stream_of(nats_server, stream), outlet(nats_server, subject, **options) as deliver:
        with pytest.raises(NotConfirmed, match=said):
            await deliver(a_job())


SUBJECTS = ["$JS.API.STREAM.DELETE.S", "a b", "a.*", "a.>", "a..b", ".a", "a\r\nPUB b 0"]
HEADERS = [{"a b": "c"}, {"a:b": "c"}, {"a": "b\r\nNats-Msg-Id: c"}, {"Nats-Rollup": "all"}]


@on_a_loop
async def test_a_job_names_no_subject_of_the_servers_own_and_none_that_is_none(nats_server):
    async with outlet(nats_server) as deliver:
        for subject in SUBJECTS:
            with pytest.raises(GiveUp, match="not a subject to publish to"):
                await deliver(a_job(to=subject))


@on_a_loop
async def test_a_job_has_no_header_that_would_be_another(nats_server):
    async with outlet(nats_server, "s") as deliver:
        for headers in HEADERS:
            with pytest.raises(GiveUp, match="the header"):
                await deliver(a_job()._replace(headers=headers))
