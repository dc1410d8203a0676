"""Access control: tokens by action and topic, and an open server for this host alone."""

import asyncio

import pytest

from pywheel.jobs.queries import GetNote
from pywheel.server.access import Access, Failures
from pywheel.server.problems import Problem
from pywheel.server.tokens import Tokens
from tests.asked import when_asked
from tests.server.client import begun, problem

# scope: what it lets one do, as (method, path, body)
ACTIONS = {
    "read": [
        ("GET", "/v1/jobs", None), ("GET", "/v1/jobs/1", None), ("GET", "/v1/jobs/1/history", None),
        ("GET", "/v1/jobs/1/result", None), ("GET", "/v1/jobs/by-key?topic=mail&key=k", None),
        ("GET", "/v1/counts", None), ("GET", "/v1/topics", None), ("GET", "/v1/topics/mail/limits", None),
        ("GET", "/v1/schedules", None), ("GET", "/v1/schedules/s", None),
    ],
    "put": [
        ("POST", "/v1/schedules/s/run", None), ("PUT", "/v1/schedules/s", {"topic": "mail", "every": "1h"}),
        ("DELETE", "/v1/schedules/s", None), ("POST", "/v1/schedules/s/pause", None),
        ("POST", "/v1/schedules/s/resume", None), ("POST", "/v1/jobs", {"topic": "mail"}),
        ("POST", "/v1/jobs/batch", {"jobs": [{"topic": "mail"}]}), ("POST", "/v1/jobs/1/reschedule", {"delay": 1}),
        ("PATCH", "/v1/jobs/1", {"delay": 1}), ("POST", "/v1/jobs/1/cancel", None),
        ("POST", "/v1/jobs/1/retry", None),
    ],
    "work": [
        ("POST", "/v1/reserve", {"topics": ["mail"]}), ("POST", "/v1/claims/MS4x/ack", None),
        ("POST", "/v1/claims/MS4x/nack", None), ("POST", "/v1/claims/MS4x/bury", None),
        ("POST", "/v1/claims/MS4x/touch", None), ("POST", "/v1/claims/MS4x/release", None),
    ],
    "admin": [
        ("POST", "/v1/jobs/cancel", {"topic": "mail"}), ("POST", "/v1/jobs/retry", {"topic": "mail"}),
        ("POST", "/v1/jobs/delete", {"topic": "mail"}), ("POST", "/v1/topics/mail/pause", None),
        ("POST", "/v1/topics/mail/resume", None), ("PUT", "/v1/topics/mail/limits", {"limit": 1, "rate": None}),
        ("DELETE", "/v1/topics/mail/limits", None), ("DELETE", "/v1/jobs/1", None),
    ],
}  # fmt: skip
ALL = [(scope, *action) for scope, actions in ACTIONS.items() for action in actions]


def asked(api, method, path, body):
    return api(method, path, **({} if body is None else {"json": body}))


@pytest.mark.parametrize("given", ACTIONS)
def test_a_token_may_do_what_its_scope_says(bearing, given):
    api = bearing(given)
    api.queue.put("mail", key="k")
    for needed, method, path, body in ALL:
        before = api.queue.topics.counts()
        answer = asked(api, method, path, body)
        if given in (needed, "admin"):
            assert answer.status_code not in (401, 403), answer.text
        else:
            assert (answer.status_code, problem(answer)) == (403, "scope-missing")
            assert answer.json()["scope"] == needed
            assert f'scope="{needed}"' in answer.headers["www-authenticate"]
            assert api.queue.topics.counts() == before


@pytest.mark.parametrize("scope", ACTIONS)
def test_a_token_of_other_topics_may_not(bearing, scope):
    api = bearing(scope, topics=("shop.*",))
    api.queue.put("mail", key="k")
    before = api.queue.topics.counts()
    for method, path, body in ACTIONS[scope]:
        answer = asked(api, method, path, body)
        if answer.status_code == 200:  # what it may not see is not there
            assert "mail" not in answer.text
        else:
            assert answer.status_code in (403, 404, 409), answer.text
        assert api.queue.topics.counts() == before
    assert api.queue.topics.list()[0].paused is False
    assert api.queue.topics.limits("mail") is None


