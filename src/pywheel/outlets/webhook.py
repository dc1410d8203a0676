"""Deliveries by HTTP POST, signed as Standard Webhooks says: https://www.standardwebhooks.com."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple
from urllib.parse import urlsplit

from .._errors import BadJob, BadOption, PywheelError
from ..jobs.address import TO
from ..jobs.checks import needed, whole
from ..jobs.durations import Duration, duration
from ..jobs.handler import GiveUp, RetryLater
from ..jobs.job import Job
from .addresses import AddressPolicy, AddressRefused, Places, checked_url, is_address, port_of
from .answers import shown
from .contract import Outlet, delivery_id, texts
from .shares import Call, Shares

if TYPE_CHECKING:
    from .http import Answered, HttpClient

Secrets = str | Iterable[str] | Callable[[Job], str | Iterable[str]] | None
"""One secret, several during a rotation, or a function that returns a job's secrets."""

_SAID: Final = 1_000  # characters of an answer in the job's error
_PER_HOST: Final = 20
_MOST: Final = 10_000  # deliveries at once: as many as a handler may have
_LATEST: Final = 86_400  # seconds that an endpoint may ask for
_WHOLE_JSON: Final = 1 << 16  # bytes up to which a body is read to its end
_THROTTLES: Final = frozenset({429, 502, 503, 504})
_AWAY: Final = frozenset({502, 503, 504})  # a proxy before the endpoint says that it is away
_GONE: Final = 410
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,8000}")
_OURS: Final = frozenset(
    "host connection content-length transfer-encoding te trailer upgrade expect keep-alive proxy-authorization"
    " webhook-id webhook-timestamp webhook-signature".split()
)
_HARMLESS: Final = frozenset({"accept", "content-type", "user-agent"})
"""Headers that may go to any URL that a job names."""
_PREFIX: Final = "whsec_"
_LENGTHS: Final = (24, 64)  # bytes of a secret, by Standard Webhooks
_TRACE: Final = ("traceparent", "tracestate")


