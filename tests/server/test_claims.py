"""Work by HTTP: reserve, and settle by the receipt."""

import asyncio
import base64
import threading
from datetime import UTC, datetime

import pytest

from pywheel import JobQueue, Keyring, StoreAway
from pywheel.jobs.commands import SetNote
from pywheel.jobs.queries import GetNextDues, GetNote, ListNotes
from pywheel.server import Limits
from pywheel.server.api import claims
from pywheel.server.api.waiting import Waiting, end_lost
from pywheel.server.tokens import id_of
from pywheel.stores.contract import outcome_of
from tests.asked import when_asked
from tests.server.client import Exchange, on_its_loop, problem, scope


def test_a_reserved_job_runs_until_its_lease_ends(api):
    id = api.put(body={"to": 5})
    [job] = api.reserve(ttr="2m")
    assert (job["id"], job["state"], job["body"], job["attempt"]) == (id, "running", {"to": 5}, 1)
    assert api.queue.get(int(id)).lease_until - api.queue.store.clock.wall() == 120_000


@pytest.fixture
def small(any_queue, serving):
    """A service that gives bodies of 10 000 bytes at once, on each kind of store."""
    return serving(any_queue, limits=Limits(reserve=10_000))


def reserved(api, *topics, **words):
    """Return the sizes of the bodies that came, and whether there is more."""
    answer = api("POST", "/v1/reserve", json={"topics": topics or ["mail"], "limit": 100, **words})
    return [len(job["body"]) for job in answer.json()["jobs"]], answer.json().get("more", False)


def test_a_reserve_gives_no_more_bytes_than_it_may_and_says_that_there_is_more(small):
    queue = small.queue
    for number in range(25):
        queue.put("mail", b'"%s"' % (b"x" * 998), at=datetime.fromtimestamp(1_000_000 + number, UTC))
    assert reserved(small) == ([998] * 10, True)
    rest = [job for job in queue.jobs.list("mail") if job.state == "delayed"]
    assert [(job.attempt, job.claims) for job in rest] == [(0, 0)] * 15
    assert reserved(small, wait="1s") == ([998] * 10, True)
    assert reserved(small) == ([998] * 5, False)
    assert small("POST", "/v1/reserve", json={"topics": ["mail"]}).status_code == 204


@pytest.mark.parametrize(
    ("put", "asked", "answers"),
    [
        ([("a", 98), ("a", 20_000), ("a", 198)], ["a", "a", "a"], [([98], True), ([20_000], True), ([198], False)]),
        (
            [("a", 5_998), ("b", 5_998), ("c", 2_998), ("d", 20_000)],
            ["abcd", "bd", "bd"],
            [([5_998, 2_998], True), ([5_998], True), ([20_000], False)],
        ),
    ],
    ids=["a job that is longer than an answer comes alone", "topics share the bytes"],
)
def test_the_bytes_of_an_answer_are_shared_and_what_is_longer_comes_alone(small, put, asked, answers):
    for number, (topic, size) in enumerate(put):
        small.queue.put(topic, b'"%s"' % (b"x" * size), at=datetime.fromtimestamp(1_000_000 + number, UTC))
    assert [reserved(small, *topics) for topics in asked] == answers
    assert {job.attempt for job in small.queue.jobs.list()} == {1}  # those that were left out have spent none


def test_of_encrypted_bodies_those_that_are_left_out_are_told_of(any_url, serving):
    with JobQueue(any_url, encryption=Keyring({"a": bytes(range(32))}), max_body=1_000) as queue:
        for _ in range(15):
            queue.put("mail", b'"%s"' % (b"x" * 998))
        sizes, more = reserved(serving(queue, limits=Limits(reserve=10_000)))
    assert 0 < len(sizes) < 10
    assert more


@pytest.mark.parametrize(
    ("how", "words", "answer", "state", "error"),
    [
        ("ack", {}, None, "done", None),
        ("bury", {"error": "gone"}, None, "dead", "gone"),  # whatever attempts are left
        ("nack", {"delay": None}, {"state": "dead"}, "dead", None),
        ("nack", {"delay": "1m", "error": "502"}, {"state": "delayed"}, "delayed", "502"),
    ],
)
def test_a_job_is_done_dead_or_due_again_as_its_worker_says(api, clock, how, words, answer, state, error):
    id = api.put()
    [job] = api.reserve()
    said = api.settle(job, how, **({"json": words} if words else {}))
    assert (said.status_code, said.json() if said.content else None) == (204 if answer is None else 200, answer)
    assert (api.job(id)["state"], api.job(id).get("last_error")) == (state, error)
    assert api.reserve() == []
    clock.advance(60)
    assert [job["id"] for job in api.reserve()] == [id] * (state == "delayed")


