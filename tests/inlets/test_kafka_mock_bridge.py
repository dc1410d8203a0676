"""The bridge from Kafka, on librdkafka's mock cluster."""

import asyncio
import json
from base64 import b64encode
from contextlib import asynccontextmanager

import confluent_kafka
import pytest

from pywheel import BadJob
from pywheel._errors import StoreAway
from pywheel.inlets.bridge import SourceAway
from pywheel.inlets.kafka import KafkaSource
from pywheel.outlets import Kafka
from tests.inlets.carrying import carrying, until
from tests.jobs.waiting import working
from tests.outlets.kafka_mock import Mock, end_for_good
from tests.outlets.loops import on_a_loop

pytestmark = pytest.mark.servers  # the mock cluster is one: it has its time limits, and is as slow
SENT = 1_900_000_000_000


@pytest.fixture(scope="module")
def mock():
    return Mock()


@pytest.fixture
def away(jobs, monkeypatch):
    """The commands that the store was asked for while it is away."""

    def refuse(commands):
        asked.append(commands)
        raise StoreAway("no answer")

    asked = []
    monkeypatch.setattr(jobs.store, "apply", refuse)
    return asked


def all_jobs(jobs):
    return sorted(jobs.jobs.list("t", limit=10_000), key=lambda job: job.id)


@on_a_loop
async def test_a_record_becomes_a_job_that_counts_from_its_time_on_a_mock_cluster(mock, jobs, stream):
    raw = [("x-delay", b"5000"), ("tenant", b"acme"), ("content-type", b"text/plain"), ("to", b"x"), ("raw", b"\xff")]
    mock.produce(stream, b"body", b"order-7", raw, timestamp=SENT)
    mock.produce(stream, b"", b"\xff", [("pywheel-delay", b"1h"), ("pywheel-to", b"there")], timestamp=SENT)
    async with carrying(jobs, KafkaSource(mock.servers, stream, group=stream, to="orders")) as bridge:
        await until(lambda: bridge.taken == 2)
    first, second = sorted(all_jobs(jobs), key=lambda job: job.due)
    assert (first.body, first.due) == (b"body", SENT + 5_000)
    assert (second.body, second.due) == (b"", SENT + 3_600_000)
    headers = dict(first.headers)
    found = json.loads(headers.pop("kafka-headers"))
    assert found == {"to": b64encode(b"x").decode(), "raw": b64encode(b"\xff").decode()}
    assert headers == {"to": "orders", "tenant": "acme", "content-type": "text/plain", "kafka-key": "order-7"}
    assert second.headers == {"to": "there", "kafka-key-base64": b64encode(b"\xff").decode()}


@on_a_loop
async def test_a_record_comes_out_as_it_went_in_on_a_mock_cluster(mock, jobs, stream):
    jobs.handler("t", concurrency=50)(Kafka(mock.servers))
    headers = [("raw", b"\xff"), ("tenant", b"acme")]
    with working(jobs):
        async with carrying(jobs, KafkaSource(mock.servers, stream, group=stream, to=f"{stream}-out")):
            mock.produce(stream, b"body", b"\xfe", [*headers, ("x-delay", b"50"), ("message-id", b"m-1")])
            [record] = await asyncio.to_thread(mock.records, f"{stream}-out", 1)
    assert (record.key(), record.value()) == (b"\xfe", b"body")
    assert dict(record.headers()) == {**dict(headers), "message-id": b"m-1"}


# The mock cluster lets nobody join a group that has become empty, as a real one does: so nobody joins one again here.


@on_a_loop
async def test_offsets_are_committed_after_the_put_on_a_mock_cluster(mock, jobs, stream):
    for number in range(10):
        mock.produce(stream, b"%d" % number, partition=number % 2)
    async with carrying(jobs, KafkaSource(mock.servers, stream, group=stream)) as bridge:
        await until(lambda: bridge.taken == 10)
    assert mock.committed(stream, group=stream)[:2] == [5, 5]


@pytest.mark.parametrize(("refused", "committed"), [([False], -1001), ([True, False, True, False], 1)])
@on_a_loop
async def test_nothing_is_committed_behind_a_record_that_the_store_has_not_taken_on_a_mock_cluster(
    mock, jobs, stream, away, refused, committed
):
    for headers in ([("x-delay", b"soon")] if one else [] for one in refused):
        mock.produce(stream, b"", headers=headers, partition=0)
    async with carrying(jobs, KafkaSource(mock.servers, stream, group=stream)):
        await until(lambda: len(away) > 1)
    assert mock.committed(stream, group=stream)[0] == committed


@on_a_loop
async def test_a_record_that_comes_again_is_put_once_on_a_mock_cluster(mock, jobs, stream):
    for number in range(10):
        mock.produce(stream, b"%d" % number)
    for group in ("a", "b"):
        async with carrying(jobs, KafkaSource(mock.servers, stream, group=stream + group)) as bridge:
            await until(lambda bridge=bridge: bridge.taken == 10)
    assert len(all_jobs(jobs)) == 10


