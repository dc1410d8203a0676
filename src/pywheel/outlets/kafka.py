"""Into Kafka: each job becomes a record, sent by an idempotent producer."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from .._errors import BadOption
from ..jobs.checks import needed
from ..jobs.durations import Duration
from ..jobs.handler import GiveUp
from ..jobs.job import Job
from .broker import CONTENT_TYPE, MESSAGE_ID, BrokerOutlet, Link, NotConfirmed, message_id, passed

if TYPE_CHECKING:
    from confluent_kafka import Producer

KEY: Final = "kafka-key"
"""The job's header with the record's key, in place of the job's key."""
KEY_BASE64: Final = "kafka-key-base64"
"""The same in base64, for a key that is not text."""
HEADERS: Final = "kafka-headers"
"""The job's header with the record's headers that are no text: a JSON object of base64 by name."""
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_POLL: Final = 0.5  # seconds between checks of the thread whether to end
_FLUSH: Final = 1.0  # seconds for records on their way
_LOGGER: Final = logging.getLogger("pywheel.kafka")


class Kafka(BrokerOutlet["KafkaLink"]):
    """An outlet into topics of Kafka. An attempt succeeds once all in-sync replicas have the record.

    The value is the body. The key is the job's header `kafka-key`, or else the job's key: records with one key keep
    their order within a partition. The headers are `message-id`, the same at each attempt, so that consumers can drop
    repeats, `content-type`, and all other headers of the job. The producer's own retries repeat nothing.

    Args:
        servers: ``host:port,host:port``.
        topic: the topic of jobs without a `to`; empty if each job must have one.
        allow: patterns of topics that jobs may name in `to`. By default `topic` alone, or any if that is empty.
        options: of librdkafka, such as ``{"security.protocol": "SASL_SSL", "sasl.password": ...}``, or a text with
            lines such as ``security.protocol=SASL_SSL``.
        timeout: how long a record may wait for its confirmation: less than the handler's ttr.
        name: for people. By default the topic of jobs that it handles.

    Raises:
        BadOption: an argument makes no sense.
        ExtraMissing: confluent-kafka is not installed.
    """

    kind, broker = "kafka", "Kafka"
    places = "topic"
    secret_words = frozenset({"options"})
    keeps_time = True  # and its error says why

    def __init__(
        self,
        servers: str,
        topic: str = "",
        *,
        allow: Iterable[str] | None = None,
        options: Mapping[str, Any] | str = "",
        timeout: Duration = 15,
        name: str | None = None,
    ) -> None:
        super().__init__(topic, allow=allow, timeout=timeout, name=name)
        if not servers or type(servers) is not str:
            raise BadOption(f"servers must look like 'host:9092,host:9092', not {servers!r:.60}")
        if not isinstance(options, str | Mapping):
            raise BadOption(
                "options must be a table, or the text of a file with lines such as security.protocol=SASL_SSL"
            )
        self._kafka = needed("confluent_kafka", "kafka")
        self.away = (OSError, self._kafka.KafkaException)
        self._options = {
            "linger.ms": 1,
            "enable.idempotence": True,
            **(_of_lines(options) if isinstance(options, str) else options),
            "bootstrap.servers": servers,
            "message.timeout.ms": round(self.timeout * 1000),
        }

    async def connect(self) -> KafkaLink:
        """Make a producer, which connects, and reconnects, by itself."""
        try:
            producer = self._kafka.Producer(self._options, logger=_LOGGER)
        except (self._kafka.KafkaException, TypeError, ValueError) as error:
            raise BadOption(f"librdkafka does not take these options: {error}") from error
        return KafkaLink(producer, asyncio.get_running_loop())

    async def publish(self, link: KafkaLink, job: Job) -> str:
        topic = self.place_of(job)
        if not _TOPIC.fullmatch(topic):
            raise GiveUp(f"{topic[:80]!r} is not a name of a topic of Kafka")
        headers: dict[str, str] = {MESSAGE_ID: message_id(job), **passed(job)}
        if CONTENT_TYPE in job.headers:
            headers[CONTENT_TYPE] = job.headers[CONTENT_TYPE]
        try:
            error = await link.send(topic, _key(job), job.body, {**headers, **_bytes(job)})
        except BufferError:
            raise NotConfirmed("too many records are waiting for Kafka: queue.buffering.max.messages") from None
        except self._kafka.KafkaException as refused:
            error = refused.args[0]
            link.closed = link.closed or error.code() == self._kafka.KafkaError._FATAL
        if error is None:
            return "confirmed"
        if error.code() == self._kafka.KafkaError.MSG_SIZE_TOO_LARGE:
            raise GiveUp(f"Kafka takes no record of that size: {error.str()}")
        raise NotConfirmed(f"Kafka did not confirm within {self.timeout:g} s: {error.str()}")


