"""Into RabbitMQ: each job becomes a message, published with confirms."""

from __future__ import annotations

import asyncio
import json
import math
import struct
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from .._errors import BadOption
from ..jobs.address import TO
from ..jobs.checks import needed
from ..jobs.durations import Duration
from ..jobs.handler import GiveUp
from ..jobs.job import Job
from .addresses import is_address
from .broker import CONTENT_TYPE, BrokerOutlet, Link, NotConfirmed, message_id, passed

if TYPE_CHECKING:
    from aiormq.channel import Channel
    from aiormq.connection import Connection
    from pamqp.commands import Basic

TEXTS: Final = {
    "content_type": CONTENT_TYPE,
    "content_encoding": "amqp-content-encoding",
    "correlation_id": "amqp-correlation-id",
    "reply_to": "amqp-reply-to",
    "expiration": "amqp-expiration",
    "message_type": "amqp-type",
    "app_id": "amqp-app-id",
}
"""The text properties of a message, and the job's headers for them."""
HEADERS: Final = "amqp-headers"
"""The job's header with the message's headers that are no text, as a JSON object."""
PRIORITY: Final = "amqp-priority"
TIMESTAMP: Final = "amqp-timestamp"
_HEARTBEAT: Final = "10"  # seconds, unless the URL has another value
_SHORT: Final = 255  # bytes of a short string of AMQP
_LAST_SECOND: Final = 253_402_300_799  # of the year 9999
_LONGEST_NAME: Final = 128  # bytes of a header's name: the client cuts longer ones
_COPIES: Final = ("CC", "BCC")  # headers with more routing keys, by which RabbitMQ routes the message as well
_FAST_REPLY: Final = "amq.rabbitmq.reply-to"  # a name that stands for a consumer of the publisher's own channel
_HEAD: Final = 12  # bytes before the properties, which go out in one frame


