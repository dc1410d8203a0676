"""The HTTP API of a queue whose bodies are encrypted, with the key and without it."""

import pytest

from pywheel import JobQueue, Keyring
from pywheel.jobs.bodies import is_encrypted
from pywheel.stores import open as open_store
from pywheel.testing import run_due
from tests.server.client import Api

KEYRING = Keyring({"a": bytes(range(32))})


@pytest.fixture
def store():
    with open_store("memory:") as store:
        yield store


@pytest.fixture
def service(store):
    """Return the service of the store, with a keyring or without."""
    made = []

    def service(keyring):
        made.append(Api(JobQueue(store, encryption=keyring)))
        return made[-1]

    yield service
    for api in made:
        api.close()


def test_with_the_key_clients_see_and_get_plain_bodies(store, service):
    api = service(KEYRING)
    id = api.put("t", body={"card": "hush"})
    assert is_encrypted(store.get(int(id)).body)
    assert api.job(id)["body"] == {"card": "hush"}
    assert api("GET", "/v1/jobs").json()["jobs"][0]["body"] == {"card": "hush"}
    [job] = api.reserve("t", wait=1)
    assert job["body"] == {"card": "hush"}
    assert "encrypted" not in job
    assert api("POST", f"/v1/claims/{job['receipt']}/ack").status_code == 204


def test_without_the_key_they_see_that_it_is_encrypted_and_get_no_claim(store, service):
    id = JobQueue(store, encryption=KEYRING).put("t", {"card": "hush"})
    api = service(None)
    for job in (api.job(id), *api("GET", "/v1/jobs").json()["jobs"]):
        assert job["encrypted"] == "a"
        assert not job.keys() & {"body", "body_base64"}
    for wait in (0, 1):
        refused = api("POST", "/v1/reserve", json={"topics": ["t"], "wait": wait})
        assert refused.status_code == 503
        assert refused.json()["type"] == "urn:pywheel:problem:no-key"
        assert refused.headers["retry-after"] == "60"
        assert "'a'" in refused.json()["detail"]
    api.put("t", body=5)
    [job] = api.reserve("t")
    assert job["body"] == 5
    job = store.get(id)
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