def test_a_nack_without_a_delay_follows_the_default_retry_policy_or_the_handler_of_the_topic(api, clock):
    def due_after_a_nack(topic):
        [job] = api.reserve(topic)
        assert api.settle(job, "nack", json={"error": "502"}).json() == {"state": "delayed"}
        return (api.queue.get(int(job["id"])).due - api.queue.store.clock.wall()) / 1000

    api.put()
    for seconds in (5, 30):  # the first rungs of the ladder, less the jitter
        assert 0.5 * seconds < due_after_a_nack("mail") < 1.5 * seconds
        clock.advance(2 * seconds)
    assert api.reserve()[0]["last_error"] == "502"
    api.queue.handler("own", retry=lambda job, error: "1h" if (job.attempt, str(error)) == (1, "502") else None)(print)
    api.put("own")
    assert due_after_a_nack("own") == 3_600


def test_a_touched_job_has_a_longer_lease_and_a_released_one_is_due_at_once_unspent(api, clock):
    api.put()
    [job] = api.reserve(ttr=10)
    clock.advance(9)
    assert api.settle(job, "touch", json={"ttr": 10}).status_code == 204
    clock.advance(9)
    assert api.settle(job, "release").status_code == 204
    assert api.reserve()[0]["attempt"] == 1


@pytest.mark.parametrize("wish", [{}, {"json": {}}, {"json": {"ttr": None}}])
def test_a_touch_without_a_ttr_gives_the_jobs_own_lease(api, clock, wish):
    api.put(ttr="1h")
    [job] = api.reserve()
    clock.advance(600)
    assert api.settle(job, "touch", **wish).status_code == 204
    assert api.queue.get(int(job["id"])).lease_until == clock.wall() + 3_600_000


@pytest.mark.parametrize("how", ["ack", "nack", "bury", "touch", "release"])
def test_a_claim_that_is_over_cannot_be_settled(api, clock, how):
    api.put()
    [job] = api.reserve(ttr=10)
    clock.advance(11)
    answer = api.settle(job, how)
    assert (answer.status_code, problem(answer)) == (409, "claim-lost")


def test_a_receipt_cannot_be_made_up(api):
    """Who knows a job's id and how often it was claimed has no claim to it."""
    id = api.put()
    api.reserve()
    coded = [base64.urlsafe_b64encode(f"{id}.1{end}".encode()).decode() for end in ("", ".", "." + "0" * 15)]
    made_up = [text.rstrip("=") for text in coded]
    for text in (*made_up, "x", "====", "%00", "bm9uZQ", "LTEuLTE", "M" * 300):
        assert problem(api("POST", f"/v1/claims/{text}/ack")) == "not-found"
    assert api.job(id)["state"] == "running"


def test_a_receipt_is_good_at_every_server_of_the_store(api, serving):
    id = api.put()
    [job] = api.reserve()
    assert serving().settle(job, "ack").status_code == 204
    assert api.job(id)["state"] == "done"


def test_servers_of_a_store_that_lost_the_key_of_receipts_agree_on_one_again(api, serving, monkeypatch):
    """Else each refuses the receipts of the others until it is started again."""
    monkeypatch.setattr("pywheel.server.context._AGREED", 0.0)

    def lose():
        outcome_of(api.queue.store, SetNote("http:receipts", None))

    def reserved(server):
        api.put()
        [job] = server.reserve()
        return job

    reserved(api)
    lose()
    other = serving()
    for one, another in ((other, api), (api, other)):
        assert another.settle(reserved(one), "ack").status_code == 204
    before = reserved(api)
    lose()
    reserved(api)  # the key that it knows is kept again
    assert serving().settle(before, "ack").status_code == 204


def test_a_server_that_knows_the_key_of_receipts_needs_no_store_for_it(api, monkeypatch):
    def away(_):
        raise StoreAway("gone")

    monkeypatch.setattr("pywheel.server.context._AGREED", 0.0)
    api.put()
    api.put()
    [first] = api.reserve()
    when_asked(monkeypatch, api.queue.store, GetNote, away)
    [second] = api.reserve()
    assert {api.settle(job, "ack").status_code for job in (first, second)} == {204}


def test_a_job_is_dead_after_the_attempts_that_reserve_names(api, clock):
    id = api.put()
    for _ in range(2):
        [job] = api.reserve(max_attempts=2)
        api.settle(job, "nack", json={"delay": 0})
    assert api.job(id)["state"] == "dead"


# ---- waiting --------------------------------------------------------------------------------------------------------


def test_a_reserve_is_told_that_nothing_came_at_once_or_after_its_wait(api):
    api.put(delay="1h")
    for wait in (0, 0.05):
        answer = api("POST", "/v1/reserve", json={"topics": ["mail"], "wait": wait})
        assert (answer.status_code, answer.content) == (204, b"")


