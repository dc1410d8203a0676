"""The share of one token, which leaves room for others; and the cost of a probe for the store."""

import asyncio
import contextlib
import itertools
import time

import httpx
import pytest

from pywheel import JobQueue
from pywheel.jobs.queries import ListWorkers
from pywheel.server import Limits
from pywheel.stores import open
from pywheel.stores.contract import Store
from pywheel.testing import FaultyStore
from tests.jobs.waiting import until
from tests.server.client import problem
from tests.server.page.site import Site, tokens

PLACES = 8


@pytest.fixture
def site():
    with JobQueue("memory:") as queue:
        site = Site(queue, known=tokens(), limits=Limits(waiters=PLACES, streams=PLACES))
        yield site
        site.stop()


def bearer(token):
    return {"authorization": f"Bearer {token}", "cookie": f"pywheel_token={token}"} if token else {}


class Streams:
    """Streams that stay open."""

    def __init__(self, site, path):
        limits = httpx.Limits(max_connections=100)
        self.client = httpx.Client(base_url=site.url, timeout=60, limits=limits, verify=False)
        self.path = path
        self.open = contextlib.ExitStack()

    def begin(self, token):
        """Open one more; return its status."""
        with contextlib.ExitStack() as stack:
            answer = stack.enter_context(self.client.stream("GET", self.path, headers=bearer(token)))
            if answer.status_code == 200:
                parts = answer.iter_raw()
                next(parts)
                stack.callback(parts.close)  # kept till then: an iterator that is let go of ends its stream
                self.open.push(stack.pop_all())
            else:
                answer.read()
        return answer

    def close(self):
        self.open.close()
        self.client.close()


@pytest.fixture(params=["/v1/events", "/live?view=overview"])
def streams(site, request):
    with contextlib.closing(Streams(site, request.param)) as streams:
        yield streams


async def slowly(*parts, taken, last):
    """Yield parts of a body, and the last one when it is time for it."""
    for part in parts:
        yield part
    taken.set()
    await last.wait()
    yield b" "


def test_bodies_that_never_end_take_half_of_the_room_for_bodies_and_give_it_back(serving):
    """The first has 300 bytes of 1000: so its token may have 200 more."""
    api = serving(access="tokens", limits=Limits(arriving=1_000))
    one, other = ({"authorization": f"Bearer {api.context.access.tokens.add(['put'])}"} for _ in range(2))

    async def put(headers, *parts, **events):
        body = slowly(b'{"topic": "mail"}', *parts, **events)
        return await api.ask("POST", "/v1/jobs", content=body, headers={**headers, "content-type": "application/json"})

    async def asked():
        taken, last, now = asyncio.Event(), asyncio.Event(), asyncio.Event()
        now.set()
        first = asyncio.create_task(put(one, b" " * 283, taken=taken, last=last))
        await taken.wait()
        found = [await put(each, b" " * 250, taken=now, last=now) for each in (one, other)]
        last.set()
        return [*found, await first, await put(one, b" " * 400, taken=now, last=now)]

    answers = api.run(asked())
    assert [answer.status_code for answer in answers] == [429, 201, 201, 201]
    assert problem(answers[0]) == "share-taken"


def test_one_token_takes_no_more_than_half_of_the_streams_and_whoever_comes_finds_a_place(streams):
    assert [streams.begin("viewer").status_code for _ in range(PLACES // 2)] == [200] * (PLACES // 2)
    refused = streams.begin("viewer")
    assert (refused.status_code, f"{PLACES // 2}" in refused.text) == (429, True)
    assert refused.headers["retry-after"]
    for _ in range(PLACES):  # however many another one wants
        streams.begin("operator")
    assert streams.begin("admin").status_code == 200
    streams.open.close()  # what ends makes room
    until(lambda: streams.begin("viewer").status_code == 200)


def test_one_token_takes_no_more_than_half_of_the_waits(site):
    def announced():
        return {topic for member in site.queue.store.ask(ListWorkers()) for topic in member.topics}

    async def run():
        async with httpx.AsyncClient(base_url=site.url, timeout=60, verify=False) as client:

            def wait(token, seconds, *topics):
                wish = {"topics": ["t", *topics], "wait": seconds}
                return client.post("/v1/reserve", json=wish, headers=bearer(token))

            own = {f"own.{number}" for number in range(PLACES // 2)}
            held = [asyncio.create_task(wait("worker", 30, topic)) for topic in own]
            await asyncio.to_thread(until, lambda: announced() >= own)
            answer = await wait("worker", 0.01)
            assert (answer.status_code, problem(answer)) == (429, "share-taken")
            assert answer.headers["retry-after"]
            assert f"{PLACES // 2}" in answer.json()["detail"]
            assert (await wait("admin", 0.01)).status_code == 204
            at_once = await client.post("/v1/reserve", json={"topics": ["t"]}, headers=bearer("worker"))
            assert at_once.status_code == 204
            for _ in held:
                site.queue.put("t")
            assert {answer.status_code for answer in await asyncio.gather(*held)} == {200}
            assert (await wait("worker", 0.01)).status_code == 204

    asyncio.run(run())


def test_an_open_server_is_one_partys_alone():
    """Everybody on this host may have all places."""
    with JobQueue("memory:") as queue:
        site = Site(queue, limits=Limits(streams=PLACES))
        try:
            with contextlib.closing(Streams(site, "/v1/events")) as streams:
                statuses = [streams.begin("").status_code for _ in range(PLACES + 1)]
                assert statuses == [200] * PLACES + [503]
        finally:
            site.stop()


# ---- readyz ---------------------------------------------------------------------------------------------------------


def counted(store, monkeypatch):
    """Count what a store is asked from now on."""
    calls = itertools.count()

    def counting(method):
        def count(*arguments, **words):
            next(calls)
            return method(*arguments, **words)

        return count

    for name in Store.__abstractmethods__:
        method = getattr(store, name)
        if callable(method):
            monkeypatch.setattr(store, name, counting(method))
    return lambda: next(calls)


@pytest.fixture
def faulty(serving):
    """The service of a store that may be sent away."""
    with open("memory:") as inner, JobQueue(FaultyStore(inner)) as queue:
        yield serving(queue)


@pytest.mark.parametrize(("away", "status"), [(False, 200), (True, 503)])
def test_the_store_is_looked_at_once_a_second_however_many_ask_whether_it_is_ready(faulty, monkeypatch, away, status):
    faulty.queue.store.away = away
    calls, began = counted(faulty.queue.store, monkeypatch), time.monotonic()

    async def many():
        return await asyncio.gather(*(faulty.ask("GET", "/readyz") for _ in range(60)))

    assert {answer.status_code for answer in faulty.run(many())} == {status}
    assert {faulty("GET", "/readyz").status_code for _ in range(60)} == {status}
    assert calls() <= time.monotonic() - began + 2


def test_a_store_that_went_away_and_came_back_is_told_a_second_later(faulty):
    for away, status in ((True, 503), (False, 200)):
        faulty.queue.store.away = away
        until(lambda status=status: faulty("GET", "/readyz").status_code == status)
