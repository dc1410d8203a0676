"""Messages from a queue of RabbitMQ."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from .._errors import BadOption
from ..jobs.address import TO
from ..jobs.checks import needed, whole
from ..outlets.broker import MESSAGE_ID, is_own
from ..outlets.rabbitmq import HEADERS, PRIORITY, TEXTS, TIMESTAMP, checked_url
from .bridge import Source, SourceAway
from .received import OWN_PREFIX, OWN_TO, Message

if TYPE_CHECKING:
    from aiormq.abc import DeliveredMessage
    from aiormq.channel import Channel
    from aiormq.connection import Connection

_SENT: Final = "timestamp_in_ms"  # a header that RabbitMQ's own interceptor sets when a message comes in
_CONNECT: Final = 15.0  # seconds


class RabbitMQSource(Source):
    """Takes the messages of a queue, and settles them by acknowledging or rejecting them.

    Each message becomes a job. The job's headers contain the message's headers and properties; its `to` is the value of
    the header `pywheel-to`, or the routing key. A message with an id is put once, however often it comes.

    Args:
        url: ``amqp://user:password@host:5672/vhost``, or amqps.
        queue: the name of the queue.
        exchange: a fanout exchange to declare, durable, with the queue bound to it. Without one the queue must exist.
        prefetch: how many messages may be taken and not settled.

    Raises:
        BadOption: an argument makes no sense.
        ExtraMissing: aiormq is not installed.
    """

    def __init__(self, url: str, queue: str, *, exchange: str | None = None, prefetch: int = 1_000) -> None:
        self._url = checked_url(url)
        self._queue = queue
        self._exchange = exchange
        self._prefetch = whole(prefetch, "prefetch", 65_535, error=BadOption)
        self.name = f"queue {queue!r} of {urlsplit(self._url).hostname}"
        self._amqp = needed("aiormq", "rabbitmq")
        self._connection: Connection | None = None

    async def open(self) -> None:
        self._received: asyncio.Queue[DeliveredMessage | None] = asyncio.Queue()
        self._settled = 0  # the tag up to which all messages are settled
        try:
            async with asyncio.timeout(_CONNECT):
                self._connection = self._amqp.connection.Connection(self._url)
                await self._connection.connect()
                channel: Any = await self._connection.channel(publisher_confirms=False)
                await self._declare(channel)
                await channel.basic_qos(prefetch_count=self._prefetch)
                await channel.basic_consume(self._queue, self._take)
        except (self._amqp.exceptions.AMQPError, RuntimeError, OSError) as error:
            raise SourceAway(str(error) or type(error).__name__) from error

        def lost(_: object, received: asyncio.Queue[DeliveredMessage | None] = self._received) -> None:
            received.put_nowait(None)

        channel.closing.add_done_callback(lost)
        with suppress(AttributeError):  # older versions of aiormq do not report that a queue was deleted
            channel.on_consumer_cancel_callbacks.add(lost)
        self._channel: Channel = channel

    async def _declare(self, channel: Channel) -> None:
        if self._exchange is None:
            await channel.queue_declare(self._queue, passive=True)
            return
        await channel.exchange_declare(self._exchange, exchange_type="fanout", durable=True)
        await channel.queue_declare(self._queue, durable=True)
        await channel.queue_bind(self._queue, self._exchange)

    async def _take(self, message: DeliveredMessage) -> None:
        self._received.put_nowait(message)

    async def batch(self, stopped: asyncio.Event) -> list[Message]:
        waiting = asyncio.create_task(self._received.get()), asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            messages = [waiting[0].result()] if waiting[0].done() else []
        finally:
            for task in waiting:
                task.cancel()
        while messages and len(messages) < self._prefetch and not self._received.empty():
            messages.append(self._received.get_nowait())
        if None in messages:
            closing = self._channel.closing
            error = closing.exception() if closing.done() and not closing.cancelled() else None
            why = f": {str(error) or type(error).__name__}" if error else ""
            raise SourceAway(f"the connection, the channel or the queue was closed{why}")
        return [self._message(message) for message in messages if message]

    async def settle(self, taken: Sequence[Message], refused: Sequence[Message]) -> None:
        """Acknowledge `taken`; reject `refused`, which the queue's dead-letter exchange gets, if there is one."""
        try:
            for message in refused:
                await self._channel.basic_reject(message.token, requeue=False, wait=False)
            tags = sorted(message.token for message in (*taken, *refused))
            if taken and tags == list(range(self._settled + 1, self._settled + 1 + len(tags))):
                await self._channel.basic_ack(max(message.token for message in taken), multiple=True)
            else:  # some were left, as the store did not take them
                for message in taken:
                    await self._channel.basic_ack(message.token, wait=False)
            self._settled = tags[-1] if tags else self._settled
        except Exception as error:  # aiormq raises a bare Exception if the connection broke
            raise SourceAway(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(TimeoutError, self._amqp.exceptions.AMQPError, OSError):
                async with asyncio.timeout(1):
                    await connection.close()

    # ---- from a message of RabbitMQ ----------------------------------------------------------------------------------

    def _message(self, message: DeliveredMessage) -> Message:
        tag, key = message.delivery.delivery_tag, message.delivery.routing_key or ""  # type: ignore[union-attr]
        properties = message.header.properties
        given: Mapping[str, Any] = properties.headers or {}
        sent, id = given.get(_SENT), properties.message_id
        headers = {**_headers(properties, given), TO: str(given.get(OWN_TO, key))}
        sent = sent if isinstance(sent, int) else None
        identity = (self._queue, id, key, message.body) if id else None
        return Message(tag, message.body, headers, given, sent, f"message id {id!r:.80}", identity)


def _headers(properties: Any, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the job's headers for a message's headers and properties."""
    headers = _properties(properties)
    table: dict[str, Any] = {}
    for name, value in given.items():  # also x-delay: consumers also see it with the plugin
        if name.startswith(OWN_PREFIX):
            continue
        if isinstance(value, str) and not is_own(name):
            headers[name] = value
        else:
            table[name] = value
    if table:
        headers[HEADERS] = json.dumps(table, default=_text, ensure_ascii=False, separators=(",", ":"))
    return headers


def _properties(properties: Any) -> dict[str, str]:
    words = {**TEXTS, "message_id": MESSAGE_ID, "priority": PRIORITY}
    headers = {header: str(getattr(properties, word)) for word, header in words.items() if getattr(properties, word)}
    if properties.timestamp:
        headers[TIMESTAMP] = str(int(properties.timestamp.timestamp()))
    return headers


def _text(value: Any) -> str:
    """Return a value that JSON lacks as text: times, decimals, bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
