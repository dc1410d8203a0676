"""The HTTP API of a queue whose bodies are encrypted, with the key and without it."""

import pytest

from pywheel import JobQueue, Keyring
from pywheel.jobs.bodies import is_encrypted
from pywheel.jobs.queries import GetJob
from pywheel.stores import open as open_store
from pywheel.testing import run_due
from tests.server.client import problem

KEYRING = Keyring({"a": bytes(range(32))})


@pytest.fixture
def store():
    with open_store("memory:") as store:
        yield store


@pytest.fixture
def service(store, serving):
    """Return the service of the store, with a keyring or without."""
    return lambda keyring: serving(JobQueue(store, encryption=keyring))


@pytest.fixture
def sealed(store, service):
    """A service without the key, and a job that it cannot read."""
    JobQueue(store, encryption=KEYRING).put("sealed", {"card": "hush"})
    return service(None)


def test_with_the_key_clients_see_and_get_plain_bodies(store, service):
    api = service(KEYRING)
    id = api.put("t", body={"card": "hush"})
    assert is_encrypted(store.ask(GetJob(int(id))).body)
    assert api.job(id)["body"] == {"card": "hush"}
    assert api("GET", "/v1/jobs").json()["jobs"][0]["body"] == {"card": "hush"}
    wish = {"json": {"topics": ["t"], "wait": 1}, "headers": {"idempotency-key": "k"}}
    [job], again = (api("POST", "/v1/reserve", **wish).json()["jobs"] for _ in range(2))  # the first answer was lost
    assert job["body"] == {"card": "hush"}
    assert again == [job]
    assert "encrypted" not in job
    assert api("POST", f"/v1/claims/{job['receipt']}/ack").status_code == 204


def test_without_the_key_they_see_that_it_is_encrypted_and_get_no_claim(store, sealed):
    for job in (sealed.job(1), *sealed("GET", "/v1/jobs").json()["jobs"]):
        assert job["encrypted"] == "a"
        assert not job.keys() & {"body", "body_base64"}
    for wait in (0, 1):
        refused = sealed("POST", "/v1/reserve", json={"topics": ["sealed"], "wait": wait})
        assert (refused.status_code, problem(refused), refused.headers["retry-after"]) == (503, "no-key", "60")
        assert "'a'" in refused.json()["detail"]
    sealed.put("sealed", body=5)
    assert [job["body"] for job in sealed.reserve("sealed")] == [5]
    job = store.ask(GetJob(1))
    assert (job.state, job.attempt) == ("delayed", 0)


def test_a_result_is_plain_with_the_key_and_said_to_be_encrypted_without_it(store, service):
    queue = JobQueue(store, encryption=KEYRING)
    queue.handler("t", results=True)(lambda job: {"card": "hush"})
    id = queue.put("t")
    run_due(queue)
    for keyring, said in ((KEYRING, {"result": {"card": "hush"}}), (None, {"encrypted": "a"})):
        [attempt] = service(keyring)("GET", f"/v1/jobs/{id}/history").json()["attempts"]
        assert said.items() <= attempt.items()
        assert len(attempt.keys() & {"result", "result_base64", "encrypted"}) == 1


@pytest.mark.parametrize("wait", [0, 1])
@pytest.mark.parametrize("topics", [["plain", "sealed"], ["sealed", "plain"]])
def test_what_can_be_read_is_claimed_whatever_stands_beside_it(sealed, topics, wait):
    id = sealed.put("plain", body=5)
    [job] = sealed.reserve(*topics, limit=10, wait=wait)
    assert (job["id"], job["attempt"]) == (id, 1)
    assert problem(sealed("POST", "/v1/reserve", json={"topics": topics})) == "no-key"


def test_who_waits_beside_what_cannot_be_read_gets_what_comes(sealed):
    async def scene():
        waiting = sealed.waits("sealed", "plain")
        await sealed.waiting()
        await sealed.queue.aio.put("plain", 5)
        return await waiting

    assert [job["body"] for job in sealed.run(scene()).json()["jobs"]] == [5]
