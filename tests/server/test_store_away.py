"""Answers of a server with tokens while its store is away: none says where the store is; the log does."""

import pytest

from pywheel import JobQueue
from pywheel.server.tokens import Tokens
from tests.jobs.waiting import until
from tests.server.client import Process, bearer, problem

MADE_UP = "pw_" + "0" * 12 + "_" + "x" * 43
DETAIL = "on purpose"  # of the error of the store
FORM = {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"}
REQUESTS = [
    ("GET", "/readyz", {}), ("GET", "/metrics", {}), ("GET", "/v1/topics", {}), ("GET", "/v1/counts", {}),
    ("GET", "/v1/jobs", {}), ("GET", "/v1/jobs/1", {}),
    ("GET", "/v1/events", {"headers": {"last-event-id": "1-1"}}), ("GET", "/v1/schedules", {}),
    ("POST", "/v1/jobs", {"json": {"topic": "a"}}),
    ("POST", "/v1/jobs/batch", {"json": {"jobs": [{"topic": "a"}]}}),
    ("POST", "/v1/jobs/retry", {"json": {"topic": "a"}}), ("POST", "/v1/jobs/1/cancel", {}),
    ("POST", "/v1/reserve", {"json": {"topics": ["a"]}}),
    ("POST", "/v1/reserve", {"json": {"topics": ["a", "b"], "wait": "10ms"}}), ("POST", "/v1/claims/MS4x/ack", {}),
    ("POST", "/v1/topics/a/pause", {}), ("GET", "/", {}), ("GET", "/workers", {}), ("GET", "/coming", {}),
    ("GET", "/jobs", {}), ("GET", "/jobs/1", {}), ("GET", "/dead", {}), ("GET", "/outlets", {}),
    ("GET", "/schedules", {}), ("GET", "/sign-in", {}),
    ("POST", "/sign-in", {"content": f"token={MADE_UP}", "headers": FORM}),
    ("POST", "/sign-in", {"content": "token=x", "headers": {**FORM, "origin": "https://elsewhere.example"}}),
    ("POST", "/topics", {"content": "topic=a&action=pause", "headers": FORM}),
    ("POST", "/jobs/1", {"content": "action=cancel", "headers": FORM}),
    ("POST", "/jobs", {"content": "action=cancel", "headers": FORM}),
]  # fmt: skip


def bearing(secret, words):
    """Return the words of a request with a token, for the API and the page."""
    return {**words, "headers": bearer(secret) | words.get("headers", {})}


@pytest.mark.parametrize("known", [False, True], ids=["a made-up token", "a good token"])
def test_nobody_is_told_where_the_store_is_while_it_is_away(faulty, known, caplog):
    api = faulty(access="tokens")
    store = api.queue.store
    secret = Tokens(store).add(["admin"]) if known else MADE_UP
    for method, path, words in REQUESTS:
        store.away = False
        if known:  # the store goes away behind the look at the token
            assert api("GET", "/v1/topics", **bearing(secret, {})).status_code == 200
        store.away = True
        answer = api(method, path, **bearing(secret, words))
        said = answer.text + repr(answer.headers)
        assert DETAIL not in said, (method, path)
        if not known or not path.startswith("/v1"):
            assert "secret.db" not in said.replace(store.url, "", known), (method, path)  # a footer
    assert DETAIL in caplog.text


def test_who_is_alone_with_an_open_server_is_told_why(faulty):
    api = faulty()
    api.queue.store.away = True
    for path in ("/v1/counts", "/readyz"):
        assert DETAIL in api("GET", path).json()["detail"]


def test_the_log_says_once_a_second_why_a_store_is_away(faulty, caplog):
    """However many ask."""
    api = faulty(access="tokens")
    api.queue.store.away = True
    for number in range(50):
        api("GET", "/v1/topics", headers={"authorization": f"Bearer {MADE_UP[:-2]}{number:02}"})
    assert 1 <= caplog.text.count(DETAIL) < 25


@pytest.mark.drawn(1)
@pytest.mark.servers
@pytest.mark.parametrize("kind", ["postgres", "mariadb", "redis"])
def test_a_server_whose_database_is_away_says_nothing_of_it(kind, request, tmp_path):
    database = request.getfixturevalue(f"{kind}_server")
    url = database.url()
    with JobQueue(url) as queue:
        secret = Tokens(queue.store).add(["put"])
    words = {"headers": {"authorization": f"Bearer {secret}"}, "json": {"topic": "a"}}
    with Process(tmp_path, store=url) as server:
        for _ in range(3):  # the third time the short way
            assert server("POST", "/v1/jobs", **words).status_code == 201
        database.kill()
        try:
            answers = [server("POST", "/v1/jobs", **words) for _ in range(2)]
            answers += [server(method, path, **bearing(MADE_UP, words)) for method, path, words in REQUESTS[:9]]
        finally:
            database.start()
        said = "\n".join(answer.text for answer in answers)
        for word in (str(database.folder), url, "pywheel@", "127.0.0.1", "localhost", "socket", "refused"):
            assert word not in said
        assert [(answer.status_code, problem(answer)) for answer in answers[:2]] == [(503, "store-away")] * 2
        assert str(database.folder) in server.log.read_text()
        until(lambda: server("GET", "/readyz").status_code == 200)
