"""Into Redis Streams: each job becomes an entry, added once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .._errors import BadOption
from ..jobs.checks import needed, whole
from ..jobs.durations import Duration, duration
from ..jobs.handler import GiveUp
from ..jobs.job import Job
from .addresses import is_address
from .broker import BrokerOutlet, Link, message_id, passed

if TYPE_CHECKING:
    from redis.asyncio import Redis

# The entry and the key that remembers its id are written together, or not at all.
_ADD: Final = """
local before = redis.call('GET', KEYS[2])
if before then return before end
local entry
if ARGV[2] == '' then
    entry = redis.call('XADD', KEYS[1], '*', unpack(ARGV, 3))
else
    entry = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', unpack(ARGV, 3))
end
redis.call('SET', KEYS[2], entry, 'PX', ARGV[1])
return entry
"""
_MOST: Final = 500  # jobs in one round trip
_SCHEMES: Final = ("redis", "rediss", "unix")
_LONGEST: Final = 1_024  # characters of a stream's name
_Wish: TypeAlias = "tuple[list[Any], asyncio.Future[str]]"  # the arguments of `eval`, and the waiting caller


class RedisStreams(BrokerOutlet["RedisLink"]):
    """An outlet into Redis Streams. An attempt succeeds once Redis has answered.

    An entry has the fields `id`, which is the job's header `message-id` or an id that is the same at each attempt,
    `topic`, `body`, `key` if the job has one, and `headers` as JSON if it has any. A script adds it together with a key
    that remembers the id: a second attempt within `remember` adds nothing. All jobs share one connection: those that
    come while Redis answers go out together. The appendonly settings of Redis decide which entries survive its crash.

    Args:
        url: ``redis://user:password@host:6379/0``, rediss or ``unix:///run/redis.sock``.
        stream: the stream of jobs without a `to`; empty if each job must have one.
        maxlen: about how many entries the stream keeps. By default all.
        remember: how long an id is remembered, as a key beside the stream.
        allow: patterns of streams that jobs may name in `to`. By default `stream` alone, or any if that is empty.
        timeout: how long Redis may take to be reached, and then to answer: together less than the handler's ttr.
        name: for people. By default the topic that it handles.

    Raises:
        BadOption: an argument makes no sense.
        ExtraMissing: redis is not installed.
    """

    kind, broker = "redis", "Redis"
    places = "stream"

    def __init__(
        self,
        url: str,
        stream: str = "",
        *,
        maxlen: int | None = None,
        remember: Duration = "1d",
        allow: Iterable[str] | None = None,
        timeout: Duration = 15,
        name: str | None = None,
    ) -> None:
        super().__init__(stream, allow=allow, timeout=timeout, name=name)
        if not is_address(url, _SCHEMES):
            raise BadOption("the address of a Redis is written like redis://user:password@host:6379/0")
        self._url = url
        self._maxlen = "" if maxlen is None else str(whole(maxlen, "maxlen", 2**53, error=BadOption))
        self._remember = str(duration(remember, "remember", 1, error=BadOption))
        self._redis = needed("redis.asyncio", "redis")
        try:
            self._redis.ConnectionPool.from_url(url).make_connection()  # connects nowhere
        except (AttributeError, TypeError, ValueError, self._redis.RedisError) as error:
            raise BadOption(f"redis does not take an option in the address: {error}") from None
        self.away = (OSError, self._redis.RedisError)

    async def connect(self) -> RedisLink:
        link = RedisLink(self._redis.Redis.from_url(self._url, socket_timeout=self.timeout, decode_responses=True))
        try:
            await link.client.ping()
        except BaseException:
            await link.client.aclose()
            raise
        return link

    async def publish(self, link: RedisLink, job: Job) -> str:
        """Add a job to its stream; return the entry's id."""
        stream = self.place_of(job)
        if len(stream) > _LONGEST:
            raise GiveUp(f"the name of the stream has {len(stream)} characters, at most {_LONGEST} make sense")
        known = message_id(job)
        fields: list[Any] = ["id", known, "topic", job.topic, "body", job.body]
        if job.key is not None:
            fields += ["key", job.key]
        if headers := passed(job):
            fields += ["headers", json.dumps(headers, ensure_ascii=False, separators=(",", ":"))]
        keys = [stream, f"pywheel:{{{_tag(stream)}}}:{known}"]
        try:
            return await link.add([_ADD, len(keys), *keys, self._remember, self._maxlen, *fields])
        except self._redis.ReadOnlyError:
            link.closed = True  # the server has become a replica: the next connection may lead to another one
            raise


class RedisLink(Link):
    """One connection. Jobs that come while it waits for answers share the next round trip."""

    def __init__(self, client: Redis) -> None:
        self.client = client
        self._waiting: list[_Wish] = []
        self._asked: list[_Wish] = []
        self._carrier: asyncio.Task[None] | None = None

    async def add(self, words: list[Any]) -> str:
        """Run a script; return its answer. An error of Redis is raised."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        self._waiting.append((words, future))
        if self._carrier is None or self._carrier.done():
            self._carrier = loop.create_task(self._carry())
        return await future

    async def _carry(self) -> None:
        while self._waiting:
            wishes, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            self._asked = [(words, future) for words, future in wishes if not future.done()]  # others are cancelled
            pipeline = self.client.pipeline(transaction=False)
            for words, _ in self._asked:
                pipeline.eval(*words)
            try:
                answers: list[Any] = await pipeline.execute(raise_on_error=False)
            except Exception as error:  # noqa: BLE001  (the callers get it)
                answers = [error] * len(self._asked)
            for (_, future), answer in zip(self._asked, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(str(answer))

    async def close(self) -> None:
        """Close the connection. Waiting callers get an error."""
        if self._carrier is not None and not self._carrier.done():
            self._carrier.cancel()
        for _, future in (*self._asked, *self._waiting):
            if not future.done():
                future.set_exception(ConnectionError("the connection was closed"))
        await self.client.aclose()


def _tag(stream: str) -> str:
    """Return the hash tag of a stream for Redis Cluster, so that the id's key is in the stream's slot."""
    begin = stream.find("{")
    end = stream.find("}", begin + 1)
    return stream[begin + 1 : end] if 0 <= begin < end - 1 else stream
