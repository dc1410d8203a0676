"""Into NATS: each job becomes a message of a JetStream, published with its acknowledgement."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from .._errors import BadOption
from ..jobs.checks import needed
from ..jobs.durations import Duration
from ..jobs.handler import GiveUp
from ..jobs.job import Job
from .addresses import is_address
from .broker import CONTENT_TYPE, BrokerOutlet, Link, message_id, passed

if TYPE_CHECKING:
    from nats.aio.client import Client

_SCHEMES: Final = ("nats", "tls", "ws", "wss")
_SUBJECT: Final = re.compile(r"[^\s.*>$][^\s.*>]*(\.[^\s.*>]+)*")
_LONGEST: Final = 3_900  # bytes of a subject: the server takes 4,096 for a line with that, an inbox and two numbers
_HEADER: Final = re.compile(r"[!-9;-~]+")  # RFC 9110's, as far as the client goes: no colon, space or line break


class Nats(BrokerOutlet["NatsLink"]):
    """An outlet into subjects of NATS. An attempt succeeds once a stream has acknowledged the message.

    The payload is the body. `Nats-Msg-Id` is the job's header `message-id`, or an id that is the same at each attempt:
    the stream drops repeats itself, within its duplicate window. `Content-Type` and all other headers of the job go
    into the message. A subject that no stream takes is a failed attempt.

    Args:
        url: ``nats://user:password@host:4222``, or tls; several with commas between them.
        subject: the subject of jobs without a `to`; empty if each job must have one.
        stream: the stream that must take the message. By default any.
        allow: patterns of subjects that jobs may name in `to`. By default `subject` alone, or any if that is empty. A
            subject with a `$` is the server's own.
        timeout: how long NATS may take to be reached, and then to acknowledge: together less than the handler's ttr.
        name: for people. By default the topic that it handles.

    Raises:
        BadOption: an argument makes no sense.
        ExtraMissing: nats-py is not installed.
    """

    kind, broker = "nats", "NATS"
    places = "subject"

    def __init__(
        self,
        url: str,
        subject: str = "",
        *,
        stream: str | None = None,
        allow: Iterable[str] | None = None,
        timeout: Duration = 15,
        name: str | None = None,
    ) -> None:
        super().__init__(subject, allow=allow, timeout=timeout, name=name)
        self._servers = [part.strip() for part in url.split(",")] if type(url) is str else [""]
        if not all(is_address(part if "://" in part else f"nats://{part}", _SCHEMES) for part in self._servers):
            raise BadOption("the address of a NATS is written like nats://user:password@host:4222")
        self._stream = stream
        self._nats = needed("nats.aio.client", "nats")
        self._errors: Any = needed("nats.errors", "nats")
        self._no_stream: Any = needed("nats.js.errors", "nats").NoStreamResponseError
        self.away = (OSError, self._errors.Error)

    async def connect(self) -> NatsLink:
        link = NatsLink(self._nats.Client())
        try:
            await link.client.connect(
                self._servers,
                connect_timeout=max(1, round(self.timeout)),
                allow_reconnect=False,  # messages on their way would be lost anyway: the next job connects
                error_cb=_silent,
                closed_cb=link.lose,
            )
        except BaseException:
            await self.close(link)
            raise
        return link

    async def publish(self, link: NatsLink, job: Job) -> str:
        """Publish a job; return the stream, and the message's number in it."""
        subject = self.place_of(job)
        if not _SUBJECT.fullmatch(subject):
            raise GiveUp(f"{subject[:80]!r} is not a subject to publish to")
        if len(subject.encode()) > _LONGEST:  # the server would end the connection, with all that is on its way
            raise GiveUp(f"the subject has {len(subject.encode())} bytes, at most {_LONGEST} make sense")
        headers = {"Nats-Msg-Id": message_id(job), **_headers(job)}
        if self._stream is not None:
            headers["Nats-Expected-Stream"] = self._stream
        size, most = len(job.body) + _size(headers), link.client.max_payload
        if size > most:  # the client looks at the body alone, and the server would end the connection
            raise GiveUp(f"body and headers have {size} bytes, NATS takes {most}")
        stream = link.client.jetstream()
        try:
            async with link.until_lost():
                ack = await stream.publish(subject, job.body, timeout=2 * self.timeout, headers=headers)
        except self._no_stream:
            raise ConnectionError(f"no stream takes the subject {subject!r}") from None
        return f"{ack.stream} {ack.seq}"


class NatsLink(Link):
    """A connection, and the time limits of its waiting callers."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._limits: set[asyncio.Timeout] = set()

    @property
    def closed(self) -> bool:  # type: ignore[override]
        return not self.client.is_connected

    @asynccontextmanager
    async def until_lost(self) -> AsyncIterator[None]:
        """Raise ConnectionError at once when the connection is lost, as the client would not."""
        try:
            async with asyncio.timeout(None) as limit:
                self._limits.add(limit)
                try:
                    yield
                finally:
                    self._limits.discard(limit)
        except TimeoutError:
            raise ConnectionError("the connection broke") from None

    async def lose(self) -> None:
        """End all waits. The client calls this when it is closed."""
        for limit in self._limits:
            limit.reschedule(0)

    async def close(self) -> None:
        await self.client.close()


def _headers(job: Job) -> dict[str, str]:
    """Return a job's headers as lines of text, as NATS has them. GiveUp: a header would be two lines."""
    headers = passed(job)
    if CONTENT_TYPE in job.headers:
        headers["Content-Type"] = job.headers[CONTENT_TYPE]
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or "\r" in value or "\n" in value:
            raise GiveUp(f"the header {name[:60]!r} cannot be one of NATS: a colon, a space or a line break is in it")
        if name.lower().startswith("nats-"):
            raise GiveUp(f"the header {name[:60]!r} is one of NATS's own")
    return headers


def _size(headers: Mapping[str, str]) -> int:
    """Return how many bytes headers have in a message."""
    lines = (f"{name}: {value.strip()}\r\n" for name, value in headers.items())
    return len("".join(["NATS/1.0\r\n", *lines, "\r\n"]).encode())


async def _silent(*_: object) -> None:
    """Ignore the client's messages: the jobs' errors say the same."""