class KafkaLink(Link):
    """A producer, with one thread that receives the outcomes of all records."""

    def __init__(self, producer: Producer, loop: asyncio.AbstractEventLoop) -> None:
        self._producer = producer
        self._loop = loop
        self._told: list[tuple[asyncio.Future[Any], Any]] = []  # the waiting sender, and the record's error or None
        self._ended = False
        self._thread = threading.Thread(target=self._hear, name="pywheel-kafka", daemon=True)
        self._thread.start()

    async def send(self, topic: str, key: str | bytes | None, value: bytes, headers: Mapping[str, str | bytes]) -> Any:
        """Send a record; return its error, or None. BufferError: too many records wait."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def told(error: Any, _: Any) -> None:  # called in the thread, within `poll`
            self._told.append((future, error))

        self._producer.produce(topic, value, key, headers=list(headers.items()), on_delivery=told)
        return await future

    def _hear(self) -> None:
        while not self._ended:
            self._serve(self._producer.poll, _POLL)
            self._tell()

    def _serve(self, serve: Callable[[float], object], seconds: float) -> None:
        """Receive outcomes. An error is logged: it is a callback's among the options, or ends the producer."""
        try:
            serve(seconds)
        except Exception as error:  # all senders wait for this thread
            self.closed = self.closed or _is_fatal(error)
            _LOGGER.exception("the producer, or a callback among the options, failed")

    def _tell(self) -> None:
        """Wake the senders in one turn of the loop: a turn for each takes half as long again."""
        told, self._told = self._told, []
        if told:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(_settle, told)

    async def close(self) -> None:
        """Give records on their way a second, then end the producer."""
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._serve(self._producer.flush, _FLUSH)
        self._ended = True
        self._producer.purge()
        self._thread.join(_FLUSH)
        end = time.monotonic() + _FLUSH
        while len(self._producer) and time.monotonic() < end:  # a callback that fails ends a poll before all is told
            self._serve(self._producer.poll, _POLL)
        self._tell()


def _settle(told: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, error in told:
        if not future.done():
            future.set_result(error)


def _is_fatal(error: Exception) -> bool:
    """Whether an error ends its producer. An error of a callback does not."""
    from confluent_kafka import KafkaException

    return isinstance(error, KafkaException) and error.args[0].fatal()


def _of_lines(text: str) -> dict[str, str]:
    """Return options that are written one to a line."""
    pairs = (line.partition("=") for line in filter(None, map(str.strip, text.splitlines())))
    return {option.strip(): value.strip() for option, _, value in pairs}


def _key(job: Job) -> str | bytes | None:
    if KEY_BASE64 in job.headers:
        return _decoded(KEY_BASE64, job.headers[KEY_BASE64])
    return job.headers.get(KEY, job.key)


def _bytes(job: Job) -> dict[str, bytes]:
    """Return the headers that are no text."""
    text = job.headers.get(HEADERS)
    if text is None:
        return {}
    try:
        found = json.loads(text)
        return {name: _decoded(HEADERS, value) for name, value in found.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise GiveUp(f"{HEADERS} must be a JSON object of base64 by name: {error}") from None


def _decoded(header: str, text: Any) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (ValueError, TypeError) as error:
        raise GiveUp(f"{header} is not base64: {error}") from None