class RabbitMQ(BrokerOutlet["RabbitLink"]):
    """An outlet into an exchange of RabbitMQ. An attempt succeeds once the broker has confirmed the message.

    The body is the job's. `message_id` is the job's header `message-id`, or an id that is the same at each attempt, so
    that consumers can drop repeats. The headers `content-type`, `amqp-priority`, `amqp-expiration` (ms) and the others
    of `TEXTS` become properties; all other headers of the job become headers of the message.

    A message that no queue takes is a failed attempt. So is a message without a confirmation within the timeout, as
    while the broker blocks publishers. If the broker is away, the outlet waits for it for the same time. All jobs of
    the outlet share one connection and one channel.

    Args:
        url: ``amqp://user:password@host:5672/vhost``, or amqps, with aiormq's options, as ``?heartbeat=10&cafile=``.
        exchange: where it publishes; "" is the default exchange, whose routing keys are queues.
        routing_key: the routing key of jobs without a `to`.
        allow: patterns of routing keys that jobs may name in `to`. By default `routing_key` alone, or any if that is
            empty.
        mandatory: whether a message that no queue takes is a failed attempt. If not, it is lost.
        persistent: whether durable queues keep the message on disk. The broker confirms it once it is there.
        timeout: how long the broker may take to be reached, and then to confirm: together less than the handler's ttr.
        name: for people. By default the topic that it handles.

    Raises:
        BadOption: an argument makes no sense.
        ExtraMissing: aiormq is not installed.
    """

    kind, broker = "rabbitmq", "RabbitMQ"
    places = "routing key"

    def __init__(
        self,
        url: str,
        *,
        exchange: str = "",
        routing_key: str = "",
        allow: Iterable[str] | None = None,
        mandatory: bool = True,
        persistent: bool = True,
        timeout: Duration = 15,
        name: str | None = None,
    ) -> None:
        super().__init__(routing_key, allow=allow, timeout=timeout, name=name)
        if not isinstance(exchange, str):
            raise BadOption(f"the exchange must be a str, not {type(exchange).__name__}")
        self.exchange = exchange
        self.mandatory = mandatory
        self._mode = 2 if persistent else 1
        self._url = checked_url(url)
        self._target = f"{exchange or '(default)'}/{routing_key}"
        self._amqp = needed("aiormq", "rabbitmq")
        self.away = (OSError, self._amqp.exceptions.AMQPError, RuntimeError)  # RuntimeError: the connection is closed

    @property
    def target(self) -> str:
        return self._target

    async def connect(self) -> RabbitLink:
        connection: Connection = self._amqp.connection.Connection(self._url)
        link = RabbitLink(connection)
        try:
            await connection.connect()
            channel: Any = await connection.channel(publisher_confirms=True, on_return_raises=True)
            link.channel = channel
            if self.exchange:  # else the first publish fails and closes the channel for all others
                await channel.exchange_declare(self.exchange, passive=True)
        except self._amqp.exceptions.ChannelNotFoundEntity as error:
            await self.close(link)
            raise NotConfirmed(f"RabbitMQ did not confirm: {error}") from error
        except BaseException:
            await self.close(link)
            raise
        return link

    async def publish(self, link: RabbitLink, job: Job) -> str:
        key, properties = self.place_of(job), self._properties(job)
        try:
            size, most = _HEAD + len(properties.marshal()), link.channel.max_content_size
            if size > most:
                raise GiveUp(f"properties and headers have {size} bytes, RabbitMQ takes {most}")
            await link.channel.basic_publish(
                job.body, exchange=self.exchange, routing_key=key, properties=properties, mandatory=self.mandatory,
                wait=False,
            )  # fmt: skip
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise NotConfirmed("the connection was closed before RabbitMQ confirmed") from None
        except self._amqp.exceptions.PublishError as returned:
            reason = getattr(returned.frame, "reply_text", None) or "returned"
            where = f"exchange {self.exchange!r}, routing key {key!r}"
            raise NotConfirmed(f"no queue takes the message: {reason}, {where}") from None
        except (TypeError, ValueError, OverflowError, RecursionError, struct.error) as error:
            # Nothing was sent.
            raise GiveUp(f"RabbitMQ cannot represent it: {str(error) or type(error).__name__}") from error
        return "confirmed"

    # ---- from a job to a message ------------------------------------------------------------------------------------

    def place_of(self, job: Job) -> str:
        """Return a job's routing key, which may be empty."""
        return _short(super().place_of(job), TO) if TO in job.headers else self.place

    def _properties(self, job: Job) -> Basic.Properties:
        """Return a job's properties. GiveUp also for all that RabbitMQ would answer by ending the shared connection."""
        headers = job.headers
        properties = {word: _short(headers[header], header) for word, header in TEXTS.items() if header in headers}
        if "expiration" in properties:
            _number(properties["expiration"], TEXTS["expiration"], 2**32 - 1)
        if properties.get("reply_to") == _FAST_REPLY:
            raise GiveUp(f"{TEXTS['reply_to']} must not be {_FAST_REPLY}: an outlet takes no replies")
        seconds = _number(headers[TIMESTAMP], TIMESTAMP, _LAST_SECOND) if TIMESTAMP in headers else None
        table: dict[str, Any] = dict(passed(job))
        if HEADERS in headers:
            table |= _table(headers[HEADERS])
        for name in table.keys() & _COPIES:
            copies = table[name]
            if not isinstance(copies, list) or not all(isinstance(key, str) for key in copies):
                raise GiveUp(f"{name} must be a list of routing keys, in {HEADERS}")
            for key in copies:
                self.allowed(key)
        for name in table:
            _short(name, "the name of a header", _LONGEST_NAME)
        return self._amqp.spec.Basic.Properties(  # type: ignore[no-any-return]
            delivery_mode=self._mode,
            message_id=_short(message_id(job), "message-id"),
            priority=_number(headers[PRIORITY], PRIORITY, 255) if PRIORITY in headers else None,
            timestamp=None if seconds is None else datetime.fromtimestamp(seconds, UTC),
            headers=table or None,
            **properties,
        )


class RabbitLink(Link):
    """A connection, and its channel for publishing."""

    channel: Channel

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def closed(self) -> bool:  # type: ignore[override]
        return not self._connection.is_opened or self.channel.is_closed

    async def blocked(self) -> str:
        try:
            async with asyncio.timeout(0):
                await self._connection.ready()
        except TimeoutError:
            return "" if self.closed else "it blocks publishers: memory or disk alarm"
        return ""

    async def close(self) -> None:
        await self._connection.close()


def checked_url(url: Any) -> str:
    """Return the URL of a RabbitMQ, with a heartbeat. BadOption: it is none."""
    if not is_address(url, ("amqp", "amqps")) or not (parts := urlsplit(url)).hostname:
        raise BadOption("the address of a RabbitMQ is written like amqp://user:password@host:5672/vhost")
    query = dict(parse_qsl(parts.query))
    return parts._replace(query=urlencode({"heartbeat": _HEARTBEAT, **query})).geturl()


def _short(text: str, header: str, most: int = _SHORT) -> str:
    if len(text) * 4 > most and len(text.encode()) > most:
        raise GiveUp(f"{header} has {len(text.encode())} bytes, RabbitMQ takes {most}: {text[:40]!r}...")
    return text


def _number(text: str, header: str, most: int) -> int:
    digits = text.lstrip("0")[:20] or "0"
    if not (text.isascii() and text.isdecimal() and int(digits) <= most):
        raise GiveUp(f"{header} must be a whole number from 0 to {most}, not {text[:40]!r}")
    return int(digits)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number")
    return number


def _table(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        raise GiveUp(f"{HEADERS} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise GiveUp(f"{HEADERS} must be a JSON object, not {text[:40]!r}")
    return found