class DeliveryFailed(PywheelError):
    """A delivery that an endpoint did not accept. `status` is its answer's; None if there was no answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class _Open(NamedTuple):
    """The open resources on a loop."""

    client: HttpClient
    shares: Shares


class Webhook(Outlet[Any]):
    """An outlet that delivers jobs by POST: to `url`, or, without one, to the URL that each job names in ``to``.

    With a `url` it delivers nowhere else: a job that names another URL is dead, unless that is below one of `allow_to`.

    Only an answer 2xx is success. 410 disables the endpoint: its jobs are dead at once until somebody enables it. 429,
    502, 503 and 504 may ask by Retry-After for a delay, a day at most. Redirects are not followed. `handler(...,
    concurrency=)` limits the simultaneous deliveries in all.

    Args:
        url: the destination of all jobs. Without it each job must have a `to`.
        allow_to: the URLs below which a job may name one of its own, such as ``https://hooks.shop.example/tenants/``:
            the same scheme, host and port, and a path that begins with theirs. Without a `url` and without these a job
            may name any.
        secrets: of signatures: ``whsec_`` and base64; several during a rotation; or a function of the job.
        name: for people, and for `pywheel outlets`. By default the topic.
        timeout: how long a delivery may take in all: less than the handler's ttr. A job's own ttr bounds it as well.
        connect_timeout: how long a connection may take.
        headers: sent with each delivery. All except ``user-agent`` and the like need a `url` or `allow_to`: otherwise
            anybody who may put a job could learn them.
        pass_headers: names of the job's headers that are sent as well. Trace context is always sent.
        allow: networks, addresses and names within one's own network that are allowed all the same.
        ports: the allowed ports; none for any.
        per_host: the most simultaneous deliveries to one host. By default 20 without a `url`, and with one the
            handler's `concurrency`.
        ca: the certificates of authorities, as PEM text, in place of the system's.
        tls: the context for https, in place of one with `ca`.
        proxy: an HTTP proxy, which then decides where connections may go. A proxy in the environment is not used.

    Raises:
        BadOption: an argument makes no sense.
    """

    kind: ClassVar[str] = "webhook"
    secret_words = frozenset({"secrets"})

    def __init__(
        self,
        url: str | None = None,
        *,
        allow_to: Iterable[str] = (),
        secrets: Secrets = None,
        name: str | None = None,
        timeout: Duration = 15,
        connect_timeout: Duration = 5,
        headers: Mapping[str, str] | None = None,
        pass_headers: Iterable[str] = (),
        allow: Iterable[str] = (),
        ports: Iterable[int] | None = (80, 443),
        per_host: int | None = None,
        ca: str | None = None,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        super().__init__(name)
        needed("aiohttp", "webhook")
        self._url = None if url is None else checked_url(url)
        self._places = Places(url, allow_to)
        self._anywhere = url is None and not self._places.prefixes
        self._keys = _keys(secrets)
        self.longest = self._timeout = duration(timeout, "timeout", 1, error=BadOption) / 1000
        self._connect_timeout = duration(connect_timeout, "connect_timeout", 1, error=BadOption) / 1000
        if headers is not None and not isinstance(headers, Mapping):
            raise BadOption("headers must be a table of texts by name")
        self._headers = {_header(name): _value(name, value) for name, value in (headers or {}).items()}
        secret = ", ".join(name for name in headers or () if name.lower() not in _HARMLESS)
        if secret and self._anywhere:  # otherwise anybody who may put a job could receive them
            mend = "give it a url, or name in allow_to where jobs may go"
            raise BadOption(f"{secret} would go to any URL that a job names: {mend}")
        self._passed = tuple(map(_header, texts(pass_headers, "pass_headers")))
        self._policy = AddressPolicy(allow, ports)
        for place in (*(() if url is None else (url,)), *self._places.prefixes):  # else each of its jobs would be dead
            _allowed(place, self._policy)
        usual = _PER_HOST if url is None else _MOST
        self._per_host = usual if per_host is None else whole(per_host, "per_host", _MOST, error=BadOption)
        if not isinstance(ca, str | None):
            raise BadOption("ca must be certificates as PEM text")
        if ca is not None and "BEGIN" not in ca:  # for an empty text ssl would take the system's
            raise BadOption("ca has no certificate: it must be PEM text")
        if ca is not None and tls is None:
            tls = ssl.create_default_context(cadata=ca.encode("ascii", "ignore").decode())  # others: in comments
        if tls is not None and not isinstance(tls, ssl.SSLContext):
            raise BadOption(f"tls must be an ssl.SSLContext, not {tls!r:.60}")
        self._tls = tls
        self._proxy = None if proxy is None else _checked_proxy(proxy)

    @property
    def target(self) -> str:
        return self._url or ""

    # ---- a connection -----------------------------------------------------------------------------------------------

    async def open(self) -> _Open:
        """Return a client, which connects on demand."""
        from .http import HttpClient  # aiohttp takes a while to import

        client = HttpClient(self._policy, self._timeout, self._connect_timeout, self._tls, self._proxy)
        return _Open(client, Shares(self._per_host, self.room or _MOST))

    async def close(self, connection: _Open) -> None:
        await connection.client.close()

    # ---- deliveries -------------------------------------------------------------------------------------------------

    async def deliver(self, connection: _Open, job: Job) -> str:
        from .http import Unanswered

        where = self._where(job)
        disabled = await self.answers.disabled(where)
        if disabled is not None:
            raise GiveUp(f"{shown(where)} is disabled: {disabled}; pywheel outlets enable {self.name}")
        try:
            url = connection.client.url(where)
        except (AddressRefused, ValueError) as error:  # BadJob is one
            then = f", then pywheel retry {job.id}" if getattr(error, "mend", "") else ""
            raise GiveUp(f"{shown(where)[:200]}: {error}{then}") from error
        headers = self._request(job)
        call = await connection.shares.enter(f"{url.raw_host}:{url.port}", job)
        try:
            most = None if job.ttr is None else job.ttr / 1000
            answer = await connection.client.post(url, job.body, headers, most)
        except Unanswered as error:
            call.ended() if error.refused else call.failed()
            raise DeliveryFailed(f"{shown(where)}: {error}") from error
        except BaseException:
            call.ended()
            raise
        return await self._judged(call, where, answer)

    def _where(self, job: Job) -> str:
        """Return the URL that a job goes to. GiveUp: there is none, or the job may not name it."""
        named = job.headers.get(TO)
        if not named:
            if self._url is None:
                raise GiveUp("the job names no destination (to=), and the outlet has no url")
            return self._url
        if self._anywhere:
            return named
        try:
            if named in self._places:
                return named
        except BadJob as error:
            raise GiveUp(str(error)) from error
        own = "to its own url only" if self._url is not None else "only to the URLs that it names"
        raise GiveUp(f"this outlet delivers {own}, not to {shown(named)[:200]}: allow_to names where jobs may go")

    def _request(self, job: Job) -> dict[str, str]:
        """Return the headers of a job's delivery. GiveUp: one cannot be sent."""
        id, now = delivery_id(job), int(time.time())
        headers = {
            "content-type": job.headers.get("content-type") or _content_type(job.body),
            "user-agent": "pywheel",
            **self._headers,
            "webhook-id": id,
            "webhook-timestamp": str(now),
        }
        for name in (*_TRACE, *self._passed):
            value = job.headers.get(name)
            if value is not None:
                headers[name] = value
        for name, value in headers.items():
            if not _VALUE.fullmatch(value):
                raise GiveUp(f"the header {name} has characters that HTTP does not send")
        keys = self._keys(job)
        if keys:
            headers["webhook-signature"] = signature(keys, id, now, job.body)
        return headers

    async def _judged(self, call: Call, where: str, answer: Answered) -> str:
        """Return the status of a successful delivery. Any other answer raises."""
        status = answer.status
        if status in _AWAY:
            call.failed()
        else:
            call.answered()
        if 200 <= status < 300:
            return str(status)
        message = f"{shown(where)} answered {status}{_text(answer)}"
        if status == _GONE:
            await self.answers.disable(where, f"it answered {status}")
            raise GiveUp(f"{message}; the endpoint is disabled: pywheel outlets enable {self.name}")
        if status in _THROTTLES:
            delay = retry_after(answer.headers.get("retry-after"), time.time())
            if delay is not None:
                raise RetryLater(delay, message, least=True)
        raise DeliveryFailed(message, status)


