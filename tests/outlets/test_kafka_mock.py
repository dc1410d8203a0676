"""The outlet into Kafka, on librdkafka's mock cluster. A real cluster's further behaviour is not tested."""

import asyncio
import json
from base64 import b64encode
from contextlib import aclosing, suppress

import pytest

from pywheel import BadOption, GiveUp
from pywheel.outlets import Kafka
from pywheel.outlets.broker import NotConfirmed
from pywheel.outlets.contract import delivery_id
from tests.jobs.waiting import LIMIT, until
from tests.outlets.jobs import a_job
from tests.outlets.kafka_mock import Mock, end_for_good
from tests.outlets.loops import on_a_loop


@pytest.fixture(scope="module")
def mock():
    return Mock()


def outlet(servers, topic="", **options):
    return aclosing(Kafka(servers, topic, **options))


@on_a_loop
async def test_a_job_becomes_a_record_of_a_mock_cluster(mock, stream):
    """Key and headers that are no text come from base64."""
    raw = b64encode(b"\xff\0").decode()
    jobs = [
        a_job(b"x", key="order-7", tenant="acme", content_type="text/plain", amqp_priority="3"),
        a_job(key="other", kafka_key_base64=raw, kafka_headers=json.dumps({"raw": raw})),
        a_job(key="other", kafka_key="mine"),
    ]
    async with outlet(mock.servers, stream) as deliver:
        for job in jobs:
            await deliver(job)
    records = {record.key(): record for record in mock.records(stream, 3)}
    assert records.keys() == {b"order-7", b"\xff\0", b"mine"}
    first = records[b"order-7"]
    wanted = {"message-id": delivery_id(jobs[0]).encode(), "tenant": b"acme", "content-type": b"text/plain"}
    assert (first.value(), dict(first.headers())) == (b"x", wanted)
    assert dict(records[b"\xff\0"].headers())["raw"] == b"\xff\0"


@on_a_loop
async def test_many_records_are_under_way_in_their_order_on_a_mock_cluster(mock, stream):
    async with outlet(mock.servers) as deliver:
        await asyncio.gather(*(deliver(a_job(b"%d" % n, key="one", to=stream)) for n in range(2_000)))
    assert [int(record.value()) for record in mock.records(stream, 2_000)] == list(range(2_000))


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({}, "names no topic in `to`"),
        ({"to": "a b"}, "not a name of a topic"),
        ({"to": "a", "kafka_key_base64": "%"}, "not base64"),
        ({"to": "a", "kafka_headers": "[" * 30_000}, "kafka-headers must be a JSON object"),
    ],
)
@on_a_loop
async def test_a_job_without_a_topic_or_with_none_that_can_be_is_dead(mock, headers, said):
    async with outlet(mock.servers) as deliver:
        with pytest.raises(GiveUp, match=said):
            await deliver(a_job(**headers))


@on_a_loop
async def test_a_job_chooses_no_other_topic_unless_that_is_allowed(mock, stream):
    other = a_job(to=f"{stream}-other")
    async with outlet(mock.servers, stream) as deliver:
        await asyncio.gather(deliver(a_job()), deliver(a_job(to=stream)))
        with pytest.raises(GiveUp, match="allow"):
            await deliver(other)
    async with outlet(mock.servers, stream, allow=["*-other"]) as deliver:
        await deliver(other)
    assert [len(mock.records(*asked)) for asked in ((stream, 2), (f"{stream}-other", 1))] == [2, 1]


@on_a_loop
async def test_a_record_that_is_too_large_is_dead(mock, stream):
    async with outlet(mock.servers, stream, options={"message.max.bytes": 1_000}) as deliver:
        with pytest.raises(GiveUp, match="no record of that size"):
            await deliver(a_job(b"x" * 2_000))


@on_a_loop
async def test_a_kafka_that_is_away_is_a_failed_attempt_within_the_timeout():
    async with outlet("127.0.0.1:1", "t", timeout=0.3) as deliver:
        ends = await asyncio.gather(*(deliver(a_job()) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(end, NotConfirmed) and "did not confirm within 0.3 s" in str(end) for end in ends), ends


@on_a_loop
async def test_closing_ends_what_is_under_way_and_the_thread():
    async with outlet("127.0.0.1:1", "t", timeout=60) as deliver:
        under_way = asyncio.create_task(deliver(a_job()))
        await asyncio.sleep(0.01)
    with pytest.raises(NotConfirmed):
        await under_way


@on_a_loop
async def test_options_that_librdkafka_does_not_know_are_said_and_servers_that_are_none_refused(mock):
    async with outlet(mock.servers, "t", options={"no.such": 1}) as deliver:
        with pytest.raises(BadOption, match=r"No such configuration property.*no\.such"):
            await deliver(a_job())
    for servers in ("", None, 5):
        with pytest.raises(BadOption, match="servers must look like"):
            Kafka(servers)


@on_a_loop
async def test_a_callback_among_the_options_that_fails_holds_up_no_record_on_a_mock_cluster(mock, stream, caplog):
    calls = []

    def fail_once(_):
        calls.append(True)
        if len(calls) == 1:
            raise ValueError("boom")

    options = {"statistics.interval.ms": 10, "stats_cb": fail_once}
    async with outlet(mock.servers, stream, options=options) as deliver:
        await deliver(a_job(b"0"))
        await asyncio.to_thread(until, lambda: calls)
        await asyncio.wait_for(deliver(a_job(b"1")), 20)
    assert {record.value() for record in mock.records(stream, 2)} == {b"0", b"1"}
    assert "boom" in caplog.text


@on_a_loop
async def test_a_producer_that_has_ended_for_good_is_replaced_by_another_one_on_a_mock_cluster(mock, stream):
    async with outlet(mock.servers, stream) as deliver:
        await deliver(a_job(b"0"))
        link = await deliver._connection()
        end_for_good(link._producer)
        sent = [b"0", b"2"]
        with suppress(NotConfirmed):  # whoever finds it ended fails, unless its thread was first
            await deliver(a_job(b"1"))
            sent.append(b"1")
        await deliver(a_job(b"2"))
        assert await deliver._connection() is not link
    await asyncio.to_thread(link._thread.join, LIMIT)  # it is closed by the way
    assert not link._thread.is_alive()
    assert {record.value() for record in mock.records(stream, len(sent))} == {*sent}


@on_a_loop
async def test_a_callback_that_fails_while_a_producer_is_closed_leaves_no_thread_and_no_sender_behind(caplog):
    def fail(_):
        raise ValueError("boom")

    options = {"statistics.interval.ms": 1, "stats_cb": fail}
    async with outlet("127.0.0.1:1", "t", timeout=60, options=options) as deliver:
        under_way = asyncio.create_task(deliver(a_job()))
        await asyncio.to_thread(until, lambda: "boom" in caplog.text)
        link = await deliver._connection()
    with pytest.raises(NotConfirmed):
        await asyncio.wait_for(under_way, 20)
    await asyncio.to_thread(link._thread.join, LIMIT)  # the close waits for it for two seconds
    assert not link._thread.is_alive()