def test_a_token_of_some_topics_works_on_those(bearing):
    api = bearing("put", "work", "read", "admin", topics=("shop.*",))
    id = api.put("shop.mail")
    api.queue.put("mail")
    [job] = api.reserve("shop.mail")
    assert job["id"] == id
    assert api("POST", f"/v1/claims/{job['receipt']}/ack").status_code == 204
    assert [job["topic"] for job in api("GET", "/v1/jobs").json()["jobs"]] == ["shop.mail"]
    assert list(api("GET", "/v1/counts").json()["topics"]) == ["shop.mail"]


def test_of_a_batch_every_topic_must_be_allowed(bearing):
    api = bearing("put", topics=("shop.*",))
    jobs = [{"topic": "shop.a"}, {"topic": "mail"}]
    assert problem(api("POST", "/v1/jobs/batch", json={"jobs": jobs})) == "scope-missing"
    assert api.queue.jobs.list() == []


@pytest.mark.parametrize(
    ("method", "path", "mend"),
    [("POST", "/v1/jobs/delete", "name one of its topics"), ("GET", "/metrics", "/v1/counts")],
)
def test_what_is_of_all_topics_needs_a_token_of_all_topics(bearing, method, path, mend):
    for topics, codes in ((("shop.*",), {403}), (("*",), {200, 501})):
        answer = asked(bearing("admin", topics=topics), method, path, {} if method == "POST" else None)
        assert answer.status_code in codes
        assert 200 in codes or (problem(answer), mend in answer.json()["detail"]) == ("scope-missing", True)


@pytest.mark.parametrize(("fresh", "reads"), [(600.0, 1), (0.0, 5)])
def test_a_token_is_read_once_for_the_requests_of_a_moment_and_then_again(bearing, monkeypatch, fresh, reads):
    read = []
    monkeypatch.setattr("pywheel.server.access._FRESH", fresh)
    api = bearing("read")
    when_asked(monkeypatch, api.queue.store, GetNote, read.append)
    for _ in range(5):
        assert api("GET", "/v1/topics").status_code == 200
    assert len(read) == reads


def test_a_search_tells_nothing_of_other_topics_by_where_it_goes_on(bearing):
    """Else who asks for one job at a time learns keys, due times and, letter by letter, errors."""
    api = bearing("read", topics=("shop.*",))
    for topic in ("bank.a", "bank.b", "bank.b"):
        api.queue.put(topic, delay=60, key=f"k{api.queue.topics.counts()}")
    nothing = {"jobs": [], "next": None}
    for words in ({}, {"state": "delayed"}, {"due_from": "2020-01-01T00:00:00Z"}):
        assert api("GET", "/v1/jobs", params={"limit": 1, **words}).json() == {**nothing, "looked": 0}
    api.queue.put("shop.a", key="k")
    api.queue.put("shop.b", key="k")
    api.queue.put("bank.a", key="k")
    first = api("GET", "/v1/jobs?key=k&limit=1").json()
    second = api("GET", "/v1/jobs", params={"key": "k", "limit": 1, "cursor": first["next"]}).json()
    assert [job["topic"] for job in (*first["jobs"], *second["jobs"])] == ["shop.a", "shop.b"]
    assert second["next"] is None


@pytest.mark.parametrize("path", ["/v1/events", "/live"])
def test_a_stream_ends_when_its_token_is_removed(guarded, queue, path):
    guarded.context.live.every = 0.05
    tokens = Tokens(queue.store)
    secret = tokens.add(["read"])

    async def scene():
        stream = await begun(guarded, path, secret)
        queue.put("before")
        while not any(b"before" in message.get("body", b"") for message in stream.sent):
            await asyncio.sleep(0.001)
        tokens.remove(secret.split("_")[1])
        guarded.context.access._known.clear()  # as seconds later
        queue.cancel(queue.put("secret"))
        await asyncio.wait_for(stream.request, 60)
        return stream.sent

    sent = guarded.run(scene())
    assert not any(b"secret" in message.get("body", b"") for message in sent)
    assert sent[-1].get("more_body", False) is False