@on_its_loop
async def test_waiting_ends_when_the_server_drains(api):
    waits = api.waits()
    await api.waiting()
    api.context.stopping.set()
    assert (await waits).status_code == 204


@on_its_loop
async def test_each_of_many_who_wait_gets_one_job(api):
    waits = [api.waits() for _ in range(30)]
    await api.waiting(30)
    await api.ask("POST", "/v1/jobs/batch", json={"jobs": [{"topic": "mail"}] * 30})
    answers = await asyncio.gather(*waits)
    assert len({job["id"] for answer in answers for job in answer.json()["jobs"]}) == 30


def test_more_than_the_server_lets_wait_are_refused(serving):
    answer = serving(limits=Limits(waiters=0))("POST", "/v1/reserve", json={"topics": ["mail"], "wait": 1})
    assert (problem(answer), answer.headers["retry-after"]) == ("too-busy", "1")


def leaving(api, wait):
    """Return a reserve by ASGI's messages, of a client that may go away."""
    content = b'{"topics": ["mail"], "wait": %d}' % wait
    return Exchange(api.app, scope("/v1/reserve", "POST", headers=[(b"content-type", b"application/json")]), content)


def leave_when_claimed(client, monkeypatch):
    real = claims.reserve_async

    async def claim(calls, command):
        outcome = await real(calls, command)
        if outcome:
            client.gone.set()
        return outcome

    monkeypatch.setattr(claims, "reserve_async", claim)


@pytest.mark.parametrize("moment", ["waits", "waited and is given a job", "is given a job at once"])
@on_its_loop
async def test_a_client_that_is_gone_when_a_job_is_claimed_for_it_holds_nothing(api, moment, monkeypatch):
    """Nor one that goes away while it waits."""
    at_once, claimed = moment == "is given a job at once", int(moment != "waits")
    if at_once:
        api.queue.put("mail")
    client = leaving(api, wait=0 if at_once else 30)
    if claimed:
        leave_when_claimed(client, monkeypatch)
    if not at_once:
        await api.waiting()
    if not claimed:
        client.gone.set()
        await client.request
    if not at_once:
        api.queue.put("mail")
    await client.request
    assert client.sent == []
    [job] = api.queue.jobs.list()
    assert (job.state, job.claims, job.attempt) == ("delayed", claimed, 0)
    assert api.context.waiting is None or api.context.waiting.count == 0


@on_its_loop
async def test_jobs_of_two_topics_go_to_two_who_wait_for_both(api):
    """Not both to one, beside whom the other would wait on."""
    both = [api.waits("a", "b") for _ in range(2)]
    await api.waiting(2)
    waiting = api.context.waiting
    for name in ("a", "b"):
        waiting._ring(name, 1)
    waiters = {waiter for topic in waiting._topics.values() for waiter in topic.waiters}
    assert [waiter.is_set() for waiter in waiters] == [True] * 2
    await api.ask("POST", "/v1/jobs/batch", json={"jobs": [{"topic": "a"}, {"topic": "b"}]})
    answers = await asyncio.gather(*both)
    assert sorted(job["topic"] for answer in answers for job in answer.json()["jobs"]) == ["a", "b"]


@on_its_loop
async def test_whoever_waits_for_thousands_of_topics_holds_up_no_others(api, monkeypatch):
    """Their due times are read some at a time: who waits for one topic is woken in between."""
    asked = []
    await api.ask("POST", "/v1/reserve", json={"topics": ["mail"], "wait": 0.001})  # makes the waiting
    when_asked(monkeypatch, api.queue.store, GetNextDues, lambda query: asked.append(len(query.topics)))
    waiting = api.context.waiting
    names = [f"t{number}" for number in range(1_700)]
    waiters = [waiting.enter((name,)) for name in names]
    put = [{"topic": name} for name in names[::100]]
    assert (await api.ask("POST", "/v1/jobs/batch", json={"jobs": put})).status_code == 201
    await asyncio.gather(*(waiter.wait() for waiter in waiters[::100]))
    for waiter in waiters:
        waiting.leave(waiter)
    assert 1 < max(asked) <= 500


@on_its_loop
async def test_of_a_death_that_the_service_finds_word_is_left_to_a_worker(api, clock):
    id = api.queue.put("x", max_attempts=1)
    waits = api.waits()
    await api.waiting()
    api.queue.reserve("x")
    clock.advance(120)
    while not (words := api.queue.store.ask(ListNotes("dead:"))):
        await asyncio.sleep(0.001)
    api.queue.put("mail")
    await waits
    assert words == [(f"dead:{id}:1", b"x")]


