"""Live events: ended jobs, counts, and how a stream goes on where it ended."""

import asyncio
import json
import re

import pytest

from tests.server.client import Exchange, on_its_loop, scope


class Stream(Exchange):
    """The events of a stream without a socket; snapshots follow each other fast."""

    def __init__(self, api, last=None, query=b""):
        api.context.live.every = 0.01
        headers = [] if last is None else [(b"last-event-id", last)]
        super().__init__(api.app, scope("/v1/events", query=query, headers=headers))

    async def has(self, *words):
        """Return once these were sent; forget what was sent so far."""
        while not all(word in (told := b"".join(one.get("body", b"") for one in self.sent)) for word in words):
            await asyncio.sleep(0.001)
        self.sent.clear()
        return told


def events(told, kind):
    """Return the ids and the contents of the events of a kind."""
    found = re.findall(rb"event: %s\n(?:id: (\S+)\n)?data: (.*)\n" % kind, told)
    return [(id, json.loads(data)) for id, data in found]


async def done(api, topic):
    """Put a job and do it; return its id."""
    await api.ask("POST", "/v1/jobs", json={"topic": topic})
    [job] = (await api.ask("POST", "/v1/reserve", json={"topics": [topic]})).json()["jobs"]
    await api.ask("POST", f"/v1/claims/{job['receipt']}/ack")
    return job["id"]


@on_its_loop
async def test_who_listens_hears_of_ends_and_counts_of_the_topic(api, clock):
    stream = Stream(api, query=b"topic=heard")
    await stream.has(b"retry: ")
    clock.advance(1)
    _, id = [await done(api, topic) for topic in ("not heard", "heard")]
    told = await stream.has(b"event: ended", b'"done":1')
    await stream.close()
    [(_, job)] = events(told, b"ended")
    assert (job["id"], job["topic"], job["state"], job["worker"]) == (id, "heard", "done", "http")
    assert {counts["topic"] for _, counts in events(told, b"counts")} == {"heard"}


@on_its_loop
async def test_who_comes_back_hears_what_was_missed_once(api, clock):
    first = Stream(api, query=b"topic=again")
    await first.has(b"retry: ")
    clock.advance(1)
    await done(api, "again")
    [(last, _)] = events(await first.has(b"event: ended"), b"ended")
    await first.close()
    clock.advance(1)
    missed = [await done(api, "again") for _ in range(3)]
    second = Stream(api, last, query=b"topic=again")
    missed.append(await done(api, "again"))
    told = await second.has(b'"id":"%s"' % missed[-1].encode(), b'"done":5')
    stranger = Stream(api, b"yesterday")  # an id that is none
    await stranger.has(b"event: missed")
    for stream in (second, stranger):
        await stream.close()
    assert [job["id"] for _, job in events(told, b"ended")] == missed


@pytest.mark.stress
@pytest.mark.parametrize("path", ["/v1/events", "/live"])
def test_the_head_of_a_stream_ends(server, path):
    assert server("HEAD", path).headers["content-type"] == "text/event-stream"
    assert server("GET", "/healthz").status_code == 200


@pytest.mark.parametrize("comes", ["before", "after, by the last event from before"])
@on_its_loop
async def test_ends_are_told_after_the_clock_was_set_back(api, clock, comes):
    """Not only once it is where it was."""
    stream = Stream(api)
    await stream.has(b"retry: ")
    clock.advance(1)
    await done(api, "mail")
    [(last, _)] = events(await stream.has(b"event: ended"), b"ended")
    if comes == "before":
        clock.step(-3_600)
    else:
        await stream.close()
        clock.step(-3_600)
        stream = Stream(api, last)
        await stream.has(b"event: missed")
    clock.advance(1)
    await done(api, "mail")
    told = await stream.has(b"event: ended")
    await stream.close()
    assert len(events(told, b"ended")) == 1


@on_its_loop
async def test_who_comes_back_after_a_small_step_back_of_the_clock_is_told_that_events_are_missed(api, clock):
    """What ended meanwhile has times before the last event, as what was told already has."""
    first = Stream(api)
    await first.has(b"retry: ")
    clock.advance(1)
    await done(api, "mail")
    [(last, _)] = events(await first.has(b"event: ended"), b"ended")
    await first.close()
    clock.step(-4)
    await done(api, "mail")
    second = Stream(api, last)
    await second.has(b"event: missed")
    clock.step(1)
    id = await done(api, "mail")
    await second.has(b"event: ended", b'"id":"%s"' % id.encode())
    await second.close()


@on_its_loop
async def test_who_comes_back_is_told_the_ends_since_though_the_clock_is_behind_them(api, clock):
    """That of this process may be behind the one of the database by which jobs end."""
    stream = Stream(api)
    await stream.has(b"retry: ")
    clock.advance(1)
    await done(api, "mail")
    [(last, _)] = events(await stream.has(b"event: ended"), b"ended")
    clock.advance(1)
    id = await done(api, "mail")
    await stream.has(b'"id":"%s"' % id.encode())  # so no later snapshot has it
    clock.step(-3)
    back = Stream(api, last)
    told = await back.has(b"event: missed")
    for one in (stream, back):
        await one.close()
    assert [job["id"] for _, job in events(told, b"ended")] == [id]


@on_its_loop
async def test_who_comes_back_at_once_has_missed_nothing(api):
    first = Stream(api)
    await first.has(b"retry: ")
    await done(api, "mail")
    [(last, _)] = events(await first.has(b"event: ended"), b"ended")
    await first.close()
    second = Stream(api, last)
    told = await second.has(b"retry: ")
    await done(api, "mail")
    told += await second.has(b"event: ended")
    await second.close()
    assert b"missed" not in told


@on_its_loop
async def test_who_comes_back_is_not_told_what_ended_before_the_clock_was_set_back(api, clock, monkeypatch):
    """That has times to come, and would hide what ended now."""
    monkeypatch.setattr("pywheel.server.api.events._MOST", 3)
    stream = Stream(api)
    await stream.has(b"retry: ")
    for _ in range(3):
        clock.advance(1)
        await stream.has(b'"id":"%s"' % (await done(api, "mail")).encode())
    clock.step(-3_600)
    clock.advance(1)
    [(last, _)] = events(await stream.has(b'"id":"%s"' % (await done(api, "mail")).encode()), b"ended")
    await stream.close()
    clock.advance(1)
    id = await done(api, "mail")
    stream = Stream(api, last)
    told = await stream.has(b'"id":"%s"' % id.encode())
    await stream.close()
    assert ([job["id"] for _, job in events(told, b"ended")], b"missed" in told) == ([id], False)
