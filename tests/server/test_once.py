"""A request that is repeated with its Idempotency-Key happens once, and is answered as the first time."""

import asyncio
import threading
from functools import partial

from pywheel import OutcomeUnknown, StoreAway
from pywheel.jobs.commands import Put
from pywheel.jobs.queries import ListNotes
from pywheel.server.api import claims
from tests.server.client import on_its_loop, problem

KEY = {"Idempotency-Key": "7f3c"}


def reserve(api, headers=KEY, **words):
    return api("POST", "/v1/reserve", json={"topics": ["b", "a"], "limit": 3, **words}, headers=headers)


def replayed(answer):
    return answer.headers.get("idempotency-replayed") == "true"


# ---- reserve --------------------------------------------------------------------------------------------------------


def test_a_reserve_whose_answer_was_lost_gives_the_same_jobs_by_the_same_receipts(stored):
    for topic in ("a", "a", "b", "a"):
        stored.put(topic, body={"of": topic})
    first, second = reserve(stored), reserve(stored)
    assert [job["topic"] for job in first.json()["jobs"]] == ["b", "a", "a"]
    assert second.json() == first.json()
    assert (replayed(first), replayed(second)) == (False, True)
    [left] = stored.queue.jobs.list(state="delayed")
    assert (left.topic, left.claims) == ("a", 0)
    for job in second.json()["jobs"]:
        assert stored("POST", f"/v1/claims/{job['receipt']}/ack").status_code == 204
        assert [attempt.attempt for attempt in stored.queue.jobs.history(int(job["id"]))] == [1]


def test_jobs_that_were_settled_or_lost_meanwhile_are_left_out(api, clock):
    assert reserve(api).status_code == 204  # and may be repeated for what came since
    for _ in range(3):
        api.put("a")
    acked, given_back, kept = reserve(api).json()["jobs"]
    api.settle(acked, "ack")
    api.settle(given_back, "release")
    api.queue.reserve("a")  # somebody else has it now
    assert [job["receipt"] for job in reserve(api).json()["jobs"]] == [kept["receipt"]]
    clock.advance(61)
    assert reserve(api).status_code == 204


def test_a_key_of_a_reserve_is_forgotten_a_while_after_its_leases(api, clock):
    api.put("a")
    reserve(api, ttr=10)
    for seconds, kept in ((69, 1), (2, 0)):
        clock.advance(seconds)
        assert len(api.queue.store.ask(ListNotes("idem:"))) == kept


@on_its_loop
async def test_of_two_equal_reserves_at_once_one_claims(api, monkeypatch):
    """The other one is told to come again, and then gets what the first has."""
    api.queue.put_many([api.queue.job("a") for _ in range(6)])
    claim, answered = claims.reserve_async, asyncio.Event()
    wish = partial(api.ask, "POST", "/v1/reserve", json={"topics": ["a"], "limit": 3}, headers=KEY)

    async def slow(calls, command):
        await answered.wait()
        return await claim(calls, command)

    monkeypatch.setattr(claims, "reserve_async", slow)
    both = [asyncio.ensure_future(wish()) for _ in range(2)]
    [busy], [winner] = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    answered.set()
    busy, winner, third = await busy, await winner, await wish()
    assert (busy.status_code, problem(busy), busy.headers["retry-after"]) == (409, "key-busy", "1")
    assert third.json() == winner.json()
    assert len(api.queue.jobs.list(state="running")) == 3


# ---- all that changes something -------------------------------------------------------------------------------------


