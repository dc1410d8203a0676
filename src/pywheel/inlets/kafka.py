"""Messages from a topic of Kafka."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from .._errors import BadOption
from ..jobs.address import TO, checked_to
from ..jobs.checks import needed
from ..outlets.broker import CONTENT_TYPE, MESSAGE_ID, is_own
from ..outlets.kafka import HEADERS, KEY, KEY_BASE64
from .bridge import Source, SourceAway
from .received import OWN_PREFIX, OWN_TO, X_DELAY, Message

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

_LOGGER: Final = logging.getLogger("pywheel.bridge")
_MOST: Final = 1_000  # records in a batch
_WAIT: Final = 0.2  # seconds to wait for records before a look at `stopped`
_FLUSH: Final = 15.0  # seconds to wait until refused records are sent on
_LARGEST: Final = 1_000_000_000  # bytes of a refused record: the broker knows how many it takes
_TEXTS: Final = {MESSAGE_ID, CONTENT_TYPE}  # headers of outlets that a record may have


class KafkaSource(Source):
    """Takes the records of a topic as a member of a consumer group, and settles them by committing offsets.

    Each record becomes a job. The job's headers contain the record's headers and key. A record is identified by its
    topic, partition, offset, time, key and value, and is put once, however often it comes. A delay counts from the
    record's time.

    Args:
        servers: ``host:port,host:port``.
        source: the topic of Kafka.
        group: the consumer group.
        to: the `to` of the jobs, unless the record has a header `pywheel-to`.
        refused: a topic that gets the records that cannot be jobs; without one they are only logged.
        options: options of librdkafka.

    Raises:
        BadJob, BadOption: an argument makes no sense.
        ExtraMissing: confluent-kafka is not installed.
    """

    def __init__(
        self,
        servers: str,
        source: str,
        *,
        group: str = "pywheel",
        to: str | None = None,
        refused: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._source = source
        self._to = None if to is None else checked_to(to)
        self._refused = refused
        self._kafka = needed("confluent_kafka", "kafka")
        self._options = {**(options or {}), "bootstrap.servers": servers}
        self._group = {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
        }
        self.name = f"topic {source!r} of {servers}"
        self._open: set[tuple[int, int]] = set()  # partitions and offsets of the last batch that are not settled
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None

    async def open(self) -> None:
        try:
            self._consumer = self._kafka.Consumer({**self._options, **self._group}, logger=_LOGGER)
            self._consumer.subscribe([self._source])
        except (self._kafka.KafkaException, TypeError, ValueError) as error:
            raise BadOption(f"librdkafka does not take these options: {error}") from error

    async def batch(self, stopped: asyncio.Event) -> list[Message]:
        assert self._consumer is not None
        while not stopped.is_set():
            try:
                found = await asyncio.to_thread(self._consumer.consume, _MOST, _WAIT)
            except self._kafka.KafkaException as error:
                raise SourceAway(str(error.args[0])) from error
            for wrong in filter(None, (message.error() for message in found)):
                if wrong.fatal():
                    raise SourceAway(wrong.str())
                _LOGGER.warning("%s: %s", self.name, wrong.str())
            records = [self._message(message) for message in found if message.error() is None]
            if records:
                self._open = {_place(record.token) for record in records}
                return records
        return []

    async def settle(self, taken: Sequence[Message], refused: Sequence[Message]) -> None:
        """Send refused records on, if there is a topic for them; commit up to the first open one of each partition."""
        try:
            if refused and self._refused:
                await asyncio.to_thread(self._send_on, [message.token for message in refused])
            await asyncio.to_thread(self._commit, [message.token for message in (*taken, *refused)])
        except (self._kafka.KafkaException, BufferError) as error:
            raise SourceAway(str(error.args[0])) from error

    def _send_on(self, messages: list[Any]) -> None:
        """Send records to the topic of those that were refused, without headers that the client cannot read.

        A producer that fails is not used again: it may have ended for good, and would send what it has left once more.
        """
        assert self._refused is not None
        usual = {"enable.idempotence": True, "message.max.bytes": _LARGEST}
        producer = self._producer or self._kafka.Producer({**usual, **self._options}, logger=_LOGGER)
        self._producer = None
        failed: list[Any] = []
        try:
            for message in messages:
                producer.produce(
                    self._refused,
                    message.value(),
                    message.key(),
                    headers=_raw_headers(message) or [],
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )
            if not producer.flush(_FLUSH) and not failed:
                self._producer = producer
        finally:
            if self._producer is None:
                producer.purge()
        if self._producer is None:
            raise SourceAway(f"{self._refused} does not take what was refused: {failed[:1] or 'no answer'}")

    def _commit(self, messages: list[Any]) -> None:
        assert self._consumer is not None
        places = sorted(map(_place, messages))
        self._open.difference_update(places)
        ends = {partition: offset + 1 for partition, offset in places}  # the last of each
        # A commit is for all records before it, and one that is open must come again.
        ends |= {partition: offset for partition, offset in sorted(self._open, reverse=True) if partition in ends}
        offsets = [self._kafka.TopicPartition(self._source, partition, end) for partition, end in ends.items()]
        if offsets:
            self._consumer.commit(offsets=offsets, asynchronous=False)

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(self._kafka.KafkaException, RuntimeError):
                await asyncio.to_thread(consumer.close)

    # ---- from a record to a message ---------------------------------------------------------------------------------

    def _message(self, record: Any) -> Message:
        partition, offset, (kind, time) = record.partition(), record.offset(), record.timestamp()
        key, value = record.key() or b"", record.value() or b""
        place = f"partition {partition}, offset {offset}"
        raw = _raw_headers(record)
        if raw is None:
            return Message(record, value, {}, {}, place=place, wrong="the name of a header is not UTF-8")
        given = _texts(raw)
        headers = _headers(record, given)
        to = given.get(OWN_TO, self._to)
        if isinstance(to, str):
            headers[TO] = to
        sent = time if kind != self._kafka.TIMESTAMP_NOT_AVAILABLE else None
        identity = (self._source, str((partition, offset, time)), key, value)  # another cluster may have the same place
        return Message(record, value, headers, given, sent, place, identity)


def _place(record: Any) -> tuple[int, int]:
    """Return the partition and the offset of a record."""
    return record.partition(), record.offset()


def _raw_headers(record: Any) -> list[Any] | None:
    """Return a record's headers; None if a name is not UTF-8, which makes the client raise SystemError."""
    try:
        return record.headers() or []
    except (SystemError, ValueError):
        return None


def _texts(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str | bytes]:
    """Return headers by name, the last one of each name, as text if they are UTF-8."""
    found: dict[str, str | bytes] = {}
    for name, value in headers:
        try:
            found[name] = (value or b"").decode()
        except UnicodeDecodeError:
            found[name] = value or b""
    return found


def _headers(record: Any, given: Mapping[str, str | bytes]) -> dict[str, str]:
    """Return the job's headers for a record's headers and key."""
    headers: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, value in given.items():
        if name == X_DELAY or name.startswith(OWN_PREFIX):
            continue
        if isinstance(value, str) and (not is_own(name) or name in _TEXTS):
            headers[name] = value
        else:
            others[name] = _base64(value.encode() if isinstance(value, str) else value)
    if others:
        headers[HEADERS] = json.dumps(others, separators=(",", ":"))
    key = record.key()
    if key is not None:
        try:
            headers[KEY] = key.decode()
        except UnicodeDecodeError:
            headers[KEY_BASE64] = _base64(key)
    return headers


def _base64(value: bytes) -> str:
    return b64encode(value).decode()