def test_jobs_claimed_before_the_store_went_away_are_given(api, monkeypatch):
    """They are claimed: to refuse the request would hold them until their leases end."""
    for topic in "ab":
        api.put(topic)
    claim = claims.reserve_async

    async def breaks(calls, command):
        if command.topic == "b":
            raise StoreAway("gone")
        return await claim(calls, command)

    monkeypatch.setattr(claims, "reserve_async", breaks)
    assert [job["topic"] for job in api.reserve("a", "b", limit=2)] == ["a"]


def test_jobs_whose_answer_fails_are_given_back(api, monkeypatch):
    async def away():
        raise StoreAway("gone")

    api.put()
    monkeypatch.setattr(api.context, "receipt_key", away)
    assert problem(api("POST", "/v1/reserve", json={"topics": ["mail"]})) == "store-away"
    [job] = api.queue.jobs.list()
    assert (job.state, job.attempt) == ("delayed", 0)


def test_a_token_that_is_removed_while_its_reserve_waits_gets_nothing(bearing, queue):
    api = bearing("work")
    tokens = api.context.access.tokens

    async def scene():
        waits = api.waits()
        await api.waiting()
        await asyncio.sleep(0.01)
        await queue.aio.put("other")  # what the request has asked for before it waits is over then
        tokens.remove(id_of(api.headers["authorization"].split()[1]))
        api.context.access._known.clear()  # as a few seconds would
        await queue.aio.put("mail")
        return await waits

    assert problem(api.run(scene())) == "token-unknown"
    [job] = queue.jobs.list("mail")
    assert (job.state, job.attempt) == ("delayed", 0)


def test_a_caller_for_whom_no_thread_can_be_started_does_not_wait_on(monkeypatch):
    """Otherwise this server would own jobs of the topic for ever, and claim none."""

    def refused(thread):
        raise RuntimeError("can't start new thread")

    async def program(store):
        waiting = Waiting(store)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refused)
            with pytest.raises(RuntimeError):
                waiting.enter(["mail"])
        waiter = waiting.enter(["mail"])
        assert list(waiting._topics["mail"].waiters) == [waiter]
        waiting.leave(waiter)
        waiting.close()

    with JobQueue("memory:") as queue:
        asyncio.run(program(queue.store))


def test_a_claim_that_gave_nothing_wakes_nobody_however_long_bodies_may_be(serving, monkeypatch):
    """Each would wake the next one, and all would ask the store without a pause."""
    said = []
    monkeypatch.setattr(Waiting, "claimed", lambda waiting, name, jobs, *, more: said.append((name, jobs, more)))
    with JobQueue("memory:", max_body=9 << 20) as queue:
        assert serving(queue).reserve(wait=0.001, limit=2) == []
    assert said == [("mail", 0, False)]


def test_of_many_lost_leases_all_are_ended_one_look_after_the_other(queue, clock):
    """Otherwise the last ones of thousands would be due again only after some minutes."""
    queue.put_many([queue.job("x") for _ in range(900)])
    queue.reserve("x", 900)
    clock.advance(1)
    queue.put("mail")
    queue.reserve("mail")
    clock.advance(120)
    looks = 1
    while (lease := end_lost(queue.store)) is not None and lease <= queue.store.clock.wall():
        looks += 1
    assert looks <= 5
    assert queue.store.ask(GetNextDues()).keys() == {"x", "mail"}


@on_its_loop
async def test_an_unexpected_error_of_the_common_thread_lets_nobody_wait_in_vain(api, monkeypatch):
    """Such as no memory: callers got nothing until the ends of their waits, whatever was put meanwhile."""
    errors, firsts = [MemoryError()], Waiting._firsts

    def fails(waiting, me, topics):
        if topics and errors:
            raise errors.pop()
        return firsts(waiting, me, topics)

    monkeypatch.setattr("pywheel.server.api.waiting._AGAIN", 0.0)
    monkeypatch.setattr(Waiting, "_firsts", fails)
    waits = api.waits()
    await api.waiting()
    while errors:
        await asyncio.sleep(0.001)
    await api.ask("POST", "/v1/jobs", json={"topic": "mail"})
    assert (await waits).status_code == 200


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@on_its_loop
async def test_another_thread_begins_after_the_common_one_was_ended_by_an_error(api, monkeypatch):
    def fails(*_, **words):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Waiting, "_turn", fails)
        patch.setattr(Waiting, "_fail", fails)
        first = api.waits()
        await api.waiting()
        while api.context.waiting._thread.is_alive():
            await asyncio.sleep(0.001)
    second = api.waits()
    await api.waiting(2)
    await api.ask("POST", "/v1/jobs/batch", json={"jobs": [{"topic": "mail"}, {"topic": "mail"}]})
    assert [answer.status_code for answer in await asyncio.gather(first, second)] == [200, 200]
