"""Live events: ended jobs, counts, and how a stream goes on where it ended."""

import asyncio
import json
import threading

import pytest

from tests.jobs.waiting import until
from tests.server.client import Exchange, scope


class Listener:
    """A stream of events, read by a thread."""

    def __init__(self, server, last=None, **parameters):
        self.events = []
        self._server = server
        headers = {} if last is None else {"last-event-id": last}
        self._request = server.client.stream("GET", "/v1/events", params=parameters, headers=headers)
        self._stream = self._request.__enter__()
        assert self._stream.headers["content-type"] == "text/event-stream"
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        event = {}
        try:
            for line in self._stream.iter_lines():
                name, _, value = line.partition(": ")
                if name in ("event", "id", "data"):
                    event[name] = value
                elif not line and event:
                    self.events.append((event.get("event"), event.get("id"), json.loads(event["data"])))
                    event = {}
        except Exception:  # closed
            pass

    def of(self, kind):
        return [event for event in list(self.events) if event[0] == kind]

    def close(self):
        self._stream.close()


def done(server, topic):
    """Put a job and do it; return its id."""
    server("POST", "/v1/jobs", json={"topic": topic})
    [job] = server("POST", "/v1/reserve", json={"topics": [topic]}).json()["jobs"]
    server("POST", f"/v1/claims/{job['receipt']}/ack")
    return job["id"]


@pytest.mark.stress
def test_who_listens_hears_of_ends_and_counts_of_the_topic(server):
    listener = Listener(server, topic="heard")
    done(server, "not heard")
    id = done(server, "heard")
    until(lambda: listener.of("ended") and any(counts["done"] for _, _, counts in listener.of("counts")))
    listener.close()
    [(_, _, job)] = listener.of("ended")
    assert (job["id"], job["topic"], job["state"], job["worker"]) == (id, "heard", "done", "http")
    assert {counts["topic"] for _, _, counts in listener.of("counts")} == {"heard"}


@pytest.mark.stress
def test_who_comes_back_hears_what_was_missed_once(server):
    first = Listener(server, topic="again")
    done(server, "again")
    until(lambda: first.of("ended"))
    first.close()
    missed = [done(server, "again") for _ in range(3)]
    second = Listener(server, last=first.of("ended")[0][1], topic="again")
    later = done(server, "again")
    until(lambda: any(job["id"] == later for _, _, job in second.of("ended")))
    second.close()
    assert [job["id"] for _, _, job in second.of("ended")] == [*missed, later]
    stranger = Listener(server, last="yesterday")
    until(lambda: stranger.of("missed"))  # an id that is none
    stranger.close()


@pytest.mark.stress
@pytest.mark.parametrize("path", ["/v1/events", "/live"])
def test_the_head_of_a_stream_ends(server, path):
    assert server("HEAD", path).headers["content-type"] == "text/event-stream"
    assert server("GET", "/healthz").status_code == 200


class Stream(Exchange):
    """The events of a stream without a socket."""

    def __init__(self, api, last=None):
        headers = [] if last is None else [(b"last-event-id", last)]
        super().__init__(api.app, scope("/v1/events", headers=headers))

    async def has(self, word):
        """Return once this was sent; forget what was sent so far."""
        while word not in (told := b"".join(message.get("body", b"") for message in self.sent)):
            await asyncio.sleep(0.001)
        self.sent.clear()
        return told


@pytest.mark.parametrize("comes", ["before", "after, by the last event from before"])
def test_ends_are_told_after_the_clock_was_set_back(api, clock, comes):
    """Not only once it is where it was."""
    api.context.live.every = 0.01

    def ends():
        api.queue.put("mail")
        [job] = api.queue.reserve("mail")
        api.queue.ack(job)

    async def scene():
        stream = Stream(api)
        await stream.has(b"retry: ")
        clock.advance(1)
        ends()
        last = (await stream.has(b"event: ended")).partition(b"id: ")[2].partition(b"\n")[0]
        if comes == "before":
            clock.step(-3_600)
        else:
            await stream.close()
            clock.step(-3_600)
            stream = Stream(api, last)
            await stream.has(b"event: missed")
        clock.advance(1)
        ends()
        told = await stream.has(b"event: ended")
        await stream.close()
        return told

    assert api.run(asyncio.wait_for(scene(), 60)).count(b"event: ended") == 1