def test_an_ack_that_is_repeated_is_answered_as_the_first_time(stored):
    id = stored.put("a")
    [job] = stored.reserve("a")
    answers = [stored.settle(job, "ack", headers=KEY) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [204, 204]
    assert [replayed(answer) for answer in answers] == [False, True]
    assert problem(stored.settle(job, "ack")) == "claim-lost"
    assert stored.job(id)["state"] == "done"


def test_a_repeated_change_gives_the_answer_of_then(api):
    answers = []
    for _ in range(2):
        api.put("a")
        answers.append(api("POST", "/v1/jobs/cancel", json={"topic": "a"}, headers=KEY))
    assert [answer.json() for answer in answers] == [{"jobs": 1, "dry_run": False}] * 2
    assert answers[1].headers["content-type"] == "application/json"
    assert len(api.queue.jobs.list(state="delayed")) == 1


def test_a_key_belongs_to_one_body_one_job_and_one_operation(api):
    assert problem(api("POST", "/v1/jobs/1/cancel", headers=KEY)) == "no-such-job"  # which leaves the key free
    one, other = api.put("a"), api.put("a")
    assert api("POST", f"/v1/jobs/{one}/reschedule", json={"delay": 5}, headers=KEY).status_code == 204
    for path, wish in (
        (f"/v1/jobs/{one}/reschedule", {"delay": 6}),
        (f"/v1/jobs/{other}/reschedule", {"delay": 5}),
        (f"/v1/jobs/{one}/cancel", None),
        ("/v1/reserve", {"topics": ["a"]}),
    ):
        answer = api("POST", path, json=wish, headers=KEY)
        assert (answer.status_code, problem(answer)) == (422, "key-reused")
    assert api.queue.get(int(other)).state == "delayed"


def test_each_token_has_keys_of_its_own(bearing, queue):
    for id in [queue.put("a"), queue.put("a")]:
        api = bearing("put")
        assert api("POST", f"/v1/jobs/{id}/cancel", headers=KEY).status_code == 204


def test_an_answer_goes_out_though_the_store_went_away_before_it_was_kept(api, monkeypatch):
    id, apply = api.put("a"), api.queue.calls.aapply

    def breaks(command):
        if getattr(command, "absent", True):
            return apply(command)
        raise StoreAway("gone")

    monkeypatch.setattr(api.queue.calls, "aapply", breaks)
    assert api("POST", f"/v1/jobs/{id}/cancel", headers=KEY).status_code == 204


def test_a_schedule_whose_run_had_an_unknown_outcome_is_run_once_though_it_is_repeated(faulty):
    broken = []

    def breaks(when, commands):
        if when == "after" and not broken and any(isinstance(command, Put) for command in commands):
            broken.append(True)
            raise OutcomeUnknown("the connection broke")

    api = faulty()
    api.queue.schedules.set("nightly", "bill", every="1h")
    api.queue.store.fault = breaks
    first, second = [api("POST", "/v1/schedules/nightly/run", headers=KEY) for _ in range(2)]
    assert (first.status_code, second.status_code) == (503, 201)
    assert [str(job.id) for job in api.queue.jobs.list("bill")] == [second.json()["id"]]


def test_a_key_has_a_length(api):
    for path, body in (("/v1/jobs/1/cancel", None), ("/v1/jobs", {"topic": "mail"})):
        for key in ("", "k" * 256):
            assert problem(api("POST", path, json=body, headers={"Idempotency-Key": key})) == "bad-request"


@on_its_loop
async def test_a_key_stays_taken_while_a_change_of_many_goes_on(api, clock, monkeypatch):
    """It may take minutes, and the client asks again before: the change would be made twice."""
    aapply, noted, made, go_on = api.queue.calls.aapply, [], [], threading.Event()

    def applied(command):
        noted.append(command)
        return aapply(command)

    def cancel_many(jobs, *_, **words):
        made.append(words)
        go_on.wait(60)
        return 1

    monkeypatch.setattr("pywheel.server.api.once._RENEWED", 0.001)
    monkeypatch.setattr(api.queue.calls, "aapply", applied)
    monkeypatch.setattr(type(api.queue.jobs), "cancel_many", cancel_many)
    wish = partial(api.ask, "POST", "/v1/jobs/cancel", json={"topic": "a"}, headers=KEY)
    first = asyncio.ensure_future(wish())
    try:
        for renewals in range(2, 8, 2):
            while len(noted) < renewals:
                await asyncio.sleep(0.001)
            clock.advance(60)
        busy = await wish()
    finally:
        go_on.set()
    first, third = await first, await wish()
    assert (problem(busy), len(made)) == ("key-busy", 1)
    assert first.json() == third.json() == {"jobs": 1, "dry_run": False}
    assert replayed(third)
