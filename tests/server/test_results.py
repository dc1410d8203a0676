"""The result of a job, by HTTP: now, or once it has ended."""

import asyncio

from pywheel.server import Limits
from pywheel.server.tokens import Tokens
from pywheel.testing import run_due
from tests.server.client import problem


def result(api, id, **parameters):
    return api("GET", f"/v1/jobs/{id}/result", params=parameters)


def test_a_job_that_is_done_has_the_result_of_its_handler(api, queue):
    queue.handler("mail", results=True)(lambda job: {"sent": 5})
    id = api.put(key="k")
    run_due(queue)
    answer = result(api, id)
    assert (answer.status_code, answer.json()) == (200, {"id": id, "state": "done", "result": {"sent": 5}})
    by_key = api("GET", "/v1/jobs/by-key/result", params={"topic": "mail", "key": "k"})
    assert (by_key.status_code, by_key.json()) == (200, answer.json())


def test_a_job_that_is_dead_has_its_last_error(api):
    id = api.put()
    [job] = api.reserve()
    api.settle(job, "bury", json={"error": "gone"})
    assert result(api, id).json() == {"id": id, "state": "dead", "error": "gone"}


def test_a_job_that_is_not_known_is_not_found_nor_is_one_of_other_topics(api, bearing, queue):
    assert problem(result(api, 7, wait=20)) == problem(result(api, 7)) == "no-such-job"
    assert problem(result(bearing("read", topics=["other"]), queue.put("mail"), wait=20)) == "no-such-job"


def test_who_waits_takes_a_place(serving):
    api = serving(limits=Limits(waiters=0))
    assert problem(result(api, api.put(delay="1h"), wait=1)) == "too-busy"


def test_a_job_that_has_not_ended_in_time_is_accepted(api):
    id = api.put(delay="1h")
    for wait in (0, 0.05):
        answer = result(api, id, wait=wait)
        assert (answer.status_code, answer.json()) == (202, {"id": id, "state": "delayed"})


async def while_somebody_waits(api, id, act):
    """Return the answer to a request that waits while something is done."""
    waits = asyncio.ensure_future(api.ask("GET", f"/v1/jobs/{id}/result", params={"wait": 30}))
    while not len(api.queue.calls.waits):
        await asyncio.sleep(0.01)
    assert not waits.done()
    act()
    return await asyncio.wait_for(waits, 60)


def test_whoever_waits_is_told_when_the_job_ends(stored):
    id = stored.put()
    [job] = stored.queue.reserve("mail")
    answer = stored.run(while_somebody_waits(stored, id, lambda: stored.queue.ack(job)))
    assert (answer.status_code, answer.json()) == (200, {"id": id, "state": "done"})
    assert len(stored.queue.calls.waits) == 0


def test_a_job_that_is_deleted_while_somebody_waits_is_not_found(api):
    id = api.put(delay="1h")
    assert problem(api.run(while_somebody_waits(api, id, lambda: api.queue.jobs.delete(int(id))))) == "no-such-job"


def test_waiting_ends_when_the_server_drains(api):
    id = api.put(delay="1h")
    assert api.run(while_somebody_waits(api, id, api.context.stopping.set)).status_code == 202
    assert len(api.queue.calls.waits) == 0


def test_whoever_waits_is_told_nothing_once_the_token_is_removed(bearing, queue):
    api, id = bearing("read"), queue.put("mail")
    [job] = queue.reserve("mail")

    def act():
        Tokens(queue.store).remove(api.headers["authorization"].split("_")[1])
        api.context.access._known.clear()  # as a second later
        queue.ack(job)

    assert problem(api.run(while_somebody_waits(api, id, act))) == "token-unknown"