def test_a_body_that_is_whole_after_its_token_was_removed_changes_nothing(bearing, queue):
    api = bearing("put")

    async def body():
        yield b'{"topic": "mail"'
        Tokens(queue.store).remove(api.headers["authorization"].split("_")[1])
        api.context.access._known.clear()  # as a second later
        yield b"}"

    answer = api("POST", "/v1/jobs", content=body(), headers={"content-type": "application/json"})
    assert (problem(answer), queue.jobs.list()) == ("token-unknown", [])


# ---- tokens that are none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        *(
            (given, "missing")
            for given in (None, "", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "Token x", "x" * 9_000)
        ),
        *((f"Bearer {given}", "unknown") for given in ("x", "pw_", "pw_x_y", "pw_\u00c3\u00a9", "x" * 500)),
    ],
)
def test_without_a_token_that_is_known_nothing_is_told_but_health(guarded, given, kind):
    headers = {} if given is None else {"authorization": given.encode("latin-1")}
    answer = guarded("GET", "/v1/jobs", headers=headers)
    assert (answer.status_code, problem(answer)) == (401, f"token-{kind}")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert guarded("GET", "/metrics", headers=headers).status_code in (401, 501)
    for path in ("/healthz", "/readyz", "/v1/openapi.json"):
        assert guarded("GET", path, headers=headers).status_code == 200


def test_a_token_in_the_address_is_none_and_a_cookie_is_for_the_page_alone(bearing):
    api = bearing("admin")
    secret = api.headers.pop("authorization").split()[1]
    for words in ({"params": {"token": secret}}, {"headers": {"cookie": f"pywheel_token={secret}"}}):
        assert problem(api("GET", "/v1/jobs", **words)) == "token-missing"


def test_many_wrong_tokens_are_slowed_down_and_those_that_work_are_not(bearing):
    api = bearing("read")
    assert api("GET", "/v1/topics").status_code == 200
    answers = [api("GET", "/v1/topics", headers={"authorization": f"Bearer x{n}"}) for n in range(40)]
    assert {problem(answer) for answer in answers} == {"token-unknown", "too-many-failures"}
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert api("GET", "/v1/topics").status_code == 200


def test_failures_are_forgiven_one_a_second_and_those_of_many_addresses_are_of_bounded_size():
    now = [0.0]
    failures = Failures(lambda: now[0])
    for _ in range(Failures.BURST + 1):
        failures.refuse("a")
        failures.count("a")
    with pytest.raises(Problem):
        failures.refuse("a")
    failures.refuse("b")
    now[0] += 1
    failures.refuse("a")
    for number in range(30_000):
        failures.count(str(number))
    assert len(failures) <= 10_000


class Trying:
    """Access for one address, by a clock that stands still. Wrong tokens are in a look-up until `answered` is set."""

    def __init__(self, queue):
        self.access = Access("tokens", Tokens(queue.store))
        self.access.failures = Failures(lambda: 0.0)
        self.asked, self.answered = [], asyncio.Event()

    def begin(self, secret):
        scope = {"client": ("10.0.0.1", 1), "headers": [(b"authorization", f"Bearer {secret}".encode())]}
        return asyncio.ensure_future(self.access.identify(scope, self._read))

    async def turns(self):
        for _ in range(20):
            await asyncio.sleep(0)

    async def _read(self, function, secret):
        self.asked.append(secret)
        if secret.startswith("x"):
            await self.answered.wait()
        return function(secret)