def retry_after(value: str | None, now: float) -> float | None:
    """Return how many seconds an answer asks to wait, from 0 to a day; None if the header is missing or malformed."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(min(int(value[:10]), _LATEST))
    try:
        return min(max(parsedate_to_datetime(value[:100]).timestamp() - now, 0.0), float(_LATEST))
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _allowed(url: str, policy: AddressPolicy) -> None:
    parts = urlsplit(url)
    try:
        policy.check_url(parts.hostname or "", port_of(parts))
    except AddressRefused as error:
        raise BadOption(str(error)) from error


def _checked_proxy(value: Any) -> str:
    if not is_address(value, ("http", "https")) or not urlsplit(value).hostname:
        raise BadOption("the proxy is written like http://user:password@host:3128")
    return value


def _keys(secrets: Secrets) -> Callable[[Job], list[bytes]]:
    """Return the function that gives the keys of a job's signatures."""
    if callable(secrets):
        of_job = secrets
        return lambda job: [decoded(secret) for secret in _many(of_job(job))]
    keys = [decoded(secret) for secret in _many(secrets)]
    if secrets is not None and not keys:
        raise BadOption("secrets is empty: leave it out, or give at least one")
    return lambda _: keys


def _many(secrets: str | Iterable[str] | None) -> Iterable[str]:
    return () if secrets is None else (secrets,) if isinstance(secrets, str) else secrets


def decoded(secret: str) -> bytes:
    """Return the bytes of a secret that is written as ``whsec_`` and base64.

    Raises:
        BadOption: it has another form, or not 24 to 64 bytes. The message does not show it.
    """
    if not isinstance(secret, str):
        raise BadOption(f"a secret must be text such as whsec_..., not {type(secret).__name__}")
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise BadOption(f"a secret is written as {_PREFIX} and base64") from None
    least, most = _LENGTHS
    if not least <= len(key) <= most:
        raise BadOption(f"a secret has {least} to {most} bytes, this one has {len(key)}")
    return key


def signature(keys: Iterable[bytes], id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header ``webhook-signature``: one signature for each key, with spaces between them."""
    content = b"%s.%d.%s" % (id.encode(), timestamp, body)
    return " ".join("v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in keys)


def _header(name: Any) -> str:
    """Return the name of a header that may be sent. BadOption: it may not."""
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise BadOption(f"{name!r:.60} is not a name of a header")
    if name.lower() in _OURS:
        raise BadOption(f"the outlet itself sets the header {name}")
    return name.lower()


def _value(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise BadOption(f"the header {name[:60]} must be a text, without line breaks")
    return value


def _content_type(body: bytes) -> str:
    """Return the media type of a body. For a long body only the ends are looked at."""
    if len(body) > _WHOLE_JSON:
        known = body[:1] + body[-1:] in (b"{}", b"[]", b'""')
    else:
        try:
            json.loads(body)
            known = True
        except (ValueError, RecursionError):
            known = False
    return "application/json" if known else "application/octet-stream"


def _text(answer: Answered) -> str:
    """Return the beginning of an answer, without unprintable characters."""
    text = answer.body[: 4 * _SAID].decode("utf-8", "replace")[:_SAID]
    text = "".join(char if char.isprintable() else " " for char in text).strip()
    location = answer.headers.get("location", "")[:200] if 300 <= answer.status < 400 else ""
    return (f", and redirects to {location!r} are not followed" if location else "") + (f": {text}" if text else "")