@on_a_loop
async def test_records_of_two_clusters_at_one_place_and_time_are_two_jobs_on_a_mock_cluster(mock, jobs, stream):
    clusters = {b"1": mock, b"2": Mock()}
    for value, cluster in clusters.items():
        cluster.produce(stream, value, partition=0, timestamp=SENT)
        async with carrying(jobs, KafkaSource(cluster.servers, stream, group=stream)) as bridge:
            await until(lambda bridge=bridge: bridge.taken == 1)
    assert [job.body for job in all_jobs(jobs)] == [b"1", b"2"]


@on_a_loop
async def test_what_makes_no_sense_is_said_and_goes_to_the_topic_for_that_on_a_mock_cluster(mock, jobs, stream, caplog):
    mock.produce(stream, b"bad", b"k", [("x-delay", b"soon")])
    mock.produce(stream, b"good")
    async with carrying(jobs, KafkaSource(mock.servers, stream, group=stream, refused=f"{stream}-bad")) as bridge:
        await until(lambda: bridge.taken + bridge.refused == 2)
    [record] = await asyncio.to_thread(mock.records, f"{stream}-bad", 1)
    assert (record.value(), record.key(), record.headers()) == (b"bad", b"k", [("x-delay", b"soon")])
    assert "x-delay must be whole ms" in caplog.text
    assert "offset 0" in caplog.text


class Unreadable:
    """A record with a header whose name is not UTF-8, as confluent-kafka has it."""

    def __init__(self, record):
        self._record = record

    def __getattr__(self, name):
        return getattr(self._record, name)

    def headers(self):
        raise SystemError("returned a result with an exception set")


@on_a_loop
async def test_a_record_with_a_header_that_the_client_cannot_read_is_refused_and_holds_up_no_other_on_a_mock_cluster(
    mock, jobs, stream, monkeypatch, caplog
):
    class Consumer(confluent_kafka.Consumer):
        def consume(self, *words):
            return [Unreadable(record) if record.value() == b"bad" else record for record in super().consume(*words)]

    monkeypatch.setattr(confluent_kafka, "Consumer", Consumer)
    for value in (b"bad", b"good"):
        mock.produce(stream, value, partition=0)
    async with carrying(jobs, KafkaSource(mock.servers, stream, group=stream, refused=f"{stream}-bad")) as bridge:
        await until(lambda: bridge.taken + bridge.refused == 2)
    monkeypatch.undo()
    [record] = await asyncio.to_thread(mock.records, f"{stream}-bad", 1)
    assert [job.body for job in all_jobs(jobs)] == [b"good"]
    assert (record.value(), record.headers()) == (b"bad", None)
    assert "the name of a header is not UTF-8 (partition 0, offset 0)" in caplog.text
    assert mock.committed(stream, group=stream)[0] == 2


def test_a_place_that_no_job_can_name_is_refused():
    with pytest.raises(BadJob, match="is not a name"):
        KafkaSource("localhost:9092", "t", to="a b")


@on_a_loop
async def test_a_refused_record_of_any_size_is_sent_on_and_holds_up_no_other_on_a_mock_cluster(mock, jobs, stream):
    host = confluent_kafka.Producer({"bootstrap.servers": mock.servers, "message.max.bytes": 10_000_000})
    host.produce(stream, b"x" * 3_000_000, headers=[("x-delay", b"soon")], partition=0)
    host.produce(stream, b"good", partition=0)
    assert host.flush(30) == 0
    async with carrying(jobs, KafkaSource(mock.servers, stream, group=stream, refused=f"{stream}-bad")) as bridge:
        await until(lambda: bridge.taken + bridge.refused == 2)
    [record] = await asyncio.to_thread(mock.records, f"{stream}-bad", 1)
    assert len(record.value()) == 3_000_000


@asynccontextmanager
async def refusing(mock, stream):
    """A source that has taken one record, and the function that refuses it."""
    mock.produce(stream, b"1", b"k", [("x-delay", b"soon")])
    source = KafkaSource(mock.servers, stream, group=stream, refused=f"{stream}-bad")
    await source.open()
    try:
        taken = await source.batch(asyncio.Event())
        yield source, lambda: source.settle([], taken)
    finally:
        await source.close()


@on_a_loop
async def test_a_producer_of_refused_records_that_has_ended_for_good_is_replaced_on_a_mock_cluster(mock, stream):
    async with refusing(mock, stream) as (source, refuse):
        await refuse()
        end_for_good(source._producer)
        with pytest.raises(SourceAway):
            await refuse()
        await refuse()
    assert len(await asyncio.to_thread(mock.records, f"{stream}-bad", 2)) == 2


class Late(confluent_kafka.Producer):
    """Sends nothing for a minute, and says so."""

    def __init__(self, options, **others):
        super().__init__({**options, "linger.ms": 60_000}, **others)

    def flush(self, timeout):
        return len(self)


@on_a_loop
async def test_a_refused_record_that_was_late_is_not_sent_twice_on_a_mock_cluster(mock, stream, monkeypatch):
    async with refusing(mock, stream) as (_, refuse):
        with monkeypatch.context() as patched:
            patched.setattr(confluent_kafka, "Producer", Late)
            with pytest.raises(SourceAway, match="no answer"):
                await refuse()
        await refuse()
    mock.produce(f"{stream}-bad", b"2", b"k")
    assert [record.value() for record in mock.records(f"{stream}-bad", 2)] == [b"1", b"2"]
