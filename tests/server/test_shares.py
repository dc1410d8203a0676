"""The share of one token, which leaves room for others; and the cost of a probe for the store."""

import asyncio
import time

import pytest

from pywheel.server import Limits
from pywheel.testing import FaultyStore
from tests.jobs.waiting import until
from tests.server.client import bearer, begun, on_its_loop, problem
from tests.server.page.site import tokens

PLACES = 8


@pytest.fixture
def api(serving):
    """A service with tokens, whose secrets are names, and few places."""
    api = serving(access="tokens", limits=Limits(waiters=PLACES, streams=PLACES))
    api.context.access.tokens = tokens()
    return api


def status_of(stream):
    return stream.sent[0]["status"]


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


def test_a_body_takes_its_room_until_its_request_is_done(serving, monkeypatch):
    """Else a store that hangs would have the bodies that wait for it fill the memory."""
    api, begun, goes_on = serving(limits=Limits(arriving=1_000)), asyncio.Event(), asyncio.Event()
    apply = api.queue.calls.aapply

    async def hangs(command):
        begun.set()
        await goes_on.wait()
        return await apply(command)

    monkeypatch.setattr(api.queue.calls, "aapply", hangs)

    def put():
        return api.ask("POST", "/v1/jobs", json={"topic": "mail", "body": "x" * 600})

    async def asked():
        first = asyncio.create_task(put())
        await begun.wait()
        refused = await asyncio.wait_for(put(), 20)
        goes_on.set()
        return refused, await first, await put()

    refused, *others = api.run(asked())
    assert (problem(refused), [answer.status_code for answer in others]) == ("too-busy", [201, 201])
    assert api.context.bodies._all == 0


@pytest.mark.parametrize("path", ["/v1/events", "/live"])
@on_its_loop
async def test_one_token_takes_no_more_than_half_of_the_streams_and_whoever_comes_finds_a_place(api, path):
    streams = [await begun(api, path, "viewer") for _ in range(PLACES // 2)]
    refused = await begun(api, path, "viewer")
    streams += [await begun(api, path, "operator") for _ in range(PLACES)]  # however many another one wants
    streams.append(await begun(api, path, "admin"))
    for stream in streams:
        await stream.close()
    streams.append(await begun(api, path, "viewer"))  # what ends makes room
    assert (status_of(refused), b"retry-after" in dict(refused.sent[0]["headers"])) == (429, True)
    assert f"{PLACES // 2}".encode() in refused.sent[1]["body"]
    assert [status_of(stream) for stream in streams] == [200] * 4 + [200] * 2 + [429] * 6 + [200] * 2


@pytest.mark.parametrize("path", ["/v1/events", "/live"])
def test_an_open_server_is_one_partys_alone(serving, path):
    """Everybody on this host may have all places."""
    api = serving(limits=Limits(streams=PLACES))

    async def scene():
        streams = [await begun(api, path) for _ in range(PLACES + 1)]
        for stream in streams:
            await stream.close()
        return streams

    *streams, refused = api.run(asyncio.wait_for(scene(), 60))
    assert [status_of(stream) for stream in streams] == [200] * PLACES
    assert (status_of(refused), b"are open here already" in refused.sent[1]["body"]) == (503, True)


@on_its_loop
async def test_one_token_takes_no_more_than_half_of_the_waits(api):
    def reserve(token, wait):
        return api.ask("POST", "/v1/reserve", json={"topics": ["mail"], "wait": wait}, headers=bearer(token))

    api.headers = bearer("worker")
    held = [api.waits() for _ in range(PLACES // 2)]
    await api.waiting(PLACES // 2)
    refused = await reserve("worker", 0.01)
    assert (refused.status_code, problem(refused), "retry-after" in refused.headers) == (429, "share-taken", True)
    assert f"{PLACES // 2}" in refused.json()["detail"]
    assert [(await reserve(*wish)).status_code for wish in (("admin", 0.01), ("worker", 0))] == [204] * 2
    for _ in held:
        api.queue.put("mail")
    assert {answer.status_code for answer in await asyncio.gather(*held)} == {200}
    assert (await reserve("worker", 0.01)).status_code == 204


# ---- readyz ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("away", "status"), [(False, 200), (True, 503)])
def test_the_store_is_looked_at_once_a_second_however_many_ask_whether_it_is_ready(faulty, monkeypatch, away, status):
    api = faulty()
    api.queue.store.away = away
    calls, began, there = [], time.monotonic(), FaultyStore._there  # by which every question goes
    monkeypatch.setattr(FaultyStore, "_there", lambda store: calls.append(store) or there(store))

    async def many():
        return await asyncio.gather(*(api.ask("GET", "/readyz") for _ in range(60)))

    assert {answer.status_code for answer in api.run(many())} == {status}
    assert {api("GET", "/readyz").status_code for _ in range(60)} == {status}
    assert 1 <= len(calls) <= time.monotonic() - began + 2


def test_a_store_that_went_away_and_came_back_is_told_a_second_later(faulty):
    api = faulty()
    for away, status in ((True, 503), (False, 200)):
        api.queue.store.away = away
        until(lambda status=status: api("GET", "/readyz").status_code == status)
