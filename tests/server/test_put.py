"""Jobs come in by HTTP: one or many, all or none, once."""

import asyncio
import base64
import json

import pytest

from pywheel import JobQueue
from pywheel.jobs.queries import ListNotes
from pywheel.server import Limits
from tests.server.client import on_its_loop, problem, turns_until

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_what_a_put_says_is_what_the_job_has(api):
    job = api.queue.get(int(api.put(delay="30m", key="k", ttr="2m", max_attempts=3, headers={"a": "b"}, priority=4)))
    assert (job.key, job.ttr, job.max_attempts, job.headers, job.priority) == ("k", 120_000, 3, {"a": "b"}, 4)
    assert job.due - job.created == 1_800_000
    assert api.job(job.id)["priority"] == 4
    other = api.job(api.put(at="2040-01-31T06:00:00+01:00"))
    assert (other["due"], other["body"], "priority" in other) == ("2040-01-31T05:00:00Z", None, False)
    assert problem(api("POST", "/v1/jobs", json={"topic": "mail", "priority": 10})) == "bad-body"


@pytest.mark.parametrize(
    "body", ["1.10", '"\\u00e9"', '"\N{SNOWMAN}"', "[1, 2]", '{"b":1,"a":2}', "null", "-0", "12345678901234567890"]
)
def test_a_json_body_is_kept_as_it_was_sent(api, body):
    content, headers = f'{{"topic": "mail", "body": {body}}}', {"content-type": "application/json"}
    answer = api("POST", "/v1/jobs", content=content.encode(), headers=headers)
    assert api.queue.get(int(answer.json()["id"])).body == body.encode()
    infinite = content.replace(body, "1e400").encode()
    assert problem(api("POST", "/v1/jobs", content=infinite, headers=headers)) == "bad-body"


def test_bytes_go_in_and_out_as_base64(api):
    coded = base64.b64encode(bytes(range(256))).decode()
    id = api.put(body_base64=coded)
    assert api.queue.get(int(id)).body == bytes(range(256))
    assert (api.job(id)["body_base64"], "body" in api.job(id)) == (coded, False)


def test_of_many_all_are_stored_in_their_order_or_none_if_one_cannot_be(api):
    def batch(*jobs):
        return api("POST", "/v1/jobs/batch", json={"jobs": jobs})

    ids = batch(*({"topic": "a", "body": n} for n in range(50))).json()["ids"]
    assert [api.queue.get(int(id)).json() for id in ids] == list(range(50))
    api.put(key="k")
    assert problem(batch({"topic": "mail"}, {"topic": "mail", "key": "k"})) == "job-exists"
    answer = batch({"topic": "a"}, {"topic": "a", "delay": "soon"})
    assert (problem(answer), answer.json()["errors"][0]["pointer"]) == ("bad-body", "#/jobs/1")
    assert len(api.queue.jobs.list()) == 51


def test_a_key_that_is_taken_is_a_conflict_that_names_the_job_unless_the_put_replaces_it(api):
    id = api.put(key="k", body=1, delay="30m")

    def taken(**words):
        answer = api("POST", "/v1/jobs", json={"topic": "mail", "key": "k", **words})
        return (problem(answer), answer.json()["id"]) == ("job-exists", id)

    assert taken()
    assert api.put(key="k", body=2, delay="30m", replace=True) == id
    assert api.queue.get(int(id)).json() == 2
    api("POST", f"/v1/jobs/{id}/cancel")
    assert taken(dedupe_for="10m")  # for as long as the put says
    assert problem(api("POST", "/v1/jobs", json={"topic": "mail", "dedupe_for": "10m"})) == "bad-body"
    assert api.put(key="k") != id


def test_a_body_over_the_limit_of_the_queue_or_a_batch_over_its_own_is_too_large(queue, serving):
    with JobQueue("memory:", max_body=10) as small:
        answer = serving(small)("POST", "/v1/jobs", json={"topic": "mail", "body": "x" * 20})
        assert problem(answer) == "too-large"
    api, jobs = serving(limits=Limits(batch=1_000)), [{"topic": "mail", "body": "x" * 100}] * 10
    answer = api("POST", "/v1/jobs/batch", json={"jobs": jobs})
    assert problem(answer) == "too-large"
    assert "a request may have 1000 bytes: put less at once" in answer.json()["detail"]
    api.put(body="x" * 2_000)
    assert len(queue.jobs.list()) == 1


