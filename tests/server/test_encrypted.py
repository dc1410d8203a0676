"""The HTTP API of a queue whose bodies are encrypted, with the key and without it."""

import pytest
from starlette.testclient import TestClient

from pywheel import JobQueue, Keyring
from pywheel.jobs.bodies import is_encrypted
from pywheel.server import app
from pywheel.stores import open as open_store

KEYRING = Keyring({"a": bytes(range(32))})


@pytest.fixture
def store():
    with open_store("memory:") as store:
        yield store


def client(store, keyring):
    return TestClient(app(JobQueue(store, encryption=keyring), access="open"), base_url="http://localhost")


def test_with_the_key_clients_see_and_get_plain_bodies(store):
    with client(store, KEYRING) as http:
        id = http.post("/v1/jobs", json={"topic": "t", "body": {"card": "hush"}}).json()["id"]
        assert is_encrypted(store.get(int(id)).body)
        assert http.get(f"/v1/jobs/{id}").json()["body"] == {"card": "hush"}
        [job] = http.post("/v1/reserve", json={"topics": ["t"], "wait": 1}).json()["jobs"]
        assert job["body"] == {"card": "hush"}
        assert "encrypted" not in job
        assert http.post(f"/v1/claims/{job['receipt']}/ack").status_code == 204


def test_without_the_key_they_see_that_it_is_encrypted_and_get_no_claim(store):
    id = JobQueue(store, encryption=KEYRING).put("t", {"card": "hush"})
    with client(store, None) as http:
        for job in (http.get(f"/v1/jobs/{id}").json(), *http.get("/v1/jobs").json()["jobs"]):
            assert job["encrypted"] == "a"
            assert not job.keys() & {"body", "body_base64"}
        for wait in (0, 1):
            refused = http.post("/v1/reserve", json={"topics": ["t"], "wait": wait})
            assert refused.status_code == 503
            assert refused.json()["type"] == "urn:pywheel:problem:no-key"
            assert refused.headers["retry-after"] == "60"
            assert "'a'" in refused.json()["detail"]
        http.post("/v1/jobs", json={"topic": "t", "body": 5})
        [job] = http.post("/v1/reserve", json={"topics": ["t"]}).json()["jobs"]
        assert job["body"] == 5
    job = store.get(id)
    assert (job.state, job.attempt) == ("delayed", 0)
