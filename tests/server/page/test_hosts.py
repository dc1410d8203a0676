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
TOPICS = {NEAR: ["a.x"], FAR: ["b.y"], BOTH: ["a.x", "b.y"]}


def tokens():
    # "odd" has patterns that mean no topic of b, but what workers announce beside those of jobs.
    grants = {"some": ("a.*",), "odd": ("a.*", "e*", "[!b]*"), "all": ("*",)}
    return Known({name: Grant(name, frozenset({"admin"}), topics, None) for name, topics in grants.items()})


class Told:
    """Everything that a site tells a token."""

    def __init__(self, site, jobs):
        self.site = site
        self.jobs = jobs

    def __call__(self, token):
        """Return each answer by what was asked."""
        with self.site.client(token, authorization=f"Bearer {token}") as client:
            told = {path: self._answer(client.get(path)) for path in [*self._pages(), *self._api(client)]}
            for view in ("overview", "workers", "topic&topic=a.x", "topic&topic=b.y"):
                told[f"/live?view={view}"] = self._first(client, f"/live?view={view}", b"\n\n")
            told["/v1/events"] = self._first(client, "/v1/events", b"event: ended")
            for path, wish in self._posts():
                told[f"POST {path}"] = self._answer(client.post(path, json=wish))
        return told

    def _answer(self, answer):
        return f"{answer.headers} {answer.text}"

    def _pages(self):
        yield from "/ /jobs /dead /schedules /workers /outlets /coming /bulk/1 /sign-in /nothing /jobs/x".split()
        yield from ("/live?view=no", "/metrics", "/healthz", "/readyz")
        yield from (f"{path}?topic={topic}" for path in ("/coming", "/jobs") for topic in ("a.x", "b.y"))
        yield from (f"/jobs/{id}{more}" for id in self.jobs for more in ("", "/body"))

    def _api(self, client):
        paths = client.get("/v1/openapi.json").json()["paths"]
        for path in (path for path, methods in paths.items() if "get" in methods and path != "/v1/events"):
            if "by-key" in path:
                yield from (f"{path}?topic={topic}&key=k" for topic in ("a.x", "b.y"))
            elif "{id}" in path:
                yield from (path.replace("{id}", str(id)) for id in self.jobs)
            else:
                yield path

    def _posts(self):
        yield "/v1/jobs/delete", {"dry_run": True}
        for topic in ("a.x", "b.y"):
            yield "/v1/jobs", {"topic": topic, "key": "k", "delay": 600}
            yield "/v1/jobs/delete", {"topic": topic, "dry_run": True}
            yield "/v1/reserve", {"topics": [topic]}

    def _first(self, client, path, mark):
        """Return the beginning of a stream, or all of what is none."""
        headers = {"accept-encoding": "identity", "last-event-id": "1-1"}
        with client.stream("GET", path, headers=headers) as answer:
            content = b""
            for part in answer.iter_raw():
                content += part
                if answer.status_code == 200 and mark in content:
                    break
        return f"{answer.headers} {content.decode()}"


def where(told, text):
    return [asked for asked, answer in told.items() if text in answer]


@pytest.fixture
def told(tmp_path, sites):
    """What is told where there are workers of a.x, of b.y, and of both; and one who waits for b.z."""
    with contextlib.ExitStack() as stack:
        queue = stack.enter_context(JobQueue(f"sqlite:///{tmp_path}/hidden-place.db"))
        for topic in ("a.x", "b.y"):
            queue.handler(topic)(lambda job: None)
        jobs = []
        for host in (NEAR, FAR):
            with working(queue, name=f"{host}:{PROCESSES[host]}", topics=TOPICS[host]):
                jobs.append(queue.put(TOPICS[host][0]))
                finished(queue, jobs[-1])
        for host, process in PROCESSES.items():
            stack.enter_context(working(queue, name=f"{host}:{process}", topics=TOPICS[host]))
        site = sites(queue, known=tokens())
        client = stack.enter_context(site.client(authorization="Bearer all"))
        wish = {"topics": ["b.z"], "wait": 30}
        polling = threading.Thread(target=lambda: client.post("/v1/reserve", json=wish))
        polling.start()
        stack.callback(polling.join)
        stack.callback(queue.put, "b.z")
        until(lambda: {*PROCESSES, WAITING} <= {member.host for member in queue.store.ask(ListWorkers())})
        yield Told(site, jobs)


@pytest.mark.parametrize("token", ["some", "odd"])
def test_a_token_for_some_topics_is_not_told_where_others_are_worked_on_nor_where_the_store_is(told, token):
    answers = told(token)
    for secret in (FAR, PROCESSES[FAR], WAITING, "b.z", "hidden-place"):
        assert where(answers, secret) == []
    for host in (NEAR, BOTH):
        assert {"/workers", "/live?view=workers"} <= set(where(answers, host))
    id = told.jobs[0]
    assert {f"/jobs/{id}", f"/v1/jobs/{id}/history", "/v1/events"} <= set(where(answers, NEAR))
    assert '<a href="/workers">2</a>' in answers["/"]


def test_a_token_for_all_topics_is_told(told):
    answers = told("all")
    for text in (*PROCESSES, *PROCESSES.values(), WAITING, "hidden-place"):
        assert "/workers" in where(answers, text)
    assert {"/", "/live?view=workers", "/metrics"} & set(where(answers, "hidden-place")) == {"/", "/metrics"}
    assert '<a href="/workers">4</a>' in answers["/"]
