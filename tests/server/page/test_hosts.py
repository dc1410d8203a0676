"""Only visitors who may see the work of workers and stores learn where these are."""

import contextlib
import socket
import threading

import pytest

from pywheel import JobQueue
from pywheel.jobs.queries import ListWorkers
from pywheel.server.tokens import Grant
from tests.jobs.waiting import finished, until, working

from .site import Known

NEAR, FAR, BOTH = "near.example", "far.example", "both.example"
PROCESSES = {NEAR: "77770001", FAR: "77770002", BOTH: "77770003"}
WAITING = f"http:{socket.gethostname()}"
BOTH_TOPICS = ["a.x", "b.y"]
TOPICS = {NEAR: ["a.x"], FAR: ["b.y"], BOTH: BOTH_TOPICS}


def tokens():
    # "odd" has patterns that mean no topic of b, but what workers announce beside those of jobs.
    grants = {"some": ("a.*",), "odd": ("a.*", "e*", "[!b]*"), "all": ("*",)}
    return Known({name: Grant(name, frozenset({"admin"}), topics, None) for name, topics in grants.items()})


PAGES = (
    *"/ /jobs /dead /schedules /workers /outlets /coming /bulk/1 /sign-in /nothing /jobs/x /live?view=no".split(),
    *("/metrics", "/healthz", "/readyz"),
    *(f"{path}?topic={topic}" for path in ("/coming", "/jobs") for topic in BOTH_TOPICS),
)
STREAMS = {
    **{f"/live?view={view}": b"\n\n" for view in ("overview", "workers", "topic&topic=a.x", "topic&topic=b.y")},
    "/v1/events": b"event: ended",
}
WISHES = [
    ("/v1/jobs/delete", {"dry_run": True}),
    *(("/v1/jobs", {"topic": topic, "key": "k", "delay": 600}) for topic in BOTH_TOPICS),
    *(("/v1/jobs/delete", {"topic": topic, "dry_run": True}) for topic in BOTH_TOPICS),
    *(("/v1/reserve", {"topics": [topic]}) for topic in BOTH_TOPICS),
]


def addresses(client, jobs):
    """Yield what can be looked at: the pages, and every GET of the API."""
    yield from PAGES
    yield from (f"/jobs/{id}{more}" for id in jobs for more in ("", "/body"))
    paths = client.get("/v1/openapi.json").json()["paths"]
    for path in (path for path, methods in paths.items() if "get" in methods and path not in STREAMS):
        if "by-key" in path:
            yield from (f"{path}?topic={topic}&key=k" for topic in BOTH_TOPICS)
        else:
            yield from {path.replace("{id}", str(id)) for id in jobs}


def first(client, path, mark):
    """Return the beginning of a stream, or all of what is none."""
    with client.stream("GET", path, headers={"accept-encoding": "identity", "last-event-id": "1-1"}) as answer:
        content = b""
        for part in answer.iter_raw():
            content += part
            if answer.status_code == 200 and mark in content:
                break
    return f"{answer.headers} {content.decode()}"


def told_by(site, token, jobs):
    """Return everything that a site tells a token, by what was asked."""
    with site.client(token, authorization=f"Bearer {token}") as client:
        answers = {path: client.get(path) for path in addresses(client, jobs)}
        answers |= {f"POST {path} {wish}": client.post(path, json=wish) for path, wish in WISHES}
        told = {asked: f"{answer.headers} {answer.text}" for asked, answer in answers.items()}
        return told | {path: first(client, path, mark) for path, mark in STREAMS.items()}


def where(told, text):
    return [asked for asked, answer in told.items() if text in answer]


@pytest.fixture
def told(tmp_path, sites):
    """What is told where there are workers of a.x, of b.y, and of both; and one who waits for b.z."""
    with contextlib.ExitStack() as stack:
        queue = stack.enter_context(JobQueue(f"sqlite:///{tmp_path}/hidden-place.db"))
        for topic in BOTH_TOPICS:
            queue.handler(topic)(lambda job: None)
        jobs = []
        for host, process in PROCESSES.items():
            stack.enter_context(working(queue, name=f"{host}:{process}", topics=TOPICS[host]))
            if host != BOTH:  # each of the others does a job
                jobs.append(queue.put(TOPICS[host][0]))
                finished(queue, jobs[-1])
        site = sites(queue, known=tokens())
        client = stack.enter_context(site.client(authorization="Bearer all"))
        wish = {"topics": ["b.z"], "wait": 30}
        polling = threading.Thread(target=lambda: client.post("/v1/reserve", json=wish))
        polling.start()
        stack.callback(polling.join)
        stack.callback(queue.put, "b.z")
        until(lambda: {*PROCESSES, WAITING} <= {member.host for member in queue.store.ask(ListWorkers())})
        yield jobs[0], lambda token: told_by(site, token, jobs)


@pytest.mark.parametrize("token", ["some", "odd"])
def test_a_token_for_some_topics_is_not_told_where_others_are_worked_on_nor_where_the_store_is(told, token):
    id, ask = told
    answers = ask(token)
    for secret in (FAR, PROCESSES[FAR], WAITING, "b.z", "hidden-place"):
        assert where(answers, secret) == []
    for host in (NEAR, BOTH):
        assert {"/workers", "/live?view=workers"} <= set(where(answers, host))
    assert {f"/jobs/{id}", f"/v1/jobs/{id}/history", "/v1/events"} <= set(where(answers, NEAR))
    assert '<a href="/workers">2</a>' in answers["/"]


def test_a_token_for_all_topics_is_told(told):
    _, ask = told
    answers = ask("all")
    for text in (*PROCESSES, *PROCESSES.values(), WAITING, "hidden-place"):
        assert "/workers" in where(answers, text)
    assert {"/", "/live?view=workers", "/metrics"} & set(where(answers, "hidden-place")) == {"/", "/metrics"}
    assert '<a href="/workers">4</a>' in answers["/"]
