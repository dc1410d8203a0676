"""Into RabbitMQ: each job becomes a message, published with confirms."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from .._errors import BadOption
from ..jobs.address import TO
from ..jobs.checks import needed
from ..jobs.durations import Duration
from ..jobs.handler import GiveUp
from ..jobs.job import Job
from .broker import (
    CONTENT_TYPE,
    BrokerOutlet,
    NotConfirmed,
    address,
    chosen,
    common,
    is_address,
    message_id,
    passed,
    patient,
    patterns,
)
from .settings import Settings

if TYPE_CHECKING:
    from aiormq.channel import Channel
    from aiormq.connection import Connection
    from pamqp.commands import Basic

__all__ = ["HEADERS", "PRIORITY", "TEXTS", "TIMESTAMP", "RabbitMQ", "checked_url"]

TEXTS: Final = {
    "content_type": CONTENT_TYPE,
    "content_encoding": "amqp-content-encoding",
    "correlation_id": "amqp-correlation-id",
    "reply_to": "amqp-reply-to",
    "expiration": "amqp-expiration",
    "message_type": "amqp-type",
    "app_id": "amqp-app-id",
}
"""A message's properties that are text, and the job's headers that they come from."""
HEADERS: Final = "amqp-headers"
"""The job's header that holds those of the message that are no text, as a JSON object."""
PRIORITY: Final = "amqp-priority"
TIMESTAMP: Final = "amqp-timestamp"
_HEARTBEAT: Final = "10"  # seconds, unless the address says otherwise
_SHORT: Final = 255  # bytes of a short string of AMQP
_LAST_SECOND: Final = 253_402_300_799  # of the year 9999
_LONGEST_NAME: Final = 128  # bytes of a header's name: the client cuts longer ones
_MOST_LANES: Final = 200
_COPIES: Final = ("CC", "BCC")  # headers with more routing keys, to which RabbitMQ gives the message too