@pytest.mark.parametrize("earlier", [0, Failures.BURST])
def test_wrong_tokens_that_come_at_once_are_looked_up_no_more_often_than_one_after_the_other(queue, earlier):
    trying = Trying(queue)
    for _ in range(earlier):
        trying.access.failures.count("10.0.0.1")

    async def scene():
        requests = [trying.begin(f"x{number}") for number in range(500)]
        await trying.turns()
        assert len(trying.asked) == max(Failures.BURST - earlier, 1)
        trying.answered.set()
        return [error.kind for error in await asyncio.gather(*requests, return_exceptions=True)]

    kinds = asyncio.run(scene())
    assert set(kinds) == {"token-unknown", "too-many-failures"}
    assert kinds.count("token-unknown") == len(trying.asked) == Failures.BURST + 1 - earlier


def test_a_token_that_was_good_is_not_behind_others_and_a_cancelled_one_leaves_its_place(queue, monkeypatch):
    monkeypatch.setattr("pywheel.server.access._FRESH", 0.0)
    trying = Trying(queue)
    known, new = [Tokens(queue.store).add(["read"]) for _ in range(2)]

    async def scene():
        await trying.begin(known)
        for _ in range(Failures.BURST):
            trying.access.failures.count("10.0.0.1")
        looked_up, next_one, good = trying.begin("x1"), trying.begin("x2"), trying.begin(new)
        await trying.begin(known)
        await trying.turns()
        assert trying.asked == [known, "x1", known]
        next_one.cancel()
        looked_up.cancel()
        assert (await good).may("read")
        assert trying.asked[3:] == [new]

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_behind_a_proxy_the_address_is_what_the_proxy_says(serving):
    api = serving(access="tokens", proxies=["127.0.0.1"])  # which the client of the tests is
    for chain, kind in (
        *[("10.1.1.1, 10.0.0.1", None)] * 40,
        ("10.0.0.1", "too-many-failures"),
        ("10.0.0.2", "token-unknown"),
    ):
        answer = api("GET", "/v1/topics", headers={"authorization": "Bearer x", "x-forwarded-for": chain})
        assert kind in (None, problem(answer))


def test_a_proxy_is_known_by_its_address_on_a_server_that_listens_on_ipv6():
    access = Access("tokens", None, ["10.0.0.1"])
    headers = [(b"x-forwarded-for", b"192.0.2.7")]
    assert access._address({"client": ("::ffff:10.0.0.1", 5), "headers": headers}) == "192.0.2.7"


# ---- open -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", "localhost localhost:8080 127.0.0.1:1 127.9.9.9 [::1] [::1]:80 LOCALHOST".split())
def test_an_open_server_answers_to_loopback_names(api, host):
    assert api("GET", "/v1/topics", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", "127.0.0.1.evil.example"]
)
def test_an_open_server_answers_to_no_other_name(api, host):
    assert problem(api("GET", "/v1/topics", headers={"host": host})) == "bad-host"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("origin", value) for value in ("https://evil.example", "null", "http://localhost:81")),
        *(("sec-fetch-site", value) for value in ("cross-site", "same-site")),
    ],
)
def test_a_page_from_elsewhere_cannot_use_an_open_server_and_its_own_may(api, name, value):
    id = api.put(delay="1h")
    answer = api("POST", f"/v1/jobs/{id}/cancel", headers={name: value})
    assert (answer.status_code, problem(answer)) == (403, "foreign-origin")
    assert api.job(id)["state"] == "delayed"
    own = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert api("POST", f"/v1/jobs/{id}/cancel", headers=own).status_code == 204


# ---- other origins --------------------------------------------------------------------------------------------------


def test_no_other_origin_may_read_unless_it_is_named(guarded, serving):
    named = serving(access="tokens", cors=["https://shop.example"])
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,idempotency-key"}
    for api, origin, allowed in (
        (guarded, "https://shop.example", None),
        (named, "https://evil.example", None),
        (named, "https://shop.example", "https://shop.example"),
    ):
        answer = api("OPTIONS", "/v1/jobs", headers={"origin": origin, **asked})
        assert answer.headers.get("access-control-allow-origin") == allowed
    assert named("GET", "/v1/jobs", headers={"origin": "https://shop.example"}).status_code == 401
