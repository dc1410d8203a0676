"""The outlet into NATS, on a real one with JetStream."""

import pytest

from pywheel import GiveUp
from pywheel.outlets.broker import NotConfirmed
from pywheel.outlets.contract import delivery_id
from tests.outlets.jobs import a_job
from tests.outlets.loops import on_a_loop
from tests.outlets.places import OfNats


@pytest.fixture
def place(nats_server, stream):
    return OfNats(nats_server, stream)


@on_a_loop
async def test_a_job_becomes_a_message_of_the_stream(place):
    job = a_job(b"x", tenant="acme", content_type="text/plain")
    async with place.jetstream() as there, place.outlet(place.name) as deliver:
        await deliver(job)
        message = await there.get_msg(place.stream, 1)
    assert (message.subject, message.data) == (place.name, b"x")
    assert message.headers == {"Nats-Msg-Id": delivery_id(job), "tenant": "acme", "Content-Type": "text/plain"}
    assert deliver.answers.last.status == f"{place.stream} 1"


@pytest.mark.parametrize(
    ("options", "said"),
    [({}, "no stream takes the subject 'nobody"), ({"stream": "another"}, "expected stream does not match")],
)
@on_a_loop
async def test_a_subject_that_no_stream_or_another_one_takes_is_a_failed_attempt(place, options, said):
    async with place.outlet(place.name if options else "nobody.listens", **options) as deliver:
        with pytest.raises(NotConfirmed, match=said):
            await deliver(a_job())


SUBJECTS = ["$JS.API.STREAM.DELETE.S", "a b", "a.*", "a.>", "a..b", ".a", "a\r\nPUB b 0"]
HEADERS = [{"a b": "c"}, {"a:b": "c"}, {"a": "b\r\nNats-Msg-Id: c"}, {"Nats-Rollup": "all"}]


@on_a_loop
async def test_a_job_names_no_subject_of_the_servers_own_and_none_that_is_none(place):
    async with place.outlet() as deliver:
        for subject in SUBJECTS:
            with pytest.raises(GiveUp, match="not a subject to publish to"):
                await deliver(a_job(to=subject))


@on_a_loop
async def test_a_job_has_no_header_that_would_be_another(place):
    async with place.outlet("s") as deliver:
        for headers in HEADERS:
            with pytest.raises(GiveUp, match="the header"):
                await deliver(a_job()._replace(headers=headers))