class RabbitMQ(BrokerOutlet["Link"]):
    """Publishes each job to an exchange; the attempt has succeeded once the broker has confirmed the message.

    The body is the job's. `message_id` is the job's header `message-id`, or an id that is the same at each attempt:
    whoever consumes drops repeats by it. The headers `content-type`, `amqp-priority`, `amqp-expiration` (ms) and the
    others of `TEXTS` become properties, all other headers of the job headers of the message.

    A message that no queue takes is a failed attempt; so is one that the broker does not confirm within the timeout, as
    while it blocks publishers. A broker that is away is waited for, for the same time. All jobs share one connection,
    those for one exchange a channel: an exchange that is not there harms no other.

    Args:
        url: ``amqp://user:password@host:5672/vhost``, or amqps, with aiormq's options, as ``?heartbeat=10&cafile=``.
        exchange: where it publishes; "" is the default exchange, whose routing keys are queues.
        routing_key: of jobs that say none in `to`.
        exchanges: patterns of exchanges that a job may choose instead, by a header `exchange`; none unless told.
        allow: patterns of routing keys that jobs may say in `to`; unless told `routing_key` alone, or any.
        mandatory: whether a message that no queue takes is a failed attempt. If not it is lost.
        persistent: whether durable queues keep the message on disk. The broker confirms it once it is there.
        timeout: how long the broker may take to be reached, and then to confirm: together less than the handler's ttr.
        name: for people; the topic that it handles unless told.

    Raises:
        BadOption: an argument makes no sense.
        ExtraMissing: aiormq is not installed.
    """

    kind = "rabbitmq"
    places = "routing key"

    def __init__(
        self,
        url: str,
        *,
        exchange: str = "",
        routing_key: str = "",
        exchanges: Iterable[str] = (),
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
        self.exchanges = patterns(exchanges, "exchanges")
        self.mandatory = mandatory
        self._mode = 2 if persistent else 1
        self._url = checked_url(url)
        self._target = f"{exchange or '(default)'}/{routing_key}"
        self._amqp = needed("aiormq", "rabbitmq")

    @classmethod
    def configured(cls, name: str, settings: Settings) -> Self:
        """Return one from a table of a config file: the words are those of the class, the address is a secret."""
        return cls(
            address(settings),
            exchange=settings.text("exchange", ""),
            routing_key=settings.text("routing_key", ""),
            exchanges=settings.texts("exchanges"),
            mandatory=settings.flag("mandatory", True),
            persistent=settings.flag("persistent", True),
            **common(name, settings),
        )

    @property
    def target(self) -> str:
        """The exchange and the routing key of jobs that say none."""
        return self._target

    async def open(self) -> Link:
        """Connect; a broker that is away is waited for."""
        connection = await patient(self._connect, self.timeout, self._amqp.exceptions.AMQPConnectionError)
        return Link(connection)

    async def _connect(self) -> Connection:
        connection: Connection = self._amqp.connection.Connection(self._url)
        await connection.connect()
        return connection

    async def close(self, connection: Link) -> None:
        """Close the connection."""
        await connection.close()

    async def deliver(self, connection: Link, job: Job) -> str | None:
        """Publish a job; return once the broker has confirmed it."""
        exchange, key, properties = self._exchange_of(job), self.place_of(job), self._properties(job)
        if connection.closed:
            self.drop(connection)
            connection = await self._connection()
        began = connection.confirms
        try:
            async with asyncio.timeout(self.timeout):
                lane = await connection.lane(exchange)
                await lane.publish(
                    job.body, exchange=exchange, routing_key=key, properties=properties, mandatory=self.mandatory
                )
        except TimeoutError:
            blocked = await connection.blocked()
            if connection.confirms == began and not blocked:  # it may well be dead, and nobody has noticed
                self.drop(connection)
            why = "it blocks publishers: memory or disk alarm" if blocked else "no answer"
            raise NotConfirmed(f"RabbitMQ did not confirm within {self.timeout:g} s ({why})") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise NotConfirmed("the connection was closed before RabbitMQ confirmed") from None
        except self._amqp.exceptions.PublishError as returned:
            raise NotConfirmed(_unroutable(exchange, key, returned)) from None
        except self._amqp.exceptions.DeliveryError:
            raise NotConfirmed("RabbitMQ refused the message: basic.nack") from None
        except (TypeError, ValueError, struct.error) as error:  # before anything was sent
            raise GiveUp(f"RabbitMQ has no way to say it: {_said(error)}") from error
        except (self._amqp.exceptions.AMQPError, RuntimeError, OSError) as error:  # RuntimeError: it is closed
            raise NotConfirmed(f"RabbitMQ did not confirm: {_said(error)}") from error
        connection.confirms += 1
        return "confirmed"

    # ---- from a job to a message ------------------------------------------------------------------------------------

    def _exchange_of(self, job: Job) -> str:
        named = job.headers.get("exchange")
        if named is None or named == self.exchange:
            return self.exchange
        return chosen(named, self.exchanges, "exchange", "exchanges")

    def place_of(self, job: Job) -> str:
        """Return a job's routing key; the empty one is one."""
        return _short(super().place_of(job), TO) if TO in job.headers else self.place

    def _properties(self, job: Job) -> Basic.Properties:
        headers = job.headers
        texts = {word: _short(headers[header], header) for word, header in TEXTS.items() if header in headers}
        if "expiration" in texts:
            _number(texts["expiration"], TEXTS["expiration"], 2**32 - 1)
        seconds = _number(headers[TIMESTAMP], TIMESTAMP, _LAST_SECOND) if TIMESTAMP in headers else None
        table: dict[str, Any] = dict(passed(job))
        if HEADERS in headers:
            table |= _table(headers[HEADERS])
        for copies in (table.get(name) for name in _COPIES):
            for key in copies if isinstance(copies, list) else ():
                self.allowed(str(key))
        for name in table:
            _short(name, "the name of a header", _LONGEST_NAME)
        return self._amqp.spec.Basic.Properties(  # type: ignore[no-any-return]
            delivery_mode=self._mode,
            message_id=_short(message_id(job), "message-id"),
            priority=_number(headers[PRIORITY], PRIORITY, 255) if PRIORITY in headers else None,
            timestamp=None if seconds is None else datetime.fromtimestamp(seconds, UTC),
            headers=table or None,
            **texts,
        )


class Lane:
    """The channel of an exchange. Until one message got through it takes one at a time.

    For a message that it does not take, as the exchange is not there or not allowed, RabbitMQ closes the channel; and
    the whole connection, if by then others have followed.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._proven = False
        self._wrong: Exception | None = None
        self._trial = asyncio.Lock()

    async def publish(self, body: bytes, **words: Any) -> None:
        """Publish; return once it is confirmed. Raises what aiormq raises."""
        if self._proven:
            await self.channel.basic_publish(body, wait=False, **words)
            return
        async with self._trial:
            if self._wrong is not None:  # so it would be for this one
                raise self._wrong
            try:
                await self.channel.basic_publish(body, wait=False, **words)
            except Exception as error:
                self._wrong = error if self.channel.is_closed else None
                raise
            self._proven = True


class Link:
    """A connection, and a lane for each exchange that is published to."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lanes: dict[str, asyncio.Task[Lane]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.confirms = 0
        """How many messages were confirmed."""

    @property
    def closed(self) -> bool:
        """Whether it is of no more use."""
        return not self._connection.is_opened

    async def lane(self, exchange: str) -> Lane:
        """Return the lane of an exchange, open."""
        opening = self._lanes.get(exchange)
        if opening is None or _over(opening):
            if len(self._lanes) >= _MOST_LANES:
                self._make_room()
            opening = self._lanes[exchange] = asyncio.get_running_loop().create_task(self._open())
        return opening.result() if opening.done() else await asyncio.shield(opening)

    async def _open(self) -> Lane:
        channel: Any = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
        return Lane(channel)

    def _make_room(self) -> None:
        """Forget a lane on which nothing is under way."""
        for exchange, opening in self._lanes.items():
            if _over(opening):
                del self._lanes[exchange]
                return
            if opening.done() and not opening.result().channel.confirmations:
                del self._lanes[exchange]
                closing = asyncio.get_running_loop().create_task(opening.result().channel.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
                return

    async def blocked(self) -> bool:
        """Whether the broker has said that it takes nothing for now."""
        if self.closed:
            return False
        try:
            async with asyncio.timeout(0):
                await self._connection.ready()
        except TimeoutError:
            return True
        return False

    async def close(self) -> None:
        """Close it, within a second."""
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._connection.close()


def checked_url(url: Any) -> str:
    """Return the address of a RabbitMQ, with a heartbeat. BadOption if it is none."""
    if not is_address(url, ("amqp", "amqps")) or not (parts := urlsplit(url)).hostname:
        raise BadOption("the address of a RabbitMQ is written like amqp://user:password@host:5672/vhost")
    query = dict(parse_qsl(parts.query))
    return parts._replace(query=urlencode({"heartbeat": _HEARTBEAT, **query})).geturl()


def _over(opening: asyncio.Task[Lane]) -> bool:
    if not opening.done():
        return False
    return opening.cancelled() or opening.exception() is not None or opening.result().channel.is_closed


def _short(text: str, header: str, most: int = _SHORT) -> str:
    if len(text) * 4 > most and len(text.encode()) > most:
        raise GiveUp(f"{header} has {len(text.encode())} bytes, RabbitMQ takes {most}: {text[:40]!r}...")
    return text


def _number(text: str, header: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and int(text[:20]) <= most):
        raise GiveUp(f"{header} must be a whole number from 0 to {most}, not {text[:40]!r}")
    return int(text)


def _table(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise GiveUp(f"{HEADERS} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise GiveUp(f"{HEADERS} must be a JSON object, not {text[:40]!r}")
    return found


def _unroutable(exchange: str, key: str, returned: Any) -> str:
    reason = getattr(returned.frame, "reply_text", None) or "returned"
    return f"no queue takes the message: {reason}, exchange {exchange!r}, routing key {key!r}"


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