# ---- traces ---------------------------------------------------------------------------------------------------------


def test_a_trace_context_is_kept_with_the_job_and_sent_back(api):
    answer = api("POST", "/v1/jobs", json={"topic": "mail"}, headers={"traceparent": PARENT, "tracestate": "a=b"})
    job = api.queue.get(int(answer.json()["id"]))
    assert answer.headers["traceparent"] == PARENT
    assert job.headers == {"traceparent": PARENT, "tracestate": "a=b"}
    for malformed in ("", "00-0-0-01", PARENT.upper(), "ff" + PARENT[2:], PARENT + "-x"):
        answer = api("POST", "/v1/jobs", json={"topic": "mail"}, headers={"traceparent": malformed})
        assert "traceparent" not in api.queue.get(int(answer.json()["id"])).headers


@on_its_loop
async def test_a_batch_lets_other_requests_have_their_turn(api):
    async def stored(put):
        return list(range(len(put.jobs)))

    api.queue.aapply = stored  # which takes as many turns as it likes
    batch = api.ask("POST", "/v1/jobs/batch", json={"jobs": [{"topic": "mail"}] * 6_400})
    answer, turns = await turns_until(asyncio.ensure_future(batch))
    assert len(answer.json()["ids"]) == 6_400
    assert turns >= 100


# ---- once -----------------------------------------------------------------------------------------------------------


def once(api, name, **words):
    return api("POST", "/v1/jobs", json={"topic": "mail", **words}, headers={"idempotency-key": name})


def test_a_repeated_put_with_a_key_of_idempotency_stores_nothing_and_answers_the_same(api):
    first, second = once(api, "a", body=1), once(api, "a", body=1)
    assert (second.status_code, second.json()) == (first.status_code, first.json())
    answer = once(api, "a", body=2)
    assert (answer.status_code, problem(answer)) == (422, "key-reused")
    assert [job.json() for job in api.queue.jobs.list()] == [1]
    assert once(api, "b", body=1).json() != first.json()
    [job, _] = api.queue.reserve("mail", 2)
    api.queue.ack(job)
    api.queue.jobs.delete(job)
    assert once(api, "a", body=1).json() == first.json()  # also after the job has ended


def test_a_repeated_batch_answers_with_the_same_ids(api):
    words = {"json": {"jobs": [{"topic": "a"}, {"topic": "b"}]}, "headers": {"idempotency-key": "a"}}
    assert api("POST", "/v1/jobs/batch", **words).json() == api("POST", "/v1/jobs/batch", **words).json()
    assert len(api.queue.jobs.list()) == 2


def test_an_idempotency_key_is_known_for_a_month_and_free_afterwards(api, clock):
    first = once(api, "a", body=1)
    clock.advance(30 * 86_400)
    assert once(api, "a", body=1).json() == first.json()
    assert problem(once(api, "a", body=2)) == "key-reused"


def test_an_idempotency_key_whose_first_put_was_refused_is_free_for_the_one_that_is_stored(api):
    id = api.put(key="k")
    assert problem(once(api, "a", key="k")) == "job-exists"
    first = once(api, "a", body=2)
    assert (first.status_code, problem(once(api, "a", key="k"))) == (201, "key-reused")
    assert once(api, "a", body=2).json() == first.json() != {"id": id}
    assert api.queue.store.ask(ListNotes("idem:")) == []


@on_its_loop
async def test_an_answer_of_an_error_says_that_nothing_was_stored(api):
    api.queue.put("mail", key="k")
    for name in map(str, range(20)):
        wishes = {"topic": "mail", "key": "k"}, {"topic": name}
        asked = [api.ask("POST", "/v1/jobs", json=wish, headers={"idempotency-key": name}) for wish in wishes]
        refused, other = await asyncio.gather(*asked)
        assert refused.status_code in (409, 422)
        assert len(api.queue.jobs.list(name)) == (other.status_code == 201)


@on_its_loop
async def test_fifty_repeats_at_once_store_one_job(api):
    words = {"json": {"topic": "mail"}, "headers": {"idempotency-key": "a"}}
    answers = await asyncio.gather(*(api.ask("POST", "/v1/jobs", **words) for _ in range(50)))
    assert len({json.dumps(answer.json()) for answer in answers}) == 1
    assert len(api.queue.jobs.list()) == 1
